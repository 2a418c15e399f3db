"""What goes on and how long it takes, on a terminal while it lasts; nothing in a pipe."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, TextIO

from torchlint.report.progress import CLEAR
from torchlint.verify.report.grid import clip
from torchlint.verify.report.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.verify.model import Progress


@contextlib.contextmanager
def watching(
    stream: TextIO, *, quiet: bool = False, doing: str = "verifying: run"
) -> Iterator[Progress]:
    """Give a function to call before each run; its line is wiped at the end, whatever ends it."""
    if quiet or not stream.isatty():
        yield lambda what, done, total, left: None  # noqa: ARG005
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


def line(
    what: str, done: int, total: int, left: float | None, doing: str = "verifying: run"
) -> str:
    """Return what runs, which of how many runs it is, and the time left, where known."""
    ahead = "" if left is None else f", {duration(left)} left"
    return f"{doing} {done} of {total}{ahead}: {what}"
