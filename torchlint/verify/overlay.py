"""Runs a command where a fresh layer lies over the project, at the project's own path (Linux).

It is a program of its own, without other modules: ``python -I -S overlay.py ROOT UPPER WORK FOLDER
COMMAND...``.  It makes a mount namespace that goes when its last process does, so that nothing has
to be unmounted; writes go to ``UPPER``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# From sched.h and sys/mount.h of Linux.
NEWNS, NEWUSER = 0x00020000, 0x10000000
PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
FAILED = 125  # exit code where the system does not allow it


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _must(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _enter() -> bool:
    """Enter a mount namespace; say whether that took a user namespace.

    There the user stays who they are: with another number, ``id -u`` would differ.
    """
    libc = _libc()
    uid, gid = os.geteuid(), os.getegid()
    # The real root is better off without: in a user namespace, files of others are closed to it.
    if uid == 0 and libc.unshare(NEWNS) == 0:
        return False
    _must(libc.unshare(NEWNS | NEWUSER), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path("/proc/self", name).write_text(text, "ascii")
    return True


def _cover(root: str, upper: str, work: str) -> None:
    """Mount the layer."""
    options = f"lowerdir={root},upperdir={upper},workdir={work}"
    if _enter():
        options += ",userxattr"
    mount = _libc().mount
    _must(mount(b"none", b"/", None, ctypes.c_ulong(PRIVATE), None), "mount /")
    _must(
        mount(b"overlay", os.fsencode(root), b"overlay", ctypes.c_ulong(0), os.fsencode(options)),
        "mount overlay",
    )


def main(arguments: list[str]) -> None:
    """Cover the project and become the command."""
    root, upper, work, folder, *command = arguments
    try:
        _cover(root, upper, work)
        os.chdir(folder)  # the same path, but now what lies over it
    except OSError as error:
        sys.stderr.write(f"torchlint: {error}\n")
        raise SystemExit(FAILED) from None
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own command
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        raise SystemExit(127) from None


if __name__ == "__main__":
    main(sys.argv[1:])
