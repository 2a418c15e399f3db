"""Files in /dev/shm that the processes of a run left: found with care, and removed."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

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


def sweep(before: Before, pids: set[int]) -> None:
    """Remove what the processes of a run left; call it when all of them have ended.

    A file goes if it came since, is this user's, has a name that torch, NCCL or multiprocessing
    give, and either the name holds the number of one of the processes, or it holds none and no
    process has the file open.
    """
    candidates = [name for name in look() - before.names if _is_ours(name, before.time)]
    if not candidates:
        return
    held = _held()
    for name in candidates:
        match = NAME.match(name)
        assert match is not None
        pid = match["pid"]
        if _inode(name) in held:
            continue
        if pid is None or int(pid) in pids or not psutil.pid_exists(int(pid)):
            with contextlib.suppress(OSError):
                (FOLDER / name).unlink()


def _is_ours(name: str, since: float) -> bool:
    try:
        status = (FOLDER / name).lstat()
    except OSError:
        return False
    # a second of slack: the clock of the file system ticks coarsely
    return NAME.match(name) is not None and (
        status.st_uid == os.getuid() and status.st_ctime >= since - 1
    )


def _held() -> set[int]:
    """Return the inodes of files in /dev/shm that a process has mapped or open.

    By inode and not by name: glibc maps a semaphore under a temporary name, which it then links to
    the real one, so that the name in the map is of a deleted file.
    """
    held: set[int] = set()
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text("utf-8", errors="replace")
            held |= {int(inode) for inode in MAPPED.findall(maps)}
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()).startswith(f"{FOLDER}/"):
                        held.add(entry.stat().st_ino)
    return held


def _inode(name: str) -> int | None:
    try:
        return (FOLDER / name).lstat().st_ino
    except OSError:
        return None
