"""Sets of alternatives: interned, so that equal values are identical, and bounded.

At most eight alternatives are kept, and `Unknown` in place of the others.  More than four numbers
are a number, more than five strings a string.  Tensors that differ only in what autograd would go
back through are one; containers of one shape are joined place by place; they nest five deep.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar, get_args

from torchlint.semantics.values import (
    NEVER,
    UNKNOWN,
    Alternative,
    Dictionary,
    Iterator,
    Method,
    Number,
    Sequence,
    Tensor,
    Text,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Iterator as Several

A = TypeVar("A", Number, Text, Sequence, Dictionary)

ANY_OF = Dictionary((), (), None)  # what many dictionaries become
ANY_NUMBER, ANY_TEXT = Number(), Text()
MOST, NUMBERS, TEXTS, SHAPES, DEPTH = 8, 4, 5, 6, 5
_ORDER = {kind: place for place, kind in enumerate(get_args(Alternative))}


class Sets:
    """The values of one evaluation."""

    def __init__(self) -> None:
        self._ones: dict[Alternative, Value] = {}
        self._keys: dict[int, tuple[int, str]] = {}  # of alternatives, by identity
        self._numbers: dict[int, int] = {}  # of values, by identity, as they are first met
        self._values: dict[tuple[int, ...], Value] = {(): NEVER}
        self._unions: dict[tuple[int, int], Value] = {}
        self._depths: dict[int, int] = {id(NEVER): 0}
        self.unknown = self.one(UNKNOWN)

    def one(self, alternative: Alternative) -> Value:
        """Return the value that is one alternative."""
        found = self._ones.get(alternative)
        if found is None:
            found = self._ones[alternative] = (alternative,)
        return found

    def of(self, alternatives: Iterable[Alternative]) -> Value:
        """Return the value that is one of some alternatives, within the bounds."""
        found = list({id(one): one for one in map(self._interned, alternatives)}.values())
        return self._set(self._bounded(found)) if len(found) > 1 else self._set(found)

    def union(self, first: Value, second: Value) -> Value:
        """Return what is one or the other."""
        if first is second or not second:
            return first
        if not first:
            return second
        key = id(first), id(second)
        found = self._unions.get(key)
        if found is None:
            found = self._unions[key] = self.of((*first, *second))
        return found

    def all(self, values: Iterable[Value]) -> Value:
        """Return what is one of several values."""
        return reduce(self.union, values, NEVER)

    def each(self, value: Value, change: Callable[[Alternative], Value]) -> Value:
        """Return what comes of a value when each alternative becomes something else."""
        return change(value[0]) if len(value) == 1 else self.all(map(change, value))

    # -- containers --------------------------------------------------------------------------

    def within(self, one: Alternative, change: Callable[[Alternative], Value]) -> Value:
        """Return a container in which each alternative became something else."""
        match one:
            case Sequence(elements=elements, element=element):
                inner = elements and tuple(self.each(part, change) for part in elements)
                one = replace(one, elements=inner, element=self.each(element, change))
                return self.nested(one)
            case Dictionary(entries=entries, element=element):
                held = tuple((key, self.each(part, change)) for key, part in entries)
                one = replace(one, entries=held, element=self.each(element, change))
                return self.nested(one)
        return self.one(one)

    def nested(self, alternative: Sequence | Dictionary | Iterator) -> Value:
        """Return a container; what would lie too deep in it is unknown."""
        if max(map(self._depth, parts_of(alternative)), default=0) < DEPTH:
            return self.one(alternative)
        if isinstance(alternative, Iterator):
            return self.one(replace(alternative, element=self.unknown))
        return self.within(alternative, lambda _: self.unknown)

    def _depth(self, value: Value) -> int:
        found = self._depths.get(id(value))
        if found is None:
            parts = [part for one in value for part in parts_of(one)]
            nests = any(isinstance(one, (Sequence, Dictionary, Iterator)) for one in value)
            found = self._depths[id(value)] = max(map(self._depth, parts), default=0) + nests
        return found

    # -- interning and bounds ----------------------------------------------------------------

    def _interned(self, alternative: Alternative) -> Alternative:
        return self.one(alternative)[0]

    def _key(self, interned: Alternative) -> tuple[int, str]:
        found = self._keys.get(id(interned))
        if found is None:
            parts: tuple[object, ...] = parts_of(interned)
            shell: object = _shape(interned) if parts else interned
            if isinstance(interned, Method):
                shell, parts = interned.name, (interned.owner,)
            # what it holds is told by numbers: written out, it may be longer than any memory
            numbers = [self._numbers.setdefault(id(part), len(self._numbers)) for part in parts]
            found = self._keys[id(interned)] = _ORDER[type(interned)], f"{shell!r} {numbers}"
        return found

    def _set(self, alternatives: list[Alternative]) -> Value:
        if len(alternatives) == 1:
            return self._ones[alternatives[0]]
        alternatives.sort(key=self._key)
        key = tuple(map(id, alternatives))
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = tuple(alternatives)
        return found

    def _bounded(self, found: list[Alternative]) -> list[Alternative]:
        found = _absorbed(self._without_copies(found))
        found = _few(found, Number, NUMBERS, _any_number)
        found = _few(found, Text, TEXTS, lambda _: Text())
        found = _few(found, Sequence, SHAPES, self._any_sequence)
        held = (one for one in found if isinstance(one, Dictionary))
        is_any = any(one == replace(ANY_OF, element=one.element) for one in held)
        found = _few(found, Dictionary, 1 if is_any else SHAPES, self._any_dictionary)
        found = list({id(one): one for one in map(self._interned, found)}.values())
        if len(found) <= MOST:
            return found
        found.sort(key=self._key)
        unknown = self.unknown[0]
        return [unknown, *[one for one in found if one is not unknown][: MOST - 1]]

    def _without_copies(self, found: list[Alternative]) -> list[Alternative]:
        """Join what differs only in what it holds."""
        joined: dict[object, Alternative] = {}
        for one in found:
            key = _shape(one)
            joined[key] = one if key not in joined else self._joined(joined[key], one)
        return list(joined.values())

    def _joined(self, one: Alternative, other: Alternative) -> Alternative:
        match one, other:
            case Tensor(), Tensor():
                return replace(one, graph=tuple(sorted({*one.graph, *other.graph})))
            case Sequence(elements=first), Sequence(elements=second):
                element = self.union(one.element, other.element)
                if first is None or second is None:
                    return replace(one, element=element)
                pairs = zip(first, second, strict=True)
                elements = tuple(self.union(*pair) for pair in pairs)
                return replace(one, elements=elements, element=element)
            case Dictionary(), Dictionary():
                values = dict(other.entries)
                entries = tuple((key, self.union(a, values[key])) for key, a in one.entries)
                element = self.union(one.element, other.element)
                return replace(one, entries=entries, element=element)
            case Iterator(), Iterator():
                return replace(one, element=self.union(one.element, other.element))
        return one

    def _any_sequence(self, found: list[Sequence]) -> Sequence:
        parts = [part for one in found for part in parts_of(one)]
        kinds = {one.kind for one in found}
        kind = kinds.pop() if len(kinds) == 1 else "list"
        made = {one.made for one in found}
        return Sequence(kind, None, self.all(parts), made.pop() if len(made) == 1 else None)

    def _any_dictionary(self, found: list[Dictionary]) -> Dictionary:
        return Dictionary((), self.all(part for one in found for part in parts_of(one)), None)


def _absorbed(found: list[Alternative]) -> list[Alternative]:
    """Return alternatives without the numbers and strings that are among any of them."""
    numbers, texts = ANY_NUMBER in found, ANY_TEXT in found
    return [
        one
        for one in found
        if not (numbers and isinstance(one, Number) and one == Number(one.value) != ANY_NUMBER)
        and not (texts and isinstance(one, Text) and one == Text(one.value) != ANY_TEXT)
    ]


def parts_of(alternative: Alternative) -> tuple[Value, ...]:
    """Return the values that a container holds."""
    match alternative:
        case Sequence(elements=elements, element=element):
            return (*(elements or ()), element)
        case Dictionary(entries=entries, element=element):
            return (*(value for _, value in entries), element)
        case Iterator(element=element):
            return (element,)
    return ()


def flat(value: Value) -> Several[Alternative]:
    """Yield what a value may be, and what its containers hold."""
    for one in value:
        yield one
        for part in parts_of(one):
            yield from flat(part)


def _shape(one: Alternative) -> object:
    """Return what two alternatives have in common that are joined."""
    match one:
        case Tensor():
            return replace(one, graph=())
        case Sequence(kind, elements, _, made):
            return Sequence, kind, None if elements is None else len(elements), made
        case Dictionary(entries, _, made):
            return Dictionary, tuple(key for key, _ in entries), made
        case Iterator(_, loader):
            return Iterator, loader
    return one


def _any_number(found: list[Number]) -> Number:
    return Number(None, next((one.read for one in found if one.read), None))


def _few(
    found: list[Alternative], kind: type[A], most: int, all_of: Callable[[list[A]], Alternative]
) -> list[Alternative]:
    """Return alternatives with one in place of those of a kind where they are too many."""
    some: list[A] = [one for one in found if isinstance(one, kind)]
    if len(some) <= most:
        return found
    return [*(one for one in found if not isinstance(one, kind)), all_of(some)]


def is_known(value: Value) -> bool:
    """Whether nothing else is possible than what is told."""
    return bool(value) and not any(isinstance(one, Unknown) for one in value)
