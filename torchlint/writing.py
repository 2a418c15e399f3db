"""Writing a fixed file back so that it is either the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.errors import UnreadableFileError

if TYPE_CHECKING:
    from torchlint.source import Source


def write_atomically(source: Source, data: bytes) -> None:
    """Replace the bytes of the file that the source was read from.

    The new bytes go to a temporary file in the same folder, which then takes the name; a link
    stays a link, and the file that it leads to is replaced.

    Raises:
        UnreadableFileError: the file changed since it was read, or may not be written; nothing
            was changed.

    """
    if source.path is None:
        raise ValueError("standard input cannot be written back")
    shown = Path(source.filename)
    try:
        target = source.path.resolve(strict=True)
        _refuse_changed(target, source.data)
        _replace(target, data, _writable_mode(target), source.data)
    except _ChangedError:
        raise UnreadableFileError(
            shown, "changed while it was being fixed", "nothing was written; run torchlint again"
        ) from None
    except OSError as error:
        problem = f"could not be written ({(error.strerror or str(error)).lower()})"
        remedy = "nothing was changed; make the file and its folder writable, or leave out --fix"
        raise UnreadableFileError(shown, problem, remedy) from None


class _ChangedError(Exception):
    """Somebody wrote to the file between reading and replacing it."""


def _refuse_changed(target: Path, before: bytes) -> None:
    if target.read_bytes() != before:
        raise _ChangedError


def _writable_mode(target: Path) -> int:
    """Return the permissions of the file, which a rename alone would not ask for."""
    mode = stat.S_IMODE(target.stat().st_mode)
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


def _replace(target: Path, data: bytes, mode: int, before: bytes) -> None:
    handle, name = tempfile.mkstemp(
        prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)  # noqa: PTH101 - the name comes from mkstemp as a string
        _refuse_changed(target, before)
        os.replace(name, target)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
