"""Writes the outcome of each test at once, for `benchmarks/lease.py`; a plugin of pytest.

Tests that an earlier process of this run began are left out: one of them ended it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

JOB = os.environ.get("LEASE_JOB", "")  # other processes write to the same file
NONE_COLLECTED = 5
FILE = Path(os.environ["LEASE_TESTS"])
SINCE = float(os.environ["LEASE_SINCE"])
STDERR = os.dup(2)  # before pytest captures it


def _say(what: str, test: str, **more: Any) -> None:
    known = {"time": round(time.time(), 3), "job": JOB, "what": what, "test": test}
    line = json.dumps({**known, **more}) + "\n"
    try:
        with FILE.open("ab", buffering=0) as stream:  # a whole line at a time
            stream.write(line.encode())
    except OSError:
        return  # a full disk: the tests go on


def _begun() -> set[str]:
    """Return the tests that were begun before."""
    found = set()
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.is_file() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        is_ours = entry["job"] == JOB and entry["time"] >= SINCE
        if is_ours and entry["what"] == "begun":
            found.add(entry["test"])
    return found


def pytest_configure() -> None:
    """Write the stack on SIGUSR2, and end in order on SIGTERM: what a test started ends too."""
    faulthandler.register(signal.SIGUSR2, file=STDERR, all_threads=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was begun before."""
    begun = _begun()
    old = [item for item in items if item.nodeid in begun]
    if old:
        config.hook.pytest_deselected(items=old)
        items[:] = [item for item in items if item.nodeid not in begun]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say how many tests there are."""
    _say("collected", "", tests=len(session.items) + len(_begun()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End well where no test is left, or none of a file is about a GPU."""
    if exitstatus == NONE_COLLECTED:
        session.exitstatus = 0


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Say which file cannot be imported."""
    if report.failed:
        _say("error", report.nodeid, why=report.longreprtext)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say which test begins."""
    _say("begun", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say how a test ended, and why."""
    if report.failed:
        what = "failed" if report.when == "call" else "error"
        _say(what, report.nodeid, seconds=round(report.duration, 2), why=report.longreprtext)
    elif report.when == "call" or report.skipped:
        why = report.longreprtext if report.skipped else ""
        _say(report.outcome, report.nodeid, seconds=round(report.duration, 2), why=why)
