"""Remembers answers that are worked out from other answers, some of which lead back in a circle.

Where a question comes up while it is being answered (``x = x + 1`` in a loop) it is answered by
what is assumed: at first `Kind.NEVER`, which adds nothing to a join, then what the round before
has found.  A circle of questions is asked in rounds until no assumption changes; then all its
answers are final at once, so that none depends on who asked first.  Circles are found as the
strongly connected components of a graph are: by the earliest open question that each rests on.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.analysis.values import NEVER, UNKNOWN, Kind, Value, join

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_DEPTH = 60  # questions that lead on to questions deeper than this are not followed
_STEPS = 4000  # how many of them one question may lead to ...
_FEW = 100  # ... and how many where so many led nowhere:
_WASTE = 20_000
_ROUNDS = 8  # of a circle; what still changes in the later half of them is not known
_NOTHING = sys.maxsize  # an answer that rests on no open question
_SHORT = -1  # one that was given up


class Memory:
    """Answers by a key of what was asked about, such as the identity of a node."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._settled: dict[Hashable, Value] = {}
        self.known = self._settled.get  # the final answer to a question; None where there is none
        self._open: dict[Hashable, int] = {}  # what is being answered -> its number
        self._passing: dict[Hashable, tuple[Value, int]] = {}  # answers of circles not yet closed
        self._trail: list[Hashable] = []  # the keys of those, in order
        self._assumed: dict[Hashable, Value] = {}
        self._circular: set[Hashable] = set()  # questions that led back to themselves
        self._changed = False  # whether an assumption was wrong in this round
        self._rests = _NOTHING  # the first open question that the present answer rests on
        self._number = 0
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
        """Answer a question; the answer is worked out only where it is not yet known."""
        found = self._settled.get(key)
        if found is not None:
            return found
        number = self._open.get(key)
        if number is not None:
            self._rests = min(self._rests, number)
            self._circular.add(key)
            return self._assumed.get(key, NEVER)
        passing = self._passing.get(key)
        if passing is not None:
            self._rests = min(self._rests, passing[1])
            return passing[0]
        if not self._open:
            self._forget()
            self._steps = _STEPS if self._wasted < _WASTE else _FEW
        self._steps -= 1
        if len(self._open) >= _DEPTH or self._steps < 0:
            self._rests = _SHORT
            return UNKNOWN
        return self._work_out(key, compute)

    def _work_out(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        before, self._rests = self._rests, _NOTHING
        changed, self._changed = self._changed, False
        number = self._number = self._number + 1
        start = len(self._trail)
        value = self._attempt(key, number, compute)
        for turn in range(_ROUNDS):
            if self._rests < number or not self._changed:
                break
            self._drop(start)
            self._changed, self._rests = False, _NOTHING
            value = self._attempt(key, number, compute, widen=turn >= _ROUNDS // 2)
        if self._rests >= number:
            value = self._close(key, value, start)
            self._rests, self._changed = before, changed
        else:
            self._passing[key] = (value, number)
            self._trail.append(key)
            self._rests, self._changed = min(before, self._rests), changed or self._changed
        if not self._open:
            self._wasted += _STEPS if self._steps < 0 else 0
        return value

    def _attempt(
        self, key: Hashable, number: int, compute: Callable[[], Value], *, widen: bool = False
    ) -> Value:
        """Work an answer out once, and note whether what was assumed of it holds."""
        self._open[key] = number
        try:
            value = compute()
        finally:
            del self._open[key]
        if key in self._circular:
            assumed = self._assumed.get(key, NEVER)
            value = join((assumed, value))
            if value != assumed:
                self._changed = True
                self._assumed[key] = value = UNKNOWN.on(value.device) if widen else value
        return value

    def _close(self, key: Hashable, value: Value, start: int) -> Value:
        """Make the answers of a circle final."""
        for other in self._trail[start:]:
            self._settled[other] = _whole(self._passing[other][0])
        self._drop(start)
        value = self._settled[key] = _whole(value)
        return value

    def _drop(self, start: int) -> None:
        for other in self._trail[start:]:
            del self._passing[other]
        del self._trail[start:]

    def _forget(self) -> None:
        """End a question: what could not be made final is not kept."""
        self._rests, self._changed, self._number = _NOTHING, False, 0
        self._drop(0)
        self._assumed.clear()
        self._circular.clear()


def _whole(value: Value) -> Value:
    """Return the value without stand-ins in it: what they stood for was never found."""
    if not _hollow(value):
        return value
    if value.kind is Kind.NEVER:
        return UNKNOWN
    items = None if value.items is None else tuple(_whole(item) for item in value.items)
    element = None if value.element is None else _whole(value.element)
    return replace(value, items=items, element=element)


def _hollow(value: Value) -> bool:
    return (
        value.kind is NEVER.kind
        or (value.items is not None and any(_hollow(item) for item in value.items))
        or (value.element is not None and _hollow(value.element))
    )
