"""Of which type the numbers of an array are: what NumPy calls it, "" where that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.sets import flat
from torchlint.semantics.values import Library, Sequence, Text

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.values import Value


_KNOWN = frozenset("float16 float32 float64 int8 int16 int32 int64 uint8 bool".split())
# Of which type the numbers are that these give, where they are asked for none ...
FLOATS = frozenset("zeros ones empty eye identity linspace logspace geomspace".split())
# ... and what gives numbers of the type of those that it is given.
SCALARS = frozenset("float16 float32 float64 double int8 int16 int32 int64 uint8 bool_".split())
SAME = frozenset(  # gives the memory that it is given, where that is an array
    """asarray asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d reshape ravel transpose
    squeeze expand_dims swapaxes moveaxis rollaxis""".split()
)
KEEPS = SAME | frozenset(
    """array copy stack concatenate hstack vstack dstack row_stack column_stack tile repeat pad roll
    sort tril triu zeros_like ones_like full_like empty_like append insert delete unique
    choice permutation flip""".split()
)
_TYPES = """float=float64 double=float64 single=float32 half=float16 int=int64 int_=int64
    bool_=bool float_=float64"""
TYPES = {name: kind for name, _, kind in (one.partition("=") for one in _TYPES.split())}
PLACES = {"full": 2, "full_like": 2, "arange": 3, "randint": 3}
PLACES |= dict.fromkeys(
    """asarray array frombuffer fromfile fromiter identity zeros ones empty zeros_like ones_like
    empty_like""".split(),
    1,
)


def own_dtype(short: str, plain: Several[Value]) -> str:
    """Return of which type the numbers are that a function gives which is asked for no type."""
    if short in SCALARS:
        return TYPES.get(short, short)
    if short in FLOATS:
        return "float64"
    given = [one for value in plain[:1] for one in flat(value) if not isinstance(one, Sequence)]
    kinds = {getattr(one, "dtype", "") for one in given}
    return kinds.pop() if short in KEEPS and len(kinds) == 1 else ""


def dtype_named(value: Value) -> str:
    """Return what NumPy calls a type: ``float``, ``np.float32``, ``"float32"``."""
    match value:
        case (Library(name=name),):
            short = name.rpartition(".")[2]
        case (Text(value=str(short)),):
            pass
        case _:
            return ""
    found = TYPES.get(short, short)
    return found if found in _KNOWN else ""
