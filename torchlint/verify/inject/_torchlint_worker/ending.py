"""The end of a process: its record, then out, past every `except:` and `finally:` of the script."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn

from . import record
from .early import tell_error

if TYPE_CHECKING:
    from .state import State

_OTHERS = 3.0  # seconds that a rank waits for the others' records: its exit may fail their steps
_CHILD = 1.0  # seconds for a killed child to be gone


class Ending:
    """Writes one record for each process, when it is ended or ends by itself."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.lock = threading.Lock()
        self.leave = os._exit

    def end(self) -> NoReturn:
        """End this process now, from any thread; an exception could be caught by the script."""
        if not self.lock.acquire(blocking=False):
            threading.Event().wait()  # another thread ends this process
        code = 0 if self._write("bound") else 1
        self._wait_for_others()
        self.out(code)

    def out(self, code: int) -> NoReturn:
        """Leave no child, no semaphore, nothing unwritten on the standard streams."""
        for stream in sys.stdout, sys.stderr:
            with contextlib.suppress(Exception):
                stream.flush()
        self._end_children()
        self.leave(code)
        raise AssertionError

    def _end_children(self) -> None:
        for step in (
            functools.partial(_forget_workers, self.state.torch, self.state.loaders),
            _kill_children,
            _give_back,
            _end_tracker,
        ):
            with contextlib.suppress(Exception):
                step()

    def exits(self) -> None:
        """Write what is known when the script ends by itself, or by its own error."""
        if self.state.trained() and self.lock.acquire(blocking=False):
            if self.state.trace is not None:  # before torch is taken down under a profiler
                with contextlib.suppress(Exception):
                    self.state.trace.window_closes(self.state.device)
            self._write("exit")

    def exits_at_once(self, status: int) -> NoReturn:
        """Stand for `os._exit`, with which children of multiprocessing end, and some scripts."""
        self.exits()
        self.leave(status)
        raise AssertionError

    def _write(self, ended: str) -> bool:
        """Whether the record is there; what went wrong is left beside it for the harness."""
        try:
            record.write(self.state, ended)
        except Exception:  # noqa: BLE001  # the script's own ending has to stay what it is
            tell_error(self.state.plan.records)
            return False
        return True

    def _wait_for_others(self) -> None:
        world = int(os.environ.get("LOCAL_WORLD_SIZE", self.state.ranks()[1]))
        latest = monotonic() + _OTHERS
        while len(record.names(self.state.plan.records)) < world and monotonic() < latest:
            sleep(0.01)


def _forget_workers(torch: Any, iterators: Any) -> None:
    """Let no death of a worker raise: torch watches them, in a handler of SIGCHLD."""
    for iterator in list(iterators):
        torch.utils.data._utils.signal_handling._remove_worker_pids(id(iterator))  # noqa: SLF001
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _kill_children() -> None:
    children = multiprocessing.active_children()
    for child in children:
        child.kill()
    for child in children:
        child.join(_CHILD)


def _give_back() -> None:
    """Remove the semaphores and folders of multiprocessing that only an orderly exit removes."""
    finalizers: Any = getattr(sys.modules.get("multiprocessing.util"), "_finalizer_registry", {})
    for finalizer in list(finalizers.values()):
        name = getattr(getattr(finalizer, "_callback", None), "__qualname__", "")
        if name.startswith(("SemLock.", "_remove_temp_dir")):
            finalizer()


def _end_tracker() -> None:
    """Close multiprocessing's tracker and wait for it, where this process started it."""
    tracker: Any = sys.modules.get("multiprocessing.resource_tracker")
    own = getattr(tracker, "_resource_tracker", None)
    if own is None or own._pid is None or own._fd is None:  # noqa: SLF001
        return
    os.close(own._fd)  # noqa: SLF001
    latest = monotonic() + _CHILD
    while os.waitpid(own._pid, os.WNOHANG)[0] == 0 and monotonic() < latest:  # noqa: SLF001
        sleep(0.005)
