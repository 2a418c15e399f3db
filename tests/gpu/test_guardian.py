"""No process of a test outlives pytest."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from gpu_tools import ROOT, guarded

# As pytest does: it starts a process, which starts one in a session of its own, and waits.
STARTS = f"""
import subprocess, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "tests" / "verify")!r}]
from gpu_tools import guarded
outer = '''
import subprocess, sys
inner = [sys.executable, "-c", "import time; time.sleep(100)"]
child = subprocess.Popen(inner, start_new_session=True)
print(child.pid, flush=True)
child.wait()
'''
with guarded():
    subprocess.run([sys.executable, "-c", outer])
"""


def ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_pytest_ends_what_its_tests_started(number) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE) as likeness:
        assert likeness.stdout is not None
        started = int(likeness.stdout.readline())
        assert not ended(started)
        likeness.send_signal(number)
    latest = time.monotonic() + 30
    while not ended(started):
        assert time.monotonic() < latest
        time.sleep(0.02)


def test_what_the_tests_did_not_start_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with guarded():
            pass
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0
