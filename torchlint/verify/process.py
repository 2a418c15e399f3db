"""One launch of a command: its own session, the tail of what it prints, its memory, its end."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from torchlint.errors import TorchlintError
from torchlint.verify import processes, shared_memory
from torchlint.verify.record import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

TAIL = 16 * 1024  # bytes kept of what a script prints
FEW, PAUSE = 4096, 0.01  # bytes, seconds: a script that prints much must not keep us busy
LOOK = 0.25  # seconds between two looks at the processes
LINGER = 3.0  # seconds that the others have after the leader has ended
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")


class Tail:
    """The last bytes that come out of a pipe, read by a thread so that the writer never waits."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="torchlint-tail", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := self._pipe.read1(64 * 1024):  # type: ignore[attr-defined]  # buffered
                self._kept += piece
                if len(self._kept) > 4 * TAIL:
                    del self._kept[:-TAIL]
                if len(piece) < FEW:
                    time.sleep(PAUSE)

    def close(self) -> str:
        """Return the tail as text; call it when no process is left that holds the other end."""
        self._thread.join(LINGER)
        if not self._thread.is_alive():  # else a stranger holds the pipe: leave it to the thread
            self._pipe.close()
        return _readable(bytes(self._kept))


def _readable(raw: bytes) -> str:
    """Return whole lines, as they stand on a screen: a progress bar is its last state."""
    text = raw[-TAIL:].decode("utf-8", errors="replace").replace("\r\n", "\n")
    if len(raw) > TAIL:
        text = text.partition("\n")[2] or text
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(_CONTROL.sub("", line).rstrip() for line in lines).strip("\n")


@dataclass(slots=True)
class Live:
    """A command that was launched; `end` has to be called, whatever happens."""

    popen: subprocess.Popen[bytes]
    plan: Path
    before: shared_memory.Before
    stdout: Tail
    stderr: Tail
    started: float  # seconds of time.monotonic
    seen: set[processes.Process] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # names in shared memory that came since
    held: set[int] = field(default_factory=set)  # inodes there that its processes had
    rss: int = 0  # bytes: the largest sum of the peaks of processes that lived at once
    said: str | None = None  # the tail of stderr, once all have ended

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.popen.poll()

    def look(self) -> None:
        """Remember the processes that there are, the memory they have, and what they share."""
        pids = processes.tree(self.popen.pid)
        self.seen |= {process for pid in pids if (process := processes.identify(pid))}
        self.rss = max(self.rss, sum(map(processes.resident_peak, pids)))
        if new := shared_memory.new_names(self.before) - self.asked:  # ours, or anybody's
            self.asked |= new
            self.held |= shared_memory.held_by(process.pid for process in self.seen)

    def wait(self, deadline: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the leader ends or ``until`` says so; False when it is ``deadline`` first."""
        pause = 0.02  # short at first: much of the memory is taken early
        while self.code is None and not until():
            self.look()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(min(pause, left))
            pause = min(LOOK, pause * 1.5)
        return True

    def stop(self) -> None:
        """Stop all processes of the run where they are."""
        self.look()
        processes.send(self.seen | processes.of_session(self.popen.pid), signal.SIGSTOP)

    def go_on(self) -> None:
        """Let them go on."""
        processes.send(self.seen | processes.of_session(self.popen.pid), signal.SIGCONT)

    def end(self, linger: float = 0.0) -> str:
        """End every process of the run and what they left in shared memory; return stderr's tail.

        ``linger`` is how many seconds they have to end by themselves.
        """
        if self.said is not None:  # its numbers may be those of other processes by now
            return self.said
        with uninterrupted():
            deadline = time.monotonic() + linger
            while time.monotonic() < deadline and (
                processes.of_session(self.popen.pid) or processes.of_plan(str(self.plan))
            ):
                time.sleep(0.02)
            self.look()
            processes.end(self.popen.pid, str(self.plan), self.seen)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is gone, or an error above
                self.popen.wait(processes.DEATH)
            shared_memory.sweep(self.before, {process.pid for process in self.seen}, self.held)
            self.stdout.close()
            self.said = self.stderr.close()
        return self.said


def launch(words: Sequence[str], folder: Path, environment: Mapping[str, str], plan: Path) -> Live:
    """Start a command in a session of its own, with nothing on standard input.

    Raises:
        TorchlintError: there is no such program or folder.

    """
    before = shared_memory.Before(shared_memory.look(), time.time())
    try:
        popen = subprocess.Popen(  # noqa: S603 - the user's own command
            words,
            cwd=folder,
            env={**environment, VARIABLE: str(plan)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise TorchlintError(
            f"{words[0]}: cannot be started in {folder}: {problem}; "
            "check the interpreter, the launcher and the working folder"
        ) from None
    assert popen.stdout is not None
    assert popen.stderr is not None
    stdout, stderr = Tail(popen.stdout), Tail(popen.stderr)
    return Live(popen, plan, before, stdout, stderr, time.monotonic())


def in_words(code: int | None) -> str:
    """Say how a command ended: the exit code of it, or the signal and what that may mean."""
    if code is None:
        return "did not end"
    if code > 128 and code - 128 in set(signal.Signals):  # as shells and launchers pass it on
        code = 128 - code
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"killed by signal {-code}"
    why = _MEANING.get(name, "")
    return f"killed by signal {-code} ({name})" + (f": {why}" if why else "")


_MEANING = {
    "SIGKILL": "perhaps out of memory",
    "SIGSEGV": "a crash in native code",
    "SIGABRT": "native code gave up; its last lines say why",
    "SIGBUS": "perhaps /dev/shm or the disk is full",
    "SIGFPE": "a crash in native code",
    "SIGILL": "native code made for another processor",
}


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, so that what was started is ended too."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled({s: interrupt for s in SIGNALS[1:] if signal.getsignal(s) is signal.SIG_DFL}):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back while things are put away; they count afterwards."""
    held: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    active = [s for s in SIGNALS if callable(signal.getsignal(s))]
    with _handled(dict.fromkeys(active, hold)):
        yield
    if held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(
    handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], None]],
) -> Iterator[None]:
    """Handle signals so for a while; threads other than the main one cannot, and do not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
