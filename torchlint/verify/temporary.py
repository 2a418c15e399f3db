"""The temporary folder of a session, and what sessions that were killed left of theirs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.verify import processes, shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "torchlint-verify-"
OWNER = "owner"  # the file that the session that owns a folder holds a lock on
SHARED = "shared-memory"  # what lay there before the run in this folder
FULL = 64 * 1024  # bytes: a disk with less is full
UNMARKED = 3600.0  # seconds after which a folder without an owner's file counts as left


class Session:
    """A temporary folder that is removed at the end, and is known to be left if it is not.

    The lock on its file goes with this process, however that ends.  A number and a start time of
    a process would not do: they say nothing to another container or machine that sees the folder.
    """

    def __init__(self) -> None:
        sweep()
        with no_space(Path(tempfile.gettempdir())):
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
            self._lock = _mark(self.folder)

    def close(self) -> None:
        """End what still runs from the folder, and remove it."""
        processes.end_plans(self.folder)
        remove(self.folder)
        os.close(self._lock)


def _mark(folder: Path) -> int:
    """Put the owner's file into a folder, locked before it has its name."""
    new = folder / f"{OWNER}.new"
    number = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # file systems without locks: then nobody sweeps there
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(number, f"{os.getpid()}\n".encode())
    new.rename(folder / OWNER)
    return number


def remember_shared_memory(folder: Path) -> None:
    """Write down what lies in shared memory before a run, for the sweep of a later session."""
    (folder / SHARED).write_text(json.dumps(sorted(shared_memory.look())), "utf-8")


def sweep() -> None:
    """Remove what sessions left that were killed: processes, shared memory, folders."""
    with os.scandir(tempfile.gettempdir()) as entries:
        folders = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in folders:
        with contextlib.suppress(OSError):  # gone meanwhile, or swept by another session
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                _sweep(folder.resolve(), status.st_mtime)


def _sweep(folder: Path, modified: float) -> None:
    try:
        number = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - modified > UNMARKED:
            remove(folder)
        return
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its owner lives
        pids = {process.pid for process in processes.of_plan(f"{folder}{os.sep}")}
        held = shared_memory.held_by(pids)
        processes.end_plans(folder)
        for before in _remembered(folder):
            shared_memory.sweep(before, pids, held)
        remove(folder)
    finally:
        os.close(number)


def _remembered(folder: Path) -> Iterator[shared_memory.Before]:
    for file in folder.glob(f"*/{SHARED}"):
        with contextlib.suppress(OSError, ValueError):
            names = json.loads(file.read_text("utf-8"))
            yield shared_memory.Before(frozenset(names), file.stat().st_mtime)


def remove(folder: Path) -> None:
    """Remove a folder with all in it, also folders that nobody may enter.

    Raises:
        TorchlintError: something of it cannot be removed.

    """
    for here, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(here, name)
            with contextlib.suppress(OSError):
                mode = path.lstat().st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                    path.chmod(mode | stat.S_IRWXU)
    for _ in range(3):  # a process that was being ended may have put a file into it
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
    raise TorchlintError(f"{folder}: cannot be removed; remove it by hand: the script left it so")


@contextlib.contextmanager
def no_space(folder: Path) -> Iterator[None]:
    """Say in plain words that a disk is full, or a folder cannot be written to.

    Raises:
        TorchlintError: instead of the system's error, or of one that a full disk is behind.

    """
    try:
        yield
    except TorchlintError:
        check_space(folder)
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(folder) from None
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM) and not error.filename2:
            raise TorchlintError(
                f"{error.filename or folder}: {(error.strerror or '').lower()}; "
                "set TMPDIR to a folder that can be written to"
            ) from None
        raise


def check_space(folder: Path) -> None:
    """Look whether what failed may have failed for want of space.

    Raises:
        TorchlintError: the disk is full.

    """
    if shutil.disk_usage(folder).free < FULL:
        raise _full(folder)


def _full(folder: Path) -> TorchlintError:
    return TorchlintError(
        f"{folder}: no space is left on the disk for a copy of the project and what a run writes; "
        "free some, or set TMPDIR to a folder on a larger disk"
    )
