"""What all tests have in common."""

from __future__ import annotations

import functools
import signal
import sys
import threading

import pytest

from torchlint.deep import end_deep_thread
from torchlint.registry import ENGINE_RULES, all_rules, load


def pytest_configure() -> None:
    """Listen to interrupts again, which a shell lets the commands in its background ignore.

    Programs that a test starts and interrupts would ignore them as well, and never end.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@functools.cache
def _import_rules() -> None:
    """Import all rules, and what they ask: each line of a module runs once in a process."""
    for rule in all_rules():
        if rule not in ENGINE_RULES:
            load(rule)


@pytest.fixture(autouse=True)
def _uncounted(request):
    """Count no line while a test runs that asks for it: counting takes half of its time.

    `pytest.mark.no_cover` of pytest-cov counts on in the processes of pytest-xdist, and never again
    in a thread that goes on: each such test has a deep thread of its own.
    """
    counting = sys.gettrace()
    if counting is None or request.node.get_closest_marker("uncounted") is None:
        yield
        return
    _import_rules()  # else their lines would not be counted where this test is the first
    in_threads = threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    end_deep_thread()
    yield
    end_deep_thread()
    threading.settrace(in_threads)
    sys.settrace(counting)
