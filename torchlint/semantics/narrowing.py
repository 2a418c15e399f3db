"""What a condition says of names where it holds, and where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    NEVER,
    Array,
    Class,
    Dictionary,
    Instance,
    Library,
    Nothing,
    Number,
    Object,
    Sequence,
    Tensor,
    Text,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value

_TYPES: dict[str, tuple[type, ...]] = {
    "builtins.int": (Number, Truth), "builtins.float": (Number,), "builtins.bool": (Truth,),
    "builtins.str": (Text,), "builtins.list": (Sequence,), "builtins.tuple": (Sequence,),
    "builtins.set": (Sequence,), "builtins.dict": (Dictionary,), "torch.Tensor": (Tensor,),
    "numpy.ndarray": (Array,), "torch.is_tensor": (Tensor,),
}  # fmt: skip
_ALL = tuple({kind for kinds in _TYPES.values() for kind in kinds})


def decided(value: Value, test: cst.BaseExpression) -> bool | None:
    """Return what a condition always is, None where it may be either.

    Only what the code itself says: a default of an option, or an argument, may be another.
    """
    match test:
        case cst.Name(value="True" | "False") | cst.Integer():
            return is_true(value)
    return False if value == (Library("typing.TYPE_CHECKING"),) else None


def is_true(value: Value) -> bool | None:
    """Return whether a value counts as true, None where it may be either."""
    found = {_truth(one) for one in value}
    return found.pop() if len(found) == 1 else None


def _truth(one: Alternative) -> bool | None:
    match one:
        case Nothing():
            return False
        case Truth(value=known) | Number(value=known) | Text(value=known):
            return None if known is None else bool(known)
        case Instance() | Object() | Library() | Class():
            return True
    return None


def narrow(run: Run, test: cst.BaseExpression, *, truth: bool) -> None:
    """Let names be only what they may be where a condition is so."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            narrow(run, inner, truth=not truth)
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right) if truth:
            narrow(run, left, truth=True)
            narrow(run, right, truth=True)
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right) if not truth:
            narrow(run, left, truth=False)
            narrow(run, right, truth=False)
        case cst.Name():
            _keep(run, test, lambda one: _truth(one) is not (not truth))
        case cst.Comparison(
            left=cst.Name() as name,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Is() | cst.IsNot() as operator,
                    comparator=cst.Name(value="None"),
                )
            ],
        ):
            if isinstance(operator, cst.Is) is truth:
                _keep(run, name, lambda one: isinstance(one, (Nothing, Unknown)), NEVER)
            else:
                _keep(run, name, lambda one: not isinstance(one, Nothing))
        case cst.Call(func=func, args=[cst.Arg(value=cst.Name() as name), *rest]):
            _by_type(run, name, run.evaluation.value(func), rest, truth=truth)


def _by_type(
    run: Run, name: cst.Name, function: Value, rest: Iterable[cst.Arg], *, truth: bool
) -> None:
    match function:
        case (Library(name="builtins.isinstance"),):
            types = [run.evaluation.value(arg.value) for arg in rest]
        case (Library(name="torch.is_tensor"),):
            types = [function]
        case _:
            return
    flat = [one for value in types for one in value]
    names = [
        inner
        for one in flat
        for inner in (
            [part for element in one.elements or () for part in element]
            if isinstance(one, Sequence)
            else [one]
        )
    ]
    kinds: tuple[type, ...] = ()
    for one in names:
        if not isinstance(one, Library) or one.name not in _TYPES:
            return
        kinds += _TYPES[one.name]
    if not kinds:
        return

    def fits(one: Alternative) -> bool:
        return not isinstance(one, (*_ALL, Nothing)) or isinstance(one, kinds) is truth

    _keep(run, name, fits, run.sets.unknown)


def _keep(
    run: Run, name: cst.Name, fits: Callable[[Alternative], bool], other: Value | None = None
) -> None:
    """Keep of a name's value what fits; where nothing does, the other or, without, all of it."""
    where = run.evaluation.where.get(id(name))
    if where is None or not isinstance(where, (str, tuple)):
        return
    seen = run.env.get(where)
    if seen is None:
        return
    kept = [one for one in seen[0] if fits(one)]
    if len(kept) < len(seen[0]):
        left = run.sets.of(kept) if kept else other
        run.env[where] = seen[0] if left is None else left, seen[1]
