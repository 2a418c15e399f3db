"""When a process has done enough: its steps, or so many backwards that no step will come."""

from __future__ import annotations

import gc
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Callable

from .window import Window

if TYPE_CHECKING:
    from .state import State, Stepper

_BACKWARDS = 256  # for each step asked for: more than anybody accumulates
_LEADER = 64  # steps of the busiest optimizer for each step asked for
_SHARE = 0.9  # of the time given: the record has to be there before the harness kills


def bound_for(state: State, end: Callable[[], None]) -> Bound:
    """Return the bound for the plan's phase; ``end`` does not return."""
    return Bound(state, end) if state.plan.anchor else PilotBound(state, end)


class Bound:
    """Ends after the anchor's steps, as the pilot learnt it."""

    def __init__(self, state: State, end: Callable[[], None]) -> None:
        self.state = state
        self.end = end
        self.anchor = state.plan.anchor
        self.steps = state.plan.steps
        self.window = Window(state, end)
        self.latest = state.start + state.plan.seconds * _SHARE * 1e9  # may be infinite

    def stepped(self, stepper: Stepper) -> None:
        """Look at an optimizer's step whose time has just been noted."""
        anchor = self.anchor
        if anchor and anchor.kind == "optimizer" and anchor.which == stepper.index:
            self.window.step(stepper.times)
            self._reached(len(stepper.times) >= self.steps)
            stepper.due = min(self.window.due(len(stepper.times)), self.steps)
        else:
            self._reached(enough=False)
            stepper.due = sys.maxsize

    def went_backward(self) -> None:
        """Look at the end of an outermost backward whose time has just been noted."""
        times = self.state.backwards
        if self.anchor and self.anchor.kind == "backward":
            self.window.step(times)
            self._reached(len(times) >= self.steps)
        else:
            self._reached(len(times) >= self.steps * _BACKWARDS)

    def waited(self) -> None:
        """Look at the clock where a script may go on for long without a step."""
        self._reached(enough=False)

    def _reached(self, enough: bool) -> None:
        if enough or (perf_counter_ns() > self.latest and self.state.trained()):
            self.window.close()
            self.end()


class PilotBound(Bound):
    """Ends when the optimizer that steps least often, of those still in use, made its steps."""

    def __init__(self, state: State, end: Callable[[], None]) -> None:
        super().__init__(state, end)
        self.lead = 0  # steps of the busiest optimizer
        self.seen: dict[int, int] = {}  # by optimizer: the lead at its last step
        self.longest: dict[int, int] = {}  # and the most that the lead grew between two steps
        self.no_optimizer = False

    def stepped(self, stepper: Stepper) -> None:
        """Count; the others are looked at only by an optimizer that made its own steps."""
        index, count = stepper.index, len(stepper.times)
        self.lead = max(self.lead, count)
        idle = self.lead - self.seen.get(index, self.lead)
        self.longest[index] = max(self.longest.get(index, 0), idle)
        self.seen[index] = self.lead
        self._reached(count >= self.steps and not self._missing(self.state.steppers))

    def went_backward(self) -> None:
        """End after as many as there are steps, in a script that has no optimizer at all."""
        count = len(self.state.backwards)
        if count == self.steps and not self.state.steppers:
            kind = self.state.torch.optim.Optimizer
            self.no_optimizer = not any(isinstance(thing, kind) for thing in gc.get_objects())
        self._reached(self.no_optimizer or count >= self.steps * _BACKWARDS)

    def _missing(self, steppers: list[Stepper]) -> bool:
        if self.lead >= self.steps * _LEADER:
            return False
        return any(
            len(stepper.times) < self.steps and not self._gave_up(stepper.index)
            for stepper in steppers
        )

    def _gave_up(self, index: int) -> bool:
        """Whether an optimizer is silent so long that the run is not to wait for it."""
        idle = self.lead - self.seen[index]
        return idle > max(2 * self.steps, 4 * self.longest[index])
