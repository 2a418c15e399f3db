"""Of which type the numbers of an array are: what NumPy calls it, "" where that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.sets import flat
from torchlint.semantics.values import Array, Library, Number, Sequence, Text, Truth

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

from torchlint.semantics.values import Alternative, Value

_KNOWN = frozenset("float16 float32 float64 int8 int16 int32 int64 uint8 bool".split())
# Of which type the numbers are that these give, where they are asked for none ...
FLOATS = frozenset("zeros ones empty eye identity linspace logspace geomspace".split())
# ... and what gives numbers of the type of those that it is given.
SCALARS = frozenset("float16 float32 float64 double int8 int16 int32 int64 uint8 bool_".split())
SAME = frozenset(  # gives the memory that it is given, where that is an array
    """asarray asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d reshape ravel transpose
    squeeze expand_dims swapaxes moveaxis rollaxis""".split()
)
ROUNDED = frozenset("clip round around abs absolute".split())
KEEPS = SAME | frozenset(
    """array copy stack concatenate hstack vstack dstack row_stack column_stack tile repeat pad roll
    sort tril triu zeros_like ones_like full_like empty_like append insert delete unique
    choice permutation flip""".split()
)
TYPES = {
    "float": "float64", "double": "float64", "single": "float32", "half": "float16",
    "int": "int64", "int_": "int64", "bool_": "bool", "float_": "float64",
}  # fmt: skip
PLACES = {"full": 2, "full_like": 2, "arange": 3, "asarray": 1, "array": 1, "randint": 3,
          "frombuffer": 1, "fromfile": 1, "fromiter": 1, "identity": 1}  # fmt: skip
PLACES |= dict.fromkeys(("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like"), 1)


def own_dtype(short: str, plain: Several[Value], *, is_random: bool) -> str:
    """Return of which type the numbers are that a function gives which is asked for no type."""
    if short in SCALARS:
        return TYPES.get(short, short)
    first = plain[0] if plain else ()
    given = _types(first)
    if short in ("choice", "permutation") and any(isinstance(one, Number) for one in first):
        return "int64"
    if short in KEEPS:
        return _only(given)
    if short in FLOATS or (is_random and short not in ("randint", "integers")):
        return "float64"
    if short == "arange":
        return _only({kind for one in plain for kind in _types(one)})
    return "int64" if is_random else _only(given) if short in ROUNDED else ""


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


def _types(value: Value) -> set[str]:
    """Return of which types the numbers in a value may be."""
    found = set[str]()
    for one in flat(value):
        match one:
            case Array(dtype=dtype):
                found.add(dtype)
            case Number(value=number):
                known = "float64" if str(number).count(".") else "int64"
                found.add("" if number is None else known)
            case Truth():
                found.add("bool")
            case Sequence():
                pass
            case _:
                found.add("")
    return found


def _only(kinds: set[str]) -> str:
    return next(iter(kinds)) if len(kinds) == 1 else ""


def computed(one: Alternative, other: Alternative) -> str:
    """Return of which type an array is that arithmetic makes of two values."""
    types = {each.dtype for each in (one, other) if isinstance(each, Array)}
    plain = [each for each in (one, other) if not isinstance(each, Array)]
    is_python = all(isinstance(each, Number) and each.value is not None for each in plain)
    found = _only(types)
    return found if found == "float64" or (is_python and found.startswith("float")) else ""
