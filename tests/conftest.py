"""What all tests have in common."""

from __future__ import annotations

import sys
import threading

import pytest

from torchlint.checking import end_deep_thread


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
    in_threads = threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    end_deep_thread()
    yield
    end_deep_thread()
    threading.settrace(in_threads)
    sys.settrace(counting)
