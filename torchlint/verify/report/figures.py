"""What the runs of a configuration measured, as numbers: steps, waits, memory, reads, losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from torchlint.verify.model import Ending, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.verify.model import Bounds, Interval, Record, Result, Run

USEFUL = (Ending.BOUND, Ending.FINISHED)


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of one configuration; None where nothing was measured.

    ``seconds`` is the plain mean of its runs' step times, ``step`` the same with its interval.
    ``wait`` (for data) and ``busy`` (the device) are shares of the time.  ``memory`` is the peak
    in bytes: of the device where that is known (``on_device``), else of all processes together.
    ``reads`` is how often in a step the host waits for the device to read from it.
    """

    seconds: float | None
    step: Interval | None
    wait: float | None
    busy: float | None
    memory: int | None
    on_device: bool
    reads: float | None


def figures(result: Result, bounds: Bounds) -> Figures:
    """Return what the runs of a configuration measured."""
    timed = runs_of(result, Phase.TIMING)
    device = [value for run in result.runs for value in _device_memory(run)]
    host = [run.rss for run in timed or runs_of(result, Phase.TRACE) if run.rss]
    waits = (wait_share(run, bounds) for run in timed or runs_of(result, Phase.PILOT))
    return Figures(
        seconds=mean(step_seconds(run, bounds) for run in timed),
        step=result.step,
        wait=mean(waits),
        busy=mean(record.busy for run in result.runs for record in run.records),
        memory=max(device or host, default=None),
        on_device=bool(device),
        reads=mean(_reads(run, bounds) for run in runs_of(result, Phase.TRACE)),
    )


def runs_of(result: Result, phase: Phase) -> list[Run]:
    """Return the runs of a phase that came to their end."""
    return [run for run in result.runs if run.phase is phase and run.ending in USEFUL]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def events(record: Record, bounds: Bounds) -> Sequence[float]:
    """Return the times of the anchor's steps in one process, or of its backwards."""
    anchor = bounds.anchor
    if anchor is None or anchor.kind == "backward":
        return record.backwards
    return record.steps[anchor.index] if anchor.index < len(record.steps) else ()


def window(record: Record, bounds: Bounds) -> tuple[float, int]:
    """Return the seconds and the number of steps of one process after its warm-up."""
    times = events(record, bounds)[max(0, bounds.warmup - 1) :]
    steps = len(times) - 1
    if steps < 1:
        return 0.0, 0
    return (sum(record.turns) if record.turns else times[-1] - times[0]), steps


def step_seconds(run: Run, bounds: Bounds) -> float | None:
    """Return the seconds a step of a run took: those of its slowest process."""
    windows = (window(record, bounds) for record in run.records)
    return max((seconds / steps for seconds, steps in windows if steps), default=None)


def step_series(run: Run, bounds: Bounds) -> list[float]:
    """Return the seconds of each step (in lockstep: of a turn's mean step) of the first process."""
    if not run.records:
        return []
    record = run.records[0]
    _, steps = window(record, bounds)
    if record.turns:
        return [seconds * len(record.turns) / steps for seconds in record.turns] if steps else []
    times = events(record, bounds)[max(0, bounds.warmup - 1) :]
    return [after - before for before, after in pairwise(times)]


def wait_share(run: Run, bounds: Bounds) -> float | None:
    """Return the share of the window that the processes of a run waited for data, on average."""
    return mean(_waited(record, bounds) for record in run.records)


def _waited(record: Record, bounds: Bounds) -> float | None:
    seconds, steps = window(record, bounds)
    if not steps or seconds <= 0:
        return None
    times = events(record, bounds)
    begin, end = times[max(0, bounds.warmup - 1)], times[-1]
    return min(1.0, sum(length for at, length in record.waits if begin < at <= end) / seconds)


def _device_memory(run: Run) -> list[int]:
    """Return the most that a run had allocated on its devices, process by process."""
    return [record.memory["allocated"] for record in run.records if "allocated" in record.memory]


def _reads(run: Run, bounds: Bounds) -> float | None:
    """Return how often in a step the first process reads what the device has to finish first."""
    if not run.records or run.records[0].trace is None:
        return None
    record = run.records[0]
    steps = len(events(record, bounds))
    assert record.trace is not None
    return sum(read.count for read in record.trace.reads) / steps if steps else None


def losses(result: Result) -> list[tuple[float | None, ...]]:
    """Return the losses of each trace run, of its first process."""
    traces = (run.records[0].trace for run in runs_of(result, Phase.TRACE) if run.records)
    return [trace.losses for trace in traces if trace is not None]
