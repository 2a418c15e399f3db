"""Operators, items and iteration: what comes of values by Python's own syntax."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics.sets import parts_of
from torchlint.semantics.tensors import mixed
from torchlint.semantics.values import (
    NEVER,
    RANK,
    UNKNOWN,
    Array,
    Dictionary,
    Guess,
    Instance,
    Iterator,
    Library,
    Loaded,
    Number,
    Object,
    Parameters,
    Sequence,
    Tensor,
    Text,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Several

    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    cst.Add: operator.add, cst.Subtract: operator.sub, cst.Multiply: operator.mul,
    cst.Divide: operator.truediv, cst.FloorDivide: operator.floordiv, cst.Modulo: operator.mod,
    cst.AddAssign: operator.add, cst.SubtractAssign: operator.sub,
    cst.MultiplyAssign: operator.mul, cst.DivideAssign: operator.truediv,
}  # fmt: skip
_LARGEST = 1e15


def combined(
    run: Run, node: cst.BinaryOperation | cst.AugAssign, left: Value, right: Value
) -> Value:
    """Return ``left + right``, for any operator of arithmetic."""
    work = _ARITHMETIC.get(type(node.operator))
    found = [
        _combined(run, node, work, one, other) for one in left or (UNKNOWN,) for other in right
    ]
    return run.sets.of(found) if found else run.sets.unknown


def _combined(
    run: Run,
    node: cst.BinaryOperation | cst.AugAssign,
    work: Callable[[Any, Any], Any] | None,
    one: Alternative,
    other: Alternative,
) -> Alternative:
    match one, other:
        case (Tensor(), _) | (_, Tensor()):
            made = mixed(one, other)
            return made if run.records else replace(made, graph=())
        case (Array(), _) | (_, Array()):
            arrays = [each for each in (one, other) if isinstance(each, Array)]
            read = next((each.read for each in arrays if each.read), None)
            return replace(arrays[0], read=read, dtype="", made=run.at(node))
        case (Number() | Truth(), Number() | Truth()):
            read = next((each.read for each in (one, other) if isinstance(each, Number)), None)
            return Number(_calculated(work, one.value, other.value), read)
        case (Text(value=str(first)), Text(value=str(second))) if work is operator.add:
            return Text(first + second)
        case (Text(), _):
            return Text()
        case (Sequence(), Sequence()) if work is operator.add:
            return _chained(run, one, other)
        case (Sequence(), Number() | Unknown()) if work is operator.mul:
            return Sequence(one.kind, None, run.sets.all(parts_of(one)), None)
    return UNKNOWN


def _calculated(work: Callable[[Any, Any], Any] | None, one: Any, other: Any) -> float | None:
    if work is None or one is None or other is None:
        return None
    try:
        found = work(one, other)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return found if abs(found) < _LARGEST else None


def _chained(run: Run, one: Sequence, other: Sequence) -> Sequence:
    element = run.sets.union(one.element, other.element)
    if one.elements is None or other.elements is None:
        held = run.sets.all((*parts_of(one), *parts_of(other)))
        return Sequence(one.kind, None, held, one.made)
    return Sequence(one.kind, (*one.elements, *other.elements), element, one.made)


def negated(run: Run, node: cst.UnaryOperation, value: Value) -> Value:
    """Return ``-value``, ``not value`` and the like."""
    if isinstance(node.operator, cst.Not):
        known = {one.value if isinstance(one, Truth) else None for one in value}
        only = known.pop() if len(known) == 1 else None
        option = next((one.option for one in value if isinstance(one, Truth)), None)
        return run.one(Truth(None if only is None else not only, option))
    is_minus = isinstance(node.operator, cst.Minus)
    found: list[Alternative] = []
    for one in value:
        if isinstance(one, Number) and is_minus and one.value is not None:
            found.append(Number(-one.value, one.read))
        elif isinstance(one, Tensor):
            found.append(mixed(one, Number()))
        elif isinstance(one, Array):
            found.append(replace(one, made=run.at(node)))
        else:
            found.append(one if isinstance(one, Number) else UNKNOWN)
    return run.sets.of(found)


def compared(run: Run, node: cst.Comparison, left: Value, values: Several[Value]) -> Value:
    """Return what a comparison gives: a bool, or a mask where a tensor is compared."""
    operators = [target.operator for target in node.comparisons]
    asks = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
    sides = [left, *values]
    if any(isinstance(one, asks) for one in operators):
        return run.one(Truth())
    tensors = [one for side in sides for one in side if isinstance(one, Tensor)]
    arrays = any(isinstance(one, Array) for side in sides for one in side)
    plain = any(isinstance(one, (Text, type(None))) for side in sides for one in side)
    if plain or not (tensors or arrays):
        return run.one(Truth())
    is_sure = any(side and all(isinstance(one, Tensor) for one in side) for side in sides)
    if arrays and not tensors:
        return run.sets.of([Array(dtype="bool"), Truth()])
    mask = tensors[0]
    for other in tensors[1:]:
        mask = mixed(mask, other)
    mask = replace(mask, dtype="bool", graph=(), made=None, loaded=Loaded.NO)
    return run.sets.of([mask] if is_sure else [mask, Truth()])


def element_of(run: Run, value: Value) -> Value:
    """Return what going through a value gives."""
    return run.sets.each(value, lambda one: _element(run, one)) if value else run.sets.unknown


def _element(run: Run, one: Alternative) -> Value:
    match one:
        case Sequence(made=made):
            return run.sets.all([*parts_of(one), run.evaluation.put_into(run, made)])
        case Iterator(element=element):
            return element
        case Tensor():
            return run.one(replace(one, made=None))
        case Array():
            return run.sets.of([Array(one.batch, one.read, one.dtype), Number(None, one.read)])
        case Dictionary() | Text():
            return run.one(Text())
        case Parameters():
            return run.one(Tensor())
        case Instance() | Object() | Guess():
            return run.evaluation.gone_through(run, one)
    return run.sets.unknown


def part_of(run: Run, value: Value, place: int, count: int, rest: int | None) -> Value:
    """Return what unpacking gives to one of several targets; ``rest`` is the place of ``*rest``."""

    def part(one: Alternative) -> Value:
        match one:
            case Sequence(elements=tuple(elements)) if rest is None and len(elements) == count:
                return elements[place]
            case Sequence(elements=tuple(elements)) if rest is not None and (
                len(elements) >= count - 1
            ):
                if place == rest:
                    left = elements[place : len(elements) - (count - place - 1)]
                    return run.sets.nested(Sequence("list", left, NEVER, None))
                return elements[place if place < rest else place - count]
            case Sequence() | Iterator() | Array() | Tensor() if place == rest:
                element = part_of(run, run.one(one), 0, count, None)
                return run.sets.nested(Sequence("list", None, element, None))
            case Sequence() | Iterator() | Array():
                return _element(run, one)
            case Tensor():
                return run.one(replace(one, made=None))
        return run.sets.unknown

    return run.sets.each(value, part) if value else run.sets.unknown


def item_of(run: Run, node: cst.Subscript, value: Value, indices: Several[Value]) -> Value:
    """Return ``value[index]``; an index is NEVER for a slice."""
    return run.sets.each(value, lambda one: _item(run, node, one, indices)) or run.sets.unknown


def _item(run: Run, node: cst.Subscript, one: Alternative, indices: Several[Value]) -> Value:
    index = indices[0] if len(indices) == 1 else NEVER
    match one:
        case Sequence(elements=tuple(elements), kind=kind):
            match index:
                case (Number(value=number),) if _is_place(number, elements):
                    return elements[int(number or 0)]
                case ():
                    return run.one(Sequence(kind, None, run.sets.all(elements), one.made))
            return _element(run, one)
        case Sequence():
            return run.one(one) if index == NEVER else _element(run, one)
        case Dictionary():
            match index:
                case (Text(value=str(key)),):
                    more = run.evaluation.put_into(run, one.made)  # by keys that are not known
                    others = more or run.sets.union(one.element, run.sets.unknown)
                    return entry_of(run, one, key) or others
            held = [*parts_of(one), run.evaluation.put_into(run, one.made)]
            return run.sets.all(held) or run.sets.unknown
        case Tensor():
            return run.one(_selected(one, indices))
        case Parameters():
            return run.one(Tensor())
        case Array():
            is_number = all(value and isinstance(value[0], Number) for value in indices)
            gathers = any(value and all(map(_is_list, value)) for value in indices)
            one = replace(one, made=run.at(node) if gathers else None)
            if any(isinstance(part, Text) for value in indices for part in value):
                one = replace(one, dtype="")
            return run.sets.of([one, Number(None, one.read)] if is_number else [one])
        case Text():
            return run.one(Text())
        case Number():
            return NEVER  # what else it may be has items
        case Library(name="os.environ"):
            return run.one(environment(index))
        case Instance() | Object() | Guess():
            return run.evaluation.item(run, one)
    return run.sets.unknown


def entry_of(run: Run, one: Dictionary, key: str) -> Value:
    """Return an entry of a dictionary, NEVER where it is not seen to have one."""
    known = dict(one.entries).get(key, NEVER)
    return run.sets.union(known, run.evaluation.put_into(run, one.made, key))


def _is_list(index: Alternative) -> bool:
    """Whether an index picks several elements, which are copied then."""
    return isinstance(index, Array) or (isinstance(index, Sequence) and index.kind == "list")


def _is_place(number: float | None, elements: tuple[Value, ...]) -> bool:
    return number is not None and -len(elements) <= number < len(elements)


def environment(key: Value) -> Alternative:
    """Return a variable of the environment: the rank of the process, or some text."""
    names = [one.value for one in key if isinstance(one, Text) and one.value]
    return Object(RANK, None) if any(name.endswith("RANK") for name in names) else Text()


def _selected(one: Tensor, indices: Several[Value]) -> Tensor:
    """A view for numbers and slices; new memory for masks and indices."""
    gathers = any(
        isinstance(part, (Tensor, Array, Sequence)) and (one.sure or part != one)
        for value in indices
        for part in value  # `for key in batch: batch[key]`, where nothing is known of the batch
    )
    loaded = Loaded.NO if gathers else one.loaded
    return replace(one, made=None, loaded=loaded)


def is_endless(node: cst.While) -> bool:
    """Whether a loop ends by ``break`` only."""
    return isinstance(node.test, cst.Name) and node.test.value == "True"
