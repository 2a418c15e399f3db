"""Refuses writes to the user's own tree, and notes those to other places outside the copy."""

from __future__ import annotations

import errno
import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Tuple

from .places import below

if TYPE_CHECKING:
    from .plan import Plan

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOTED = 1000  # paths that are kept at most
_Arguments = Tuple[Any, ...]


class Guard:
    """Judges paths; ``noted`` has those outside the copy, in order."""

    def __init__(self, plan: Plan) -> None:
        temporary = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
        self.root = plan.root
        self.original = plan.original
        self.free = [plan.root, plan.records, "/dev", "/proc", "/tmp", "/var/tmp"]  # noqa: S108
        self.free += [os.path.realpath(each) for each in temporary if each]
        self.noted: list[str] = []

    def check(self, path: Any, folder: int = -1, *, follow: bool = True) -> None:
        """Raise PermissionError for what lies in the user's tree and not in the copy.

        ``folder`` is a descriptor that a relative path starts from.  A removed or renamed link is
        itself meant and not what it leads to: then ``follow`` is False.
        """
        if isinstance(path, int) or path is None:
            return
        name = os.path.join(_folder(folder), os.fsdecode(path))
        head, tail = os.path.split(os.path.abspath(name))
        real = os.path.realpath(name) if follow else os.path.join(os.path.realpath(head), tail)
        if below(real, self.root):
            return
        refused = below(real, self.original)
        if not refused and any(below(real, each) for each in self.free):
            return
        if "__pycache__" not in real and len(self.noted) < _NOTED:
            self.noted.append(real)
        if refused:
            raise PermissionError(
                errno.EACCES,
                "torchlint verify keeps the project as it is, and this path leads to it; "
                "open it for reading only, or write to a path relative to the working folder",
                real,
            )


def _folder(descriptor: int) -> str:
    if descriptor < 0:
        return ""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def guard(plan: Plan) -> Guard:
    """Look at every file that Python itself opens, makes, moves or deletes from now on."""
    judge = Guard(plan)
    handlers = _handlers(judge)

    def audit(event: str, arguments: _Arguments) -> None:
        handler = handlers.get(event)
        if handler is not None:
            handler(arguments)

    sys.addaudithook(audit)
    return judge


def _handlers(judge: Guard) -> dict[str, Callable[[_Arguments], None]]:
    check = judge.check

    def opens(given: _Arguments) -> None:
        path, _mode, flags = given
        if flags & _WRITING:
            check(path)

    def moves(given: _Arguments) -> None:
        check(given[0], given[2], follow=False)
        check(given[1], given[3], follow=False)

    def links(given: _Arguments) -> None:
        check(given[1], given[-1], follow=False)

    def entry(given: _Arguments) -> None:
        check(given[0], given[-1], follow=False)

    def content(given: _Arguments) -> None:
        check(given[0])

    return {
        "open": opens,
        "os.rename": moves,
        "os.link": links,
        "os.symlink": links,
        "os.remove": entry,
        "os.rmdir": entry,
        "os.mkdir": entry,
        "os.truncate": content,
        "os.chmod": content,
        "os.chown": content,
        "os.utime": content,
        "sqlite3.connect": content,
    }


def guard_torch(torch: Any, judge: Guard) -> None:
    """Look also at the files that torch opens in C++, of which Python is not told."""
    writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    writer.__init__ = _checking(writer.__init__, 1, judge)


def guard_safetensors(safetensors: Any, judge: Guard) -> None:
    """Look also at the files that safetensors opens in Rust."""
    write = getattr(safetensors, "serialize_file", None)
    if write is not None:
        safetensors.serialize_file = _checking(write, 1, judge)


def _checking(call: Any, place: int, judge: Guard) -> Any:
    """Return the same call that looks first at the path in one of its arguments."""

    @functools.wraps(call)
    def checking(*args: Any, **kwargs: Any) -> Any:
        for path in args[place : place + 1] or [kwargs.get("filename")]:
            judge.check(path)
        return call(*args, **kwargs)

    return checking
