"""What goes on and how long it takes: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING, TextIO

from torchlint.report.progress import CLEAR
from torchlint.verify.model import Phase
from torchlint.verify.report.grid import clip
from torchlint.verify.report.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.verify.model import Progress

PACE = 60.0  # seconds between two lines in a log, but for the first one of each phase
PHASES = {phase.value for phase in Phase}


@contextlib.contextmanager
def watching(
    stream: TextIO, *, quiet: bool = False, doing: str = "verifying: run"
) -> Iterator[Progress]:
    """Give a function to call before each run; the live line is wiped, whatever ends it."""
    if quiet:
        yield lambda what, done, total, left: None  # noqa: ARG005
        return
    if not stream.isatty():
        yield _logging(stream, doing)
        return

    def tell(what: str, done: int, total: int, left: float | None) -> None:
        # a line that wraps could not be wiped
        room = shutil.get_terminal_size().columns - 1
        stream.write(CLEAR + clip(line(what, done, total, left, doing), room))
        stream.flush()

    try:
        yield tell
    finally:
        stream.write(CLEAR)
        stream.flush()


def _logging(stream: TextIO, doing: str) -> Progress:
    """Return what writes a line when a phase begins, and otherwise one a minute."""
    begun: set[str] = set()
    due = 0.0

    def tell(what: str, done: int, total: int, left: float | None) -> None:
        nonlocal due
        phase = next((word for word in PHASES if what.startswith(word)), "")
        now = time.monotonic()
        if phase in begun and now < due:
            return
        begun.add(phase)
        due = now + PACE
        stream.write(line(what, done, total, left, doing) + "\n")
        stream.flush()

    return tell


def line(
    what: str, done: int, total: int, left: float | None, doing: str = "verifying: run"
) -> str:
    """Return what runs, which of how many runs it is, and the time left, where known."""
    ahead = "" if left is None else f", {duration(left)} left"
    return f"{doing} {done} of about {total}{ahead}: {what}"
