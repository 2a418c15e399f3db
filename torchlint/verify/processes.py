"""Which processes belong to a run, what memory they took, and how all of them are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from torchlint.errors import TorchlintError
from torchlint.verify.record import VARIABLE

LINUX = sys.platform == "linux"
PROC = Path("/proc")
HAS_CHILDREN = (PROC / "thread-self" / "children").exists()  # Linux may be built without
GRACE = 2.0  # seconds between SIGTERM and SIGKILL
TRACKER_GRACE = 1.0  # seconds for Python's resource tracker to remove what the others left
DEATH = 30.0  # seconds after SIGKILL: much memory takes a while to be given back
ROUNDS = 20  # of looking for processes that were started while others were ended


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: str


def identify(pid: int) -> Process | None:
    """Return the process that has this number now; None where there is none, or only its shell."""
    if LINUX:
        fields = _stat(pid)
        return Process(pid, fields[19]) if fields and fields[0] not in "ZX" else None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Process(pid, repr(process.create_time()))
    except psutil.Error:
        return None


def is_alive(process: Process) -> bool:
    """Whether it still runs; an ended one that nobody waited for does not."""
    return identify(process.pid) == process


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on; proc(5) lists them."""
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """Return a process and all below it, parents first."""
    found = [pid]
    for parent in found:
        found += [child for child in _children(parent) if child not in found]
    return found


def _children(pid: int) -> list[int]:
    if not HAS_CHILDREN:
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.scandir(PROC / str(pid) / "task"):
            with contextlib.suppress(OSError):
                children += map(int, Path(task.path, "children").read_bytes().split())
    return children


def resident_peak(pid: int) -> int:
    """Return the most memory that a process had resident, in bytes; 0 where it is gone.

    Linux keeps the peak (``VmHWM``); elsewhere it is what is resident now.
    """
    if LINUX:
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "status").read_bytes().splitlines():
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def of_session(leader: int) -> set[Process]:
    """Return the processes in the process group or session that a leader began."""
    return {
        process
        for pid in psutil.pids()
        if leader in (_ask(os.getpgid, pid), _ask(os.getsid, pid)) and (process := identify(pid))
    }


def of_plan(prefix: str) -> set[Process]:
    """Return the processes whose environment names a plan with a path that begins so.

    Those of other users cannot be read, and are none of ours.
    """
    return {
        process
        for pid in psutil.pids()
        if pid != os.getpid() and _plan(pid).startswith(prefix) and (process := identify(pid))
    }


def _plan(pid: int) -> str:
    if LINUX:
        try:
            environment = (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return ""
        start = f"{VARIABLE}=".encode()
        values = (part for part in environment.split(b"\0") if part.startswith(start))
        return os.fsdecode(next(values, start).removeprefix(start))
    try:
        return psutil.Process(pid).environ().get(VARIABLE, "")
    except (psutil.Error, OSError):
        return ""


def _ask(question: object, pid: int) -> int:
    try:
        return int(question(pid))  # type: ignore[operator]  # os.getpgid or os.getsid
    except OSError:
        return -1


def send(processes: set[Process], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        if is_alive(process):
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)


def wait_for(processes: set[Process], seconds: float) -> set[Process]:
    """Wait until they have ended; return those that have not."""
    deadline = time.monotonic() + seconds
    while alive := {process for process in processes if is_alive(process)}:
        if time.monotonic() > deadline:
            return alive
        time.sleep(0.01)
    return set()


def end(leader: int, plan: str, seen: set[Process]) -> None:
    """End every process of a run: those of its group, those with its plan, those seen below it.

    Python's resource tracker goes last: it removes shared memory once its users are gone.
    """
    for once in range(ROUNDS):
        alive = {process for process in seen if is_alive(process)}
        alive |= of_session(leader) | of_plan(plan)
        alive |= {p for parent in alive for pid in tree(parent.pid) if (p := identify(pid))}
        if not alive:
            return
        _end(alive, GRACE if once == 0 else 0.0)


def end_plans(folder: Path) -> None:
    """End every process whose plan lies in a folder."""
    for once in range(ROUNDS):
        if not (alive := of_plan(f"{folder}{os.sep}")):
            return
        _end(alive, GRACE if once == 0 else 0.0)


def _end(processes: set[Process], grace: float) -> None:
    """Ask them to end, and kill those that have not after so many seconds; 0: kill at once.

    Raises:
        TorchlintError: even that does not end one.

    """
    trackers = {process for process in processes if _is_tracker(process.pid)}
    others = processes - trackers
    if grace:
        send(others, signal.SIGTERM)
        send(processes, signal.SIGCONT)  # a stopped one does not see the first signal
    send(wait_for(others, grace) if grace else others, signal.SIGKILL)
    left = wait_for(others, DEATH)
    send(wait_for(trackers, TRACKER_GRACE), signal.SIGKILL)
    if left := left | wait_for(trackers, DEATH):
        numbers = ", ".join(sorted(str(process.pid) for process in left))
        raise TorchlintError(
            f"cannot end process {numbers}: it waits in the system, for a disk or a device "
            "that does not answer; end it by hand, or restart the machine"
        )


def _is_tracker(pid: int) -> bool:
    """Whether it removes shared memory when the processes it serves are gone."""
    try:
        words = " ".join(psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return False
    return "multiprocessing.resource_tracker" in words or "torch_shm_manager" in words
