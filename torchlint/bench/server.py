"""Imports torch once, and forks a process for each row; needs the standard library and torch only.

It runs in the user's Python and speaks lines of JSON.  It is given one job at a time:

    {"key": "TL602 width 256", "before": "row_0_before", "patience": 20, ...}

and passes on what the child says of it, then ``{"ended": how}``: the exit status of the child (a
signal as its negative number), or "hung" or "stopped", with the stack of a child that hung.  The
modules lie beside this file.  The word ``stop`` ends the child; the end of the input ends all.

Nothing is asked of ``torch.cuda`` here: on a CUDA build a mere question poisons forked children.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from typing import Any, NoReturn

SAID, STACK = "said.txt", "stack.txt"  # what the child prints, and where it hangs
ENDING = 3.0  # seconds that a child has to end after its last word
SUBREAPER, DEATH_SIGNAL = 36, 1  # of prctl(2)


def main() -> None:
    """Serve jobs until the input ends; nothing is left then, this file's folder included."""
    out, wake = os.dup(1), os.pipe()
    os.dup2(2, 1)
    for end in wake:
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake[1], warn_on_full_buffer=False)
    _prctl(SUBREAPER, 1)
    importlib.import_module("worker")
    if "plain" not in sys.argv:  # what the first optimizer imports, and takes a second each time
        with contextlib.suppress(ImportError):
            importlib.import_module("torch._dynamo")
    try:
        while order := _order():
            if order != b"stop\n" and not _serve(json.loads(order), out, wake):
                break
    finally:
        _end_all()
        shutil.rmtree(os.getcwd(), ignore_errors=True)  # noqa: PTH109  there is no path to hand on


def _order() -> bytes:
    """Return the next line of the input, and leave what follows it there."""
    line = b""
    while not line.endswith(b"\n"):
        if not (more := os.read(0, 1)):
            return b""
        line += more
    return line


def _fork() -> int:
    with warnings.catch_warnings():  # libraries have threads of their own, idle ones
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(job: dict[str, Any], out: int, wake: tuple[int, int]) -> bool:
    """Run a job in a child; return whether more may come."""
    hears, says = os.pipe()
    for file in (SAID, STACK):
        open(file, "w").close()  # noqa: PTH123  empties it
    child = _fork()
    if not child:
        for each in (out, hears, *wake):
            os.close(each)
        _become(job, says)
    os.close(says)
    os.set_blocking(hears, False)
    ended = _watch(child, job, hears, out, wake[0])
    _end_all(child)
    _relay(hears, out)
    os.close(hears)
    stack = _read(STACK) if ended == "hung" else ""
    line = {"ended": ended, "stack": stack, "said": _read(SAID)[-2000:]}
    _write(out, json.dumps(line).encode() + b"\n")
    return ended != "orphaned"


def _watch(child: int, job: dict[str, Any], hears: int, out: int, wake: int) -> int | str:
    """Pass on what a child says; return how it ended, or why it has to."""
    sources = [0, hears, wake]
    patience = job["patience"]
    until = time.monotonic() + patience
    while ready := select.select(sources, (), (), max(0.0, until - time.monotonic()))[0]:
        if 0 in ready:
            return "stopped" if os.read(0, 4096) else "orphaned"
        if hears in ready:
            words = _relay(hears, out)
            if not words:
                sources.remove(hears)
            if b'"done"' in words:
                patience = ENDING
            until = time.monotonic() + patience
        if wake in ready:
            os.read(wake, 4096)
            process, status = os.waitpid(child, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
    os.kill(child, signal.SIGUSR2)  # it writes its stack
    time.sleep(0.5)
    return "hung"


def _relay(hears: int, out: int) -> bytes:
    """Pass on what has been said; a line is written at once, so that there are no parts of one."""
    said = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(hears, 65536):
            said += part
    _write(out, said)
    return said


def _write(out: int, data: bytes) -> None:
    while data:  # a signal may come in between
        data = data[os.write(out, data) :]


def _become(job: dict[str, Any], says: int) -> NoReturn:
    """Be the child: do the job, and end without the clean-up that loaders sleep in."""
    os.setsid()
    _prctl(DEATH_SIGNAL, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(SAID, os.O_WRONLY | os.O_APPEND)
    for source, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(source, target)

    def say(**words: Any) -> None:
        os.write(says, json.dumps(words).encode() + b"\n")

    status = 0
    try:
        with open(STACK, "w") as stack:  # noqa: PTH123  no pathlib is needed here
            faulthandler.register(signal.SIGUSR2, file=stack, all_threads=True)
            sys.modules["worker"].run(job, say)
        say(done=True)
    except BaseException:  # noqa: BLE001  whatever a program raises is its own fault
        say(error=traceback.format_exc(limit=-3)[-2000:])
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _read(file: str) -> str:
    with open(file, errors="replace") as text:  # noqa: PTH123  no pathlib is needed here
        return text.read()


def _end_all(child: int = 0) -> None:
    """End a child's process group and all that still runs below this process."""
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if child:
                os.killpg(child, signal.SIGKILL)
        for process in _below():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            time.sleep(0.002)


def _below() -> list[int]:
    """Return the children of this process; orphans below it become its own (Linux)."""
    try:
        return [int(each) for each in _read(f"/proc/self/task/{os.getpid()}/children").split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    """Ask Linux for something; other systems do without."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415  not in every Python

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
