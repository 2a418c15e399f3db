"""What the runs of a configuration measured, as numbers: steps, waits, memory, reads, losses."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from torchlint.verify.model import Ending, Phase
from torchlint.verify.statistics import log_interval
from torchlint.verify.steptimes import data_wait, lockstep_sample, step_time, steps_made

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.verify.model import Bounds, Interval, Result, Run, Sample

USEFUL = (Ending.BOUND, Ending.FINISHED)
ENOUGH = 3  # runs; the interval of two says nothing


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
    traced, piloted = runs_of(result, Phase.TRACE), runs_of(result, Phase.PILOT)
    steps = [time for run in timed if (time := step_seconds(run, bounds)) is not None]
    measured = timed or traced  # a pilot run counts what its warm-up took as well
    device = [value for run in measured for value in _device_memory(run)]
    host = [run.rss for run in measured if run.rss]
    waits = [mean(wait_share(run, bounds) for run in runs) for runs in (timed, piloted)]
    return Figures(
        seconds=mean(steps),
        step=result.step or (log_interval(steps) if len(steps) >= ENOUGH else None),
        wait=next((share for share in waits if share is not None), None),
        busy=mean(record.busy for run in result.runs for record in run.records),
        memory=max(device or host, default=None),
        on_device=bool(device),
        reads=mean(_reads(run, bounds) for run in traced),
    )


def typical(samples: Sequence[Sample]) -> tuple[float, float]:
    """Return the typical step time of both arms of these pairs of runs.

    They are geometric means, so that one by the other is exactly the speed-up that the pairs have.
    Medians of the arms may say the opposite of it.
    """
    return (
        geometric_mean(sample.before for sample in samples),
        geometric_mean(sample.after for sample in samples),
    )


def runs_of(result: Result, phase: Phase) -> list[Run]:
    """Return the runs of a phase that came to their end."""
    return [run for run in result.runs if run.phase is phase and run.ending in USEFUL]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def step_seconds(run: Run, bounds: Bounds) -> float | None:
    """Return the seconds a step of a run took, counted as its sample is."""
    if any(record.turns for record in run.records):
        sample = lockstep_sample(run, run)
        return sample.after if sample else None
    return step_time(run, bounds.anchor, bounds.warmup) if bounds.anchor else None


def wait_share(run: Run, bounds: Bounds) -> float | None:
    """Return the share of the time that a run waited for data; not known of runs in lockstep.

    There the time between two steps may be that of the other process.
    """
    if bounds.anchor is None or any(record.turns for record in run.records):
        return None
    return data_wait(run, bounds.anchor, bounds.warmup)


def _device_memory(run: Run) -> list[int]:
    """Return the most that a run had allocated on its devices, process by process."""
    return [record.memory["allocated"] for record in run.records if "allocated" in record.memory]


def _reads(run: Run, bounds: Bounds) -> float | None:
    """Return how often in a step the first process reads what the device has to finish first."""
    trace = run.records[0].trace if run.records else None
    steps = steps_made(run, bounds.anchor) if bounds.anchor else 0
    return sum(read.count for read in trace.reads) / steps if trace and steps else None


def losses(result: Result) -> list[tuple[float | None, ...]]:
    """Return the losses of each trace run, of its first process."""
    traces = (run.records[0].trace for run in runs_of(result, Phase.TRACE) if run.records)
    return [trace.losses for trace in traces if trace is not None]
