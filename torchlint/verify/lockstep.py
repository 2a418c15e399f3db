"""Two live runs that take turns, so that what disturbs the machine disturbs both alike."""

from __future__ import annotations

import contextlib
import os
import select
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchlint.verify.record import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchlint.verify.model import Bounds
    from torchlint.verify.process import Live

LOOK = 0.25  # seconds between two looks whether the process still lives
SOON = 0.01  # and between two whether it is ready to train


def turns_in(bounds: Bounds) -> int:
    """How many turns each arm makes: an even number of whole ones.

    Even, since only then each arm is as often first after a switch as the other.
    """
    return max(2, (bounds.steps - bounds.warmup) // (bounds.warm + bounds.turn) // 2 * 2)


def widened(bounds: Bounds) -> Bounds:
    """Return bounds with time for two runs, in which it is us who say which turn is the last."""
    warmup = max(1, bounds.warmup)
    steps = warmup + (turns_in(bounds) + 1) * (bounds.warm + bounds.turn)
    return replace(bounds, steps=steps, warmup=warmup, seconds=2 * bounds.seconds)


@dataclass(frozen=True, slots=True)
class Channel:
    """FIFOs between us and the worker: ``go`` and ``hold`` to it, ``done`` from it.

    They are open for reading and writing here, so that no opening and no writing waits for the
    other end, whether it is there or not.  ``held`` is a file that the worker makes.
    """

    go: Path
    done: Path
    hold: Path
    held: Path
    going: int  # file descriptors
    coming: int
    holding: int

    def turns(self, bounds: Bounds) -> Turns:
        """Return what the worker is told."""
        return Turns(bounds.turn, self.go, self.done, bounds.warm, self.hold, self.held)


@contextlib.contextmanager
def opened(folder: Path, records: Path) -> Iterator[Channel]:
    """Make the FIFOs in a folder; they are closed afterwards."""
    go, done, hold = (folder / name for name in ("go", "done", "hold"))
    with contextlib.ExitStack() as stack:
        numbers = []
        for path in (go, done, hold):
            os.mkfifo(path, 0o600)
            numbers.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            stack.callback(os.close, numbers[-1])
        yield Channel(go, done, hold, records / "held", *numbers)


@dataclass(slots=True)
class Arm:
    """One of the two runs."""

    live: Live
    channel: Channel
    turns: int = 0  # that it made
    is_late: bool = False  # it did not come back from a turn in time
    is_over: bool = False  # it ended, or is late
    _unread: bytes = b""

    def start(self, deadline: float) -> None:
        """Wait until it is ready to train, or has begun all the same, or ended."""
        while not self.channel.held.exists() and self.live.code is None:
            if time.monotonic() >= deadline or self._has_said(SOON):
                return

    def arrive(self, deadline: float) -> None:
        """Let it go on until the warm-up is over, and stop it there."""
        os.write(self.channel.holding, b"\n")
        if self._next(deadline):
            self.live.stop()

    def turn(self, deadline: float, *, goes_on: bool) -> None:
        """Make one turn; stop after it unless the next is this arm's too."""
        self._go(b"go\n")
        if self._next(deadline):
            self.turns += 1
            if not goes_on:
                self.live.stop()

    def dismiss(self) -> None:
        """Tell it to write its record and end."""
        if not self.is_over:
            self._go(b"end\n")

    def _go(self, line: bytes) -> None:
        self.live.go_on()
        os.write(self.channel.going, line)

    def _next(self, deadline: float) -> bool:
        """Read the next line that the worker writes; False where it ends or is late instead."""
        while b"\n" not in self._unread:
            ended = self.live.code is not None
            wait = 0.0 if ended else max(0.0, min(LOOK, deadline - time.monotonic()))
            if self._has_said(wait):
                self._unread += os.read(self.channel.coming, 4096)
            elif ended or time.monotonic() >= deadline:
                self.is_over, self.is_late = True, not ended
                return False
        self._unread = self._unread.partition(b"\n")[2]
        return True

    def _has_said(self, wait: float) -> bool:
        """Whether the worker wrote something; wait so many seconds for it."""
        return bool(select.select([self.channel.coming], [], [], wait)[0])


def take_turns(arms: Sequence[Arm], turns: int, deadline: float) -> None:
    """Let two make so many turns in the order ABBA, then end them; stop early if one is over."""
    order = [arms[0], arms[-1], arms[-1], arms[0]] * (turns // 2)
    for arm, following in zip(order, [*order[1:], None], strict=True):
        if any(each.is_over for each in arms):
            break
        arm.turn(deadline, goes_on=following is arm)
    for arm in arms:
        arm.dismiss()
