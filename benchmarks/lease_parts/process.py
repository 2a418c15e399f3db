"""One command under a watchdog: its lines are read, and nothing of it is left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from lease_parts import marked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

FOR_STACKS = 1.0  # seconds to write the stacks
FOR_ENDING = 5.0  # seconds to end after SIGTERM
LONGEST = 2000  # characters of a line
READ = 2**16  # bytes at a time


class Process:
    """A command in a session of its own."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        heard: Callable[[str], None],
    ) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.

        """
        self.mark = marked.new_mark()
        self._heard = heard
        self._process = subprocess.Popen(
            words,
            env={**environment, marked.VARIABLE: self.mark},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def code(self) -> int | None:
        """Return its exit code, None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def stop(self) -> None:
        """Let it write its stacks, ask it to end, and then end it and all that it started.

        A process that is not prepared for that writes its stacks as it is aborted.  What a command
        started is aborted only once the command had its time to end: until then it might take
        the death of its child for a failure, and write that down.
        """
        known = marked.started(self.mark)
        if marked.ask_for_stacks(known):
            _wait_for(known, FOR_STACKS)
        if marked.heeds(self._process.pid, signal.SIGTERM):
            marked.send(self._process.pid, signal.SIGTERM)
            self._wait(FOR_ENDING)
        if marked.abort(known):
            _wait_for(known, FOR_STACKS)
        self.clear(known)

    def clear(self, known: AbstractSet[int] = frozenset()) -> int:
        """End all that is left of it, and return how many processes that were."""
        is_alive = self.code() is None
        killed, left = marked.end(self.mark, known)
        if is_alive:
            self._wait(FOR_ENDING)
        self._reader.join(1)
        if left:
            self._heard(f"{left} processes of it cannot be ended")
        return killed

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def _read(self) -> None:
        """Hand over the lines that it writes, the last one too."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            rest = ""
            while read := os.read(stream.fileno(), READ):
                text = rest + read.decode("utf-8", "replace").replace("\r", "\n")
                *lines, rest = text.split("\n")
                for line in lines:
                    self._heard(line[:LONGEST])
                rest = rest[:LONGEST]
        if rest:
            self._heard(rest)


def _wait_for(processes: AbstractSet[int], seconds: float) -> None:
    """Wait until all have ended, or the time is over."""
    until = time.monotonic() + seconds
    while any(map(marked.is_alive, processes)) and time.monotonic() < until:
        pause()


def pause() -> None:
    """Wait a moment."""
    time.sleep(marked.PAUSE)
