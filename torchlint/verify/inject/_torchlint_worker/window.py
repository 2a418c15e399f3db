"""The steps that are timed: from the warm-up to the end of the run, in turns where asked."""

from __future__ import annotations

import json
import os
from math import inf
from time import perf_counter_ns
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from .plan import Turns
    from .state import State


class Window:
    """Waits for the device at its two ends only, and where a turn ends."""

    def __init__(self, state: State, end: Callable[[], None]) -> None:
        plan = state.plan
        self.state = state
        self.end = end
        self.first = max(plan.warmup, 1)
        self.turn = Turn(plan.turns) if plan.turns else None
        self.times: list[int] | None = None  # of the anchor, once the window is open

    def step(self, times: list[int]) -> None:
        """Look at a step of the anchor whose time was just noted, last in ``times``."""
        count = len(times)
        if count < self.first:
            return
        if count == self.first:
            self._open(times)
        else:
            self.state.device.mark()
            if self.state.trace is not None:
                self.state.trace.window_step(self.state.device)
        if self.turn:
            made = (count - self.first) % self.turn.length
            if made == 0:
                self._take_turns(times)
            elif made == self.turn.warm:
                self._begin(times)

    def due(self, count: int) -> float:
        """Return the number of the first step after ``count`` with something to do."""
        if count < self.first:
            return self.first
        if self.state.trace is not None or self.state.device.is_cuda():
            return count + 1
        if self.turn:
            made = (count - self.first) % self.turn.length
            return count + (self.turn.warm if made < self.turn.warm else self.turn.length) - made
        return inf

    def close(self) -> None:
        """Wait for the device: the last step's time is that of its end."""
        if self.times:
            self.state.device.close(self.times, self.first)
            if self.state.trace is not None:
                self.state.trace.window_closes(self.state.device)

    def _open(self, times: list[int]) -> None:
        self.state.device.open()
        if self.state.trace is not None:
            self.state.trace.window_step(self.state.device)
        self.times = times
        times[-1] = perf_counter_ns()

    def _begin(self, times: list[int]) -> None:
        """Time a turn from here on: what the other process left in the caches is replaced."""
        if self.turn:
            self.state.device.wait()
            self.turn.began = times[-1] = perf_counter_ns()

    def _take_turns(self, times: list[int]) -> None:
        """Say that a turn is over and wait until the harness says how it goes on."""
        turn = self.turn
        if turn is None:
            return
        if len(times) > self.first:
            self.state.device.wait()
            times[-1] = perf_counter_ns()
            self.state.turns.append((times[-1] - turn.began) / 1e9)
        turn.say(self.state.turns)
        if not turn.goes_on():
            self.end()


class Turn:
    """The two FIFOs; opened when they are first used, ``done`` before ``go``."""

    def __init__(self, turns: Turns) -> None:
        self.warm, self.length = turns.warm, turns.warm + turns.size  # in steps
        self.paths = turns.done, turns.go
        self.began = 0
        self._done = self._go = -1

    def say(self, lengths: list[float]) -> None:
        """Write one line: how many turns were made, and how long the last one was."""
        if self._done < 0:
            self._done = os.open(self.paths[0], os.O_WRONLY)
            self._go = os.open(self.paths[1], os.O_RDONLY)
        told = {"turn": len(lengths), "seconds": lengths[-1] if lengths else None}
        os.write(self._done, json.dumps(told).encode() + b"\n")

    def goes_on(self) -> bool:
        """Block until it is this process's turn; False when it is to end, or nobody is there."""
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._go, 1)
            if not read:
                return False
            line += read
        self.began = perf_counter_ns()
        return line.strip() != b"end"
