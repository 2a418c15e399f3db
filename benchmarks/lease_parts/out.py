"""The files of a run in its folder: flat, at most eight, each line written as it happens."""

from __future__ import annotations

import fcntl
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO

LARGEST = 8 * 2**20  # bytes of log.txt, and of failures.txt
STACK = re.compile(  # the first line of one; pytest may have written dots before it
    r"[.FEsxX]*(Traceback \(most|Timeout \(|Fatal Python error|(Current t|T)hread 0x|Stack \(most)"
)


class InUseError(Exception):
    """Another run writes to the folder."""


class Out:
    """Writes what a run says; a full disk costs lines and nothing else."""

    def __init__(self, folder: Path) -> None:
        """Take the folder for this run alone.

        Raises:
            InUseError: another run has it.
            OSError: nothing can be written there.

        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.part = "lease"
        self._lock = threading.Lock()
        self._broken: set[str] = set()
        self._in_stack: set[str] = set()  # commands whose last line was one of a stack
        self._log = (folder / "log.txt").open("ab", buffering=0)
        try:
            fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(
                f"{folder}: another lease.py writes there; name another --out"
            ) from None
        self._failures = (folder / "failures.txt").open("ab", buffering=0)

    def say(self, text: str) -> None:
        """Write a line to the terminal and to the log."""
        with self._lock:
            self._write(self._log, _line(self.part, text))
        self._tell(text)

    def log(self, text: str, command: str) -> None:
        """Write what a command said to the log; a line of a stack goes to the failures as well."""
        with self._lock:
            self._write(self._log, _line(command, text))
            begins = bool(STACK.match(text))
            if begins or command in self._in_stack:
                self._write(self._failures, text + "\n")  # its last line is what was raised
            if begins:
                self._in_stack.add(command)
            elif text.strip() and not text.startswith("  "):
                self._in_stack.discard(command)

    def failure(self, title: str, text: str) -> None:
        """Write what failed, and why."""
        told = f"== {time.strftime('%H:%M:%S')} {self.part}: {title}\n{text.rstrip()}\n\n"
        with self._lock:
            self._write(self._failures, told)

    def write(self, name: str, text: str) -> None:
        """Write a whole file."""
        try:
            (self.folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            self.say(f"{name} is not written: {error.strerror}")

    def _write(self, file: FileIO, text: str) -> None:
        name = Path(str(file.name)).name
        try:
            if file.tell() < LARGEST:
                file.write(text.encode("utf-8", "replace"))
                return
            trouble = f"it has {LARGEST >> 20} MiB; the rest is left out"
        except OSError as error:
            trouble = f"{error.strerror}; the run goes on"
        if name not in self._broken:
            self._broken.add(name)
            self._tell(f"{name} is not written: {trouble}")

    def _tell(self, text: str) -> None:
        try:
            print(f"{self.part}: {text}", flush=True)
        except OSError:
            sys.stdout = sys.stderr  # nobody reads it any more


def _line(who: str, text: str) -> str:
    return f"{time.strftime('%H:%M:%S')} {who:8} {text}\n"
