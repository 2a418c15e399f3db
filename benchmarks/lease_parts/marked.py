"""Finds and ends every process that a run started, by a variable in its environment."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

VARIABLE = "TORCHLINT_LEASE"
PROC = Path("/proc")
PAUSE = 0.05  # seconds between two looks
FOR_ONE, FOR_ALL = 1.0, 5.0  # seconds in which a process, and all of them, write their stacks


def new_mark() -> str:
    """Return a mark for what this process starts; it begins with the mark of this process."""
    return f"{os.environ.get(VARIABLE, '')}{uuid.uuid4().hex[:12]}/"


def started(mark: str) -> set[int]:
    """Return the living processes that carry a mark, and their children.

    Marks are paths: processes marked ``a/b/`` belong to ``a/`` as well.
    """
    wanted = f"{VARIABLE}={mark}".encode()
    parents, found = {}, set()
    for folder in PROC.iterdir():
        if not folder.name.isdigit() or (parent := _parent(folder)) is None:
            continue
        parents[int(folder.name)] = parent
        if any(each.startswith(wanted) for each in _environment(folder)):
            found.add(int(folder.name))
    size = -1
    while size != len(found):  # a child may have emptied its environment
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def is_alive(process: int) -> bool:
    """Whether a process has not ended."""
    return _parent(PROC / str(process)) is not None


def _parent(folder: Path) -> int | None:
    """Return the parent of a process, None where it has ended."""
    try:
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[1])


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end(mark: str, known: AbstractSet[int] = frozenset(), seconds: float = 10.0) -> tuple[int, int]:
    """Kill what carries a mark until nothing is left; return how many were killed and are left.

    ``known`` are processes that carried it or were children of one that did, a moment ago.
    """
    killed: set[int] = set()
    until = time.monotonic() + seconds
    while (
        alive := started(mark) | {one for one in known if is_alive(one)}
    ) and time.monotonic() < until:
        for process in alive:
            send(process, signal.SIGKILL)
        killed |= alive
        time.sleep(PAUSE)
    return len(killed), len(alive)


def send(process: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def ask_for_stacks(processes: AbstractSet[int]) -> bool:
    """Let those that registered faulthandler for it write their stacks; tell whether any did."""
    sets = ("SigPnd:", "ShdPnd:", "SigBlk:")  # blocked while its handler runs
    return _send_where_caught(
        processes,
        signal.SIGUSR2,
        lambda one: any(_is_in(one, signal.SIGUSR2, name) for name in sets),
    )


def abort(processes: AbstractSet[int]) -> bool:
    """Let processes of Python write their stacks and end by it; tell whether any was asked."""
    return _send_where_caught(processes, signal.SIGABRT, is_alive)


def _send_where_caught(
    processes: AbstractSet[int], number: signal.Signals, is_writing: Callable[[int], bool]
) -> bool:
    """Send it to one after the other, a parent first: they write to one file, where stacks mix."""
    asked = [one for one in sorted(processes) if _is_in(one, number, "SigCgt:")]
    until = time.monotonic() + FOR_ALL
    for process in asked:
        send(process, number)
        patience = min(until, time.monotonic() + FOR_ONE)
        while is_writing(process) and time.monotonic() < patience:
            time.sleep(PAUSE)
    return bool(asked)


def heeds(process: int, number: signal.Signals) -> bool:
    """Whether a signal does not end a process at once: it is caught, or ignored."""
    return any(_is_in(process, number, name) for name in ("SigCgt:", "SigIgn:"))


def _is_in(process: int, number: signal.Signals, name: str) -> bool:
    """Whether a signal is in one of the sets that the system lists for a process."""
    try:
        lines = (PROC / str(process) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    listed = next((line for line in lines if line.startswith(name)), f"{name} 0")
    return bool(int(listed.split()[1], 16) >> (number - 1) & 1)
