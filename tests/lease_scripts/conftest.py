"""The modules of the benchmarks, for these tests, and those of verify that know a quicker torch."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.with_name("benchmarks")), str(TESTS / "verify")]
