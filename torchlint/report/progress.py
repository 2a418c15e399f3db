"""How far a long run is, on a terminal; nothing in a pipe."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 1.0  # seconds before the first word
PACE = 0.1  # seconds between two
CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def counting(total: int, stream: TextIO, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of files done; the line is wiped at the end."""
    if quiet or not stream.isatty():
        yield lambda done: None  # noqa: ARG005
        return
    due = time.monotonic() + PATIENCE
    shown = False

    def tick(done: int) -> None:
        nonlocal due, shown
        if time.monotonic() >= due:
            stream.write(f"{CLEAR}checking {done}/{total} files")
            stream.flush()
            due, shown = time.monotonic() + PACE, True

    try:
        yield tick
    finally:
        if shown:
            stream.write(CLEAR)
            stream.flush()
