"""What this process has done so far; times are nanoseconds of `time.perf_counter_ns`."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from .places import main_file
from .trace import Trace

if TYPE_CHECKING:
    from .device import Device
    from .early import Early


class Stepper:
    """An optimizer that stepped: ``index`` is its place in the order of first steps.

    At the step with the number ``due`` there is something to do; before it, time is only noted.
    """

    __slots__ = ("due", "index", "name", "optimizer", "times")

    def __init__(self, optimizer: Any, index: int) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.index = index
        self.name = type(optimizer).__name__
        self.times: list[int] = []
        self.due = 0.0


class State:
    """All that a record is made of, but what is looked up when it is written."""

    def __init__(self, early: Early, torch: Any, device: Device) -> None:
        self.plan = early.plan
        self.start = early.start
        self.lines = early.lines
        self.writes = early.guard.noted
        self.main = main_file()
        self.torch = torch
        self.device = device
        self.trace = Trace(torch, early.plan) if early.plan.phase == "trace" else None
        self.clear()

    def clear(self) -> None:
        """Begin anew, as in a process that was forked."""
        self.pid = os.getpid()
        self.rank: tuple[int, int] | None = None
        self.steppers: list[Stepper] = []
        self.last: Stepper | None = None
        self.known: dict[int, Stepper] = {}
        self.backwards: list[int] = []
        self.waits: list[tuple[int, int]] = []
        self.turns: list[float] = []
        self.workers = 0
        self.loaders: weakref.WeakSet[Any] = weakref.WeakSet()  # the iterators that are alive
        if self.trace is not None:
            self.trace.clear()

    def stepper(self, optimizer: Any) -> Stepper:
        """Return what is known of an optimizer; an id may come back when one was collected."""
        known = self.known.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            known = self.known[id(optimizer)] = Stepper(optimizer, len(self.steppers))
            self.steppers.append(known)
            self.ranks()
        return known

    def trained(self) -> bool:
        """Whether this process stepped or went backward: only then it writes a record."""
        return bool(self.steppers or self.backwards)

    def ranks(self) -> tuple[int, int]:
        """Return rank and number of ranks; asked while the process group lives, then kept."""
        if self.rank is None:
            self.rank = _ranks(self.torch)
        return self.rank


def _ranks(torch: Any) -> tuple[int, int]:
    group = getattr(torch, "distributed", None)
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    told = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(told[0]), int(told[1])) if all(part.isdigit() for part in told) else (0, 1)
