"""Files in /dev/shm that the processes of a run left: found with care, and removed."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path("/dev/shm")  # noqa: S108 - where Linux keeps shared memory
# torch_PID_... (file_system strategy), sem.mp-... and psm_... (multiprocessing), nccl-...
NAME = re.compile(r"(torch_(?P<pid>\d+)_|sem\.(mp-|loky-)|psm_|nccl-|mp-|pymp-)")
# a line of /proc/PID/maps: address, permissions, offset, device, inode, path
MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ (\d+) +/dev/shm/", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Before:
    """What lay in /dev/shm before a run, and when that was (seconds since 1970)."""

    names: frozenset[str]
    time: float


def look() -> frozenset[str]:
    """Return the names that are there now."""
    try:
        return frozenset(path.name for path in FOLDER.iterdir())
    except OSError:  # not Linux, or none mounted
        return frozenset()


def sweep(before: Before, pids: set[int], held: set[int]) -> None:
    """Remove what the processes of a run left; call it when all of them have ended.

    A file goes if it came since, is this user's, has a name that torch, NCCL or multiprocessing
    give, and either the name holds the number of one of them (or of a process that is gone) or its
    inode is one that they were seen to hold.  What another process holds stays.
    """
    new = {name: _inode(name, before.time) for name in look() - before.names}
    leaving = {
        name: inode
        for name, inode in new.items()
        if inode and (inode in held or _was_of(name, pids))
    }
    if leaving:
        others = held_by(psutil.pids())
        for name in [name for name, inode in leaving.items() if inode not in others]:
            with contextlib.suppress(OSError):
                (FOLDER / name).unlink()


def _was_of(name: str, pids: set[int]) -> bool:
    match = NAME.match(name)
    pid = int(match["pid"]) if match and match["pid"] else None
    return pid is not None and (pid in pids or not psutil.pid_exists(pid))


def _inode(name: str, since: float) -> int | None:
    """Return the inode of a file that may be of a run which began then."""
    try:
        status = (FOLDER / name).lstat()
    except OSError:
        return None
    # a second of slack: the clock of the file system ticks coarsely
    is_new = status.st_uid == os.getuid() and status.st_ctime >= since - 1
    return status.st_ino if is_new and NAME.match(name) else None


def new_names(before: Before) -> set[str]:
    """Return names that came since and do not say whose they are."""
    return {
        name
        for name in look() - before.names
        if (match := NAME.match(name)) and match["pid"] is None
    }


def held_by(pids: Iterable[int]) -> set[int]:
    """Return the inodes of the files in /dev/shm that processes have mapped or open.

    By inode and not by name: glibc maps a semaphore under a temporary name, which it then links to
    the real one, so that the name in the map is of a deleted file.
    """
    held: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text("utf-8", errors="replace")
            held |= {int(inode) for inode in MAPPED.findall(maps)}
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()).startswith(f"{FOLDER}/"):
                        held.add(entry.stat().st_ino)
    return held
