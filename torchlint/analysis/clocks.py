"""Where the time is read, or an event of the GPU is made that tells it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_CLOCKS = re.compile(
    r"time\.(time|perf_counter|monotonic|process_time|thread_time)(_ns)?|timeit\.default_timer|"
    r"datetime\.(datetime\.)?(now|utcnow)|torch\.(cuda|mps|xpu)\.(event\.)?Event|torch\.Event"
)


def reads_clock(program: Program, node: cst.CSTNode) -> bool:
    """Whether a clock is read, or an event made, at or below a node."""
    return next(clock_reads(program, node), None) is not None


def clock_reads(program: Program, place: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield where a function or loop reads a clock, or makes an event."""
    for call in own_calls(program, place):
        if _CLOCKS.fullmatch(program.qualified(call.func)):
            yield call


def own_calls(program: Program, place: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield calls at or below a place; in a module, those outside of functions."""
    for call in program.index.below(place, cst.Call):
        if not isinstance(place, cst.Module) or program.function(call) is None:
            yield call
