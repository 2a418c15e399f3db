"""Killing pytest leaves none of the processes that its tests have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

TESTS = """
import subprocess, sys, time
sys.path.insert(0, {folder!r})
from supervisor_tools import end_with_this_process
end_with_this_process()
child = "import subprocess, sys, time; " \\
    "print(subprocess.Popen([sys.executable, '-c', 'import signal, time; " \\
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'], " \\
    "start_new_session=True).pid, flush=True); time.sleep(600)"
started = subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
print(started.pid, flush=True)
{then}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is read")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_killing_pytest_leaves_no_process_of_its_tests(how) -> None:
    """Nor of what these started, in sessions of their own; and it may end by itself as well."""
    then = "time.sleep(600)" if how else "time.sleep(1)"
    text = TESTS.format(folder=str(Path(__file__).parent), then=then)
    tests = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    pids = [int(tests.stdout.readline()) for _ in range(2)]
    try:
        assert all(map(is_alive, pids))
        if how:
            os.kill(tests.pid, how)
        tests.wait()
        latest = time.monotonic() + 60
        while any(map(is_alive, pids)) and time.monotonic() < latest:
            time.sleep(0.05)
        assert not any(map(is_alive, pids))
    finally:
        tests.stdout.close()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
