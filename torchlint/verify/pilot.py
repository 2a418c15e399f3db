"""What the pilot run says of how to time a script: warm-up, number of steps, taking turns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from torchlint.verify.model import Bounds, Ending
from torchlint.verify.steptimes import TURN, data_wait, durations, ends_of_steps, steps_made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.verify.model import Anchor, Run

SETTLED = 5  # steps that are never timed: a fix may compile something that the pilot did not
WINDOW = 3.0  # seconds of a run that are timed: many times what a scheduler takes away at once
FEWEST, MOST = 2 * TURN, 2000  # timed steps
SHARE = 0.5  # of the time of the whole verification that timing may take, at most
SLACK = 10.0  # times the time that is expected, after which a run is killed
START = 120.0  # and seconds for the start, with a compiler in it
WAITING = 0.05  # share of waits for data from which on taking turns would hide them


@dataclass(frozen=True, slots=True)
class Turns:
    """How runs are paired, and in one sentence why."""

    mode: Literal["lockstep", "sequential"]
    why: str


def warmup_of(lengths: Sequence[float]) -> int:
    """Return how many of these steps belong to the warm-up: at most half of them.

    It is where cutting leaves the smallest standard error of the mean: steps that compile are cut,
    a stall that comes every tenth step is not.  That is the rule MSER of K. P. White, An effective
    truncation heuristic for bias reduction in simulation output, Simulation 69 (1997).
    """
    if not lengths:
        return 0
    sums = list(accumulate(lengths, initial=0.0))
    squares = list(accumulate((length**2 for length in lengths), initial=0.0))

    def error(cut: int) -> float:
        count = len(lengths) - cut
        total = sums[-1] - sums[cut]
        return max(squares[-1] - squares[cut] - total**2 / count, 0.0) / count**2

    return min(range(len(lengths) // 2 + 1), key=error)


def bounds_of(
    pilot: Run,
    anchor: Anchor,
    *,
    asked: int | None = None,
    seconds: float = math.inf,
    runs: int = 1,
) -> Bounds:
    """Return when the runs end that come after the pilot.

    ``asked`` is the number of steps that the user asks for; ``seconds`` and ``runs`` are the time
    and the number of runs of the whole verification, which the timed steps must leave room for.
    """
    record = max(pilot.records, key=lambda each: len(ends_of_steps(each, anchor)))
    lengths = durations(record, anchor)
    made = steps_made(pilot, anchor)
    warmup = max(1 + warmup_of(lengths), SETTLED)
    step = fmean(lengths[min(warmup, len(lengths) // 2) :]) if lengths else 0.0
    begun = ends_of_steps(record, anchor)[0] - record.start + sum(lengths[: warmup - 1])
    window = min(WINDOW, SHARE * seconds / runs)
    timed = max(FEWEST, min(MOST, math.ceil(window / step) if step else MOST))
    timed += -timed % (2 * TURN)  # whole turns, as many of one arm before the other as after it
    steps = warmup + timed if asked is None else asked
    if pilot.ending is Ending.FINISHED:
        steps = min(steps, made)
    warmup = min(warmup, max(steps // 2, 1))
    return Bounds(steps, warmup, START + SLACK * (max(begun, 0.0) + steps * step), anchor)


def turns_of(
    pilot: Run, anchor: Anchor, *, launcher: Sequence[str] = (), memory: int | None = None
) -> Turns:
    """Return how to pair the runs; ``memory`` are the bytes that are free now, where known."""
    wait = data_wait(pilot, anchor, SETTLED)
    if launcher or len(pilot.records) > 1 or any(record.world > 1 for record in pilot.records):
        return Turns("sequential", "several processes must not be stopped: they watch each other")
    if any(record.workers for record in pilot.records):
        return Turns("sequential", "workers would go on preparing batches while a run is stopped")
    if wait is not None and wait > WAITING:
        why = f"{wait:.0%} of the time is spent waiting for data, which would go on coming"
        return Turns("sequential", why)
    peaks = [record.memory for record in pilot.records if record.memory]
    if any(peak["reserved"] > peak.get("free", math.inf) for peak in peaks):
        return Turns("sequential", "there is no memory on the GPU for two runs at once")
    if memory is not None and 2 * pilot.rss > memory:
        return Turns("sequential", "there is no memory for two runs at once")
    return Turns("lockstep", "both runs take turns, so that what disturbs one disturbs the other")


def noise_of(pilot: Run, anchor: Anchor, warmup: int) -> float | None:
    """Return the typical relative deviation of the mean of a turn's steps, or None for too few."""
    for record in pilot.records:
        lengths = durations(record, anchor)[max(warmup - 1, 0) :]
        size = max(len(lengths) // 5, 1)
        means = [fmean(lengths[k : k + size]) for k in range(0, len(lengths) - size + 1, size)]
        if len(means) > 2:
            middle = median(means)
            return median(abs(mean - middle) for mean in means) / middle
    return None
