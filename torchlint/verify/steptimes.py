"""How long a step took in a run: the mean over its window, of the slowest process.

The mean and not the median: a loader that stalls every tenth batch costs what it costs, and the
median does not see it.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from torchlint.verify.model import Sample

if TYPE_CHECKING:
    from torchlint.verify.model import Anchor, Record, Run

NEEDED = 4  # steps that a script has to make: the first is start-up, and fewer than 3 say nothing


def ends_of_steps(record: Record, anchor: Anchor) -> tuple[float, ...]:
    """Return the times at which a process had made its steps, as the anchor counts them."""
    if anchor.kind == "backward":
        return record.backwards
    return record.steps[anchor.index] if anchor.index < len(record.steps) else ()


def durations(record: Record, anchor: Anchor) -> tuple[float, ...]:
    """Return the lengths of the steps after the first."""
    return tuple(end - begin for begin, end in pairwise(ends_of_steps(record, anchor)))


def steps_made(run: Run, anchor: Anchor) -> int:
    """Return the steps of the process that made the most."""
    return max((len(ends_of_steps(record, anchor)) for record in run.records), default=0)


def step_time(run: Run, anchor: Anchor, warmup: int, steps: int | None = None) -> float | None:
    """Return the seconds of a step, of the slowest process; None where no step was timed.

    The window begins when step ``warmup`` ends (the first one, if that is 0) and ends with step
    ``steps``, or the last one.  Processes that never came so far (a helper that trains its own
    small model) do not count.
    """
    times = [
        (ends[-1] - ends[0]) / (len(ends) - 1)
        for record in run.records
        if len(ends := ends_of_steps(record, anchor)[max(warmup - 1, 0) : steps]) > 1
    ]
    return max(times, default=None)


def usual_step(run: Run, anchor: Anchor) -> float:
    """Return the median length of the steps of a run, 0 for too few: a hint, and no measurement."""
    lengths = [length for record in run.records for length in durations(record, anchor)]
    return median(lengths) if lengths else 0.0


def sequential_sample(before: Run, after: Run, anchor: Anchor, warmup: int) -> Sample | None:
    """Return the pair's step times over the steps that both made, or None where one made none."""
    steps = min(steps_made(before, anchor), steps_made(after, anchor))
    first = step_time(before, anchor, warmup, steps)
    second = step_time(after, anchor, warmup, steps)
    return Sample(first, second, "sequential") if first and second else None


def lockstep_sample(before: Run, after: Run) -> Sample | None:
    """Return the pair's step times over the turns that both made, or None for too few.

    The first turn begins with cold caches and is dropped; where enough are left, so is the next
    one if that makes their number even: as many turns then follow one of the other as precede it.
    """
    if not before.records or not after.records:
        return None
    turns = tuple(zip(before.records[0].turns, after.records[0].turns, strict=False))[1:]
    if len(turns) % 2 and len(turns) > 4:
        turns = turns[1:]
    if not turns:
        return None
    first, second = map(fmean, zip(*turns, strict=True))
    return Sample(first / before.turn, second / after.turn, "lockstep")


def data_wait(run: Run, anchor: Anchor, warmup: int) -> float | None:
    """Return the share of the window that was spent waiting for batches, in the worst process."""
    shares = []
    for record in run.records:
        ends = ends_of_steps(record, anchor)[max(warmup - 1, 0) :]
        if len(ends) > 1:
            waited = sum(length for end, length in record.waits if ends[0] < end <= ends[-1])
            shares.append(waited / (ends[-1] - ends[0]))
    return max(shares, default=None)
