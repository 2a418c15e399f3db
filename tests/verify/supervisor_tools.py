"""Ends what tests have started when their process is gone, be it by SIGKILL.

What a test starts inherits a mark in its environment.  A process beside pytest waits for its end,
then ends all that carry the mark: also those in sessions of their own, and their children.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "TORCHLINT_STARTED_BY_TESTS"
GRACE = 2.0  # seconds between SIGTERM, upon which torchlint removes its folders, and SIGKILL
PATIENCE = 60.0  # seconds
_supervised: set[int] = set()  # the process that has its supervisor: a forked child has none


def end_with_this_process() -> None:
    """Mark what this process will start, and have it ended when this process is gone (Linux)."""
    if os.getpid() in _supervised or not sys.platform.startswith("linux"):
        return
    _supervised.add(os.getpid())
    mark = os.environ[MARK] = uuid.uuid4().hex
    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, str(os.getpid())],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    supervisor.returncode = 0  # nobody waits for it: it ends after this process


def marked(mark: str) -> list[int]:
    """Return the processes with a mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or somebody else's
            continue
        if wanted in variables:
            found.append(int(folder.name))
    return found


def end(mark: str) -> None:
    """End all that carry a mark, until there are none; give up on what no signal can end."""
    began = time.monotonic()
    latest, kind = began + GRACE, signal.SIGTERM
    while (pids := marked(mark)) and time.monotonic() < began + PATIENCE:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, kind)
        while kind is signal.SIGTERM and marked(mark) and time.monotonic() < latest:
            time.sleep(0.05)
        kind = signal.SIGKILL
        time.sleep(0.02)


def main() -> None:
    mark, parent = sys.argv[1], int(sys.argv[2])
    while os.getppid() == parent:
        time.sleep(0.2)
    end(mark)


if __name__ == "__main__":
    main()
