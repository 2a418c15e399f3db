"""Remembers answers that are worked out from other answers, some of which lead back in a circle.

Where a question comes up while it is being answered (``x = x + 1`` in a loop) it is answered by
`Kind.NEVER`, which adds nothing to a join, and asked again with the answer that this gave until
nothing changes.  What was worked out with such a stand-in is remembered only as long as the
circle is open, so that no answer depends on who asked first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.analysis.values import NEVER, UNKNOWN, Kind, Value, join

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_DEPTH = 60  # questions that lead on to questions deeper than this are not followed
_STEPS = 4000  # how many of them one question may lead to ...
_FEW = 100  # ... and how many where so many led nowhere:
_WASTE = 20_000
_ROUNDS = 3  # after which a circle that finds no rest says nothing
_SHORT = 1  # the bit of answers that were given up


class Memory:
    """Answers by a key of what was asked about, such as the identity of a node."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._settled: dict[Hashable, Value] = {}
        self._open: dict[Hashable, int] = {}  # what is being answered -> its bit
        self._passing: dict[Hashable, tuple[Value, int]] = {}  # answers that rest on open questions
        self._resting: list[list[Hashable]] = [[]]  # the keys of those, by the innermost of them
        self._assumed: dict[Hashable, Value] = {}  # answers of an earlier round
        self._rests = 0  # bits of the open questions that the present answer rests on
        self._steps = 0
        self._wasted = 0

    @property
    def busy(self) -> bool:
        """Whether a question is being answered."""
        return bool(self._open)

    def settle(self, key: Hashable, value: Value) -> None:
        """Make an answer final."""
        self._settled[key] = value

    def given_up(self, key: Hashable) -> bool:
        """Whether the last answer was cut short: too deep, or too many steps."""
        return key not in self._settled

    def answer(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the answer to a question, worked out only where it is not yet known."""
        found = self._settled.get(key)
        if found is not None:
            return found
        bit = self._open.get(key)
        if bit is not None:
            self._rests |= bit
            return self._assumed.get(key, NEVER)
        passing = self._passing.get(key)
        if passing is not None:
            self._rests |= passing[1]
            return passing[0]
        level = len(self._open)
        if level == 0:
            self._steps = _STEPS if self._wasted < _WASTE else _FEW
        self._steps -= 1
        if level >= _DEPTH or self._steps < 0:
            self._rests |= _SHORT
            return UNKNOWN
        return self._work_out(key, level, compute)

    def _work_out(self, key: Hashable, level: int, compute: Callable[[], Value]) -> Value:
        bit = 2 << level
        before = self._rests
        value = self._attempt(key, bit, compute)
        for _ in range(_ROUNDS if self._rests & bit else 0):
            self._assumed[key] = value
            again = self._attempt(key, bit, compute)
            if again == value:
                break
            value = join((value, again))
        else:
            if self._assumed.pop(key, None) is not None:
                value = UNKNOWN
        self._assumed.pop(key, None)
        rests = self._rests & ~bit
        if not rests:
            value = self._settled[key] = _whole(value)
        else:
            self._passing[key] = (value, rests)
            self._resting[rests.bit_length() - 1].append(key)
        self._rests = before | rests
        if level == 0:
            self._wasted += _STEPS if self._steps < 0 else 0
            self._forget()
        return value

    def _attempt(self, key: Hashable, bit: int, compute: Callable[[], Value]) -> Value:
        self._rests = 0
        self._open[key] = bit
        self._resting.append([])
        try:
            return compute()
        finally:
            del self._open[key]
            for other in self._resting.pop():
                del self._passing[other]

    def _forget(self) -> None:
        self._rests = 0
        self._passing.clear()
        self._resting[0].clear()


def _whole(value: Value) -> Value:
    """Return the value without stand-ins in it: what they stood for was never found."""
    if value.kind is Kind.NEVER:
        return UNKNOWN
    if value.items is not None and any(_hollow(item) for item in value.items):
        value = replace(value, items=tuple(_whole(item) for item in value.items))
    if value.element is not None and _hollow(value.element):
        value = replace(value, element=_whole(value.element))
    return value


def _hollow(value: Value) -> bool:
    return (
        value.kind is Kind.NEVER
        or (value.items is not None and any(_hollow(item) for item in value.items))
        or (value.element is not None and _hollow(value.element))
    )
