"""What the pilot run says of how to time a script: warm-up, number of steps, taking turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from torchlint.verify.model import Bounds, Ending
from torchlint.verify.steptimes import data_wait, durations, ends_of_steps, steps_made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.verify.model import Anchor, Record, Run

SETTLED = 5  # steps that are never timed: a fix may compile something that the pilot did not
WINDOW = 3.0  # seconds of a run that are timed: many times what a scheduler takes away at once
LEAST = 0.5  # and where the time of the whole verification is short
LEAST_OF_START = 0.25  # times what a run takes to start: a shorter window saves little
FEWEST, MOST = 4, 2000  # timed steps
SHARE = 0.5  # of the time of the whole verification that timing may take, at most
START, SLACK = 20.0, 5.0  # seconds, and times the time that is expected, before a run is killed
TURN, TURNS = 8, 6  # timed steps of a turn in lockstep; turns of a run that there should be
CUDA_TURN = 0.08  # seconds of a turn on a GPU, at least: its queue is empty at both ends
# The first step of a turn reads anew what the other process has driven out of the caches: 0.4 ms
# more on a Xeon with 2 cores, where the steps after it took 0.7 ms.  It is not timed, unless the
# steps are so long that nobody could see it.
WARM, LONG = 1, 0.02  # steps; seconds of a step
SLOW = 1.0  # seconds of a step of which no more than the fewest can be made
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
    warmup = max(1 + warmup_of(lengths), SETTLED)
    step = step_of(pilot, anchor)
    start = _start(pilot, anchor, record, warmup)
    least = min(max(LEAST, LEAST_OF_START * start), WINDOW)
    window = max(min(WINDOW, SHARE * seconds / runs), least)
    timed = max(FEWEST, min(MOST, math.ceil(window / step) if step else MOST))
    if step > SLOW:
        timed, warmup = FEWEST, min(warmup, 2)
    turn = max(TURN, math.ceil(CUDA_TURN / step)) if step and _on_gpu(record) else TURN
    turn = _turn(turn, timed)
    warm = WARM if step < LONG else 0
    turns = -(-timed // turn)
    steps = warmup + (turns + turns % 2) * (warm + turn) if asked is None else asked
    if pilot.ending is Ending.FINISHED:
        steps = min(steps, steps_made(pilot, anchor))
    bounds = Bounds(steps, warmup, 0.0, anchor, turn=turn, warm=warm)
    return fitted(bounds, steps, step=step, start=start)


def fitted(bounds: Bounds, steps: int, *, step: float, start: float | None = None) -> Bounds:
    """Return bounds for a script that makes no more than so many steps.

    The warm-up and the turns become shorter with it: at least two thirds of the steps are timed.
    ``start`` is how long a run takes to the end of the warm-up.
    """
    steps = min(steps, bounds.steps)
    warmup = min(bounds.warmup, max(steps // 3, 1))
    turn = _turn(bounds.turn, steps - warmup)
    if start is None:
        expected = max(bounds.expected - (bounds.steps - steps) * step, 0.0)
    else:
        expected = start + (steps - warmup) * step
    seconds = START + SLACK * expected
    warm = bounds.warm if turn > 1 else 0
    return replace(
        bounds, steps=steps, warmup=warmup, seconds=seconds, turn=turn, warm=warm,
        expected=expected,
    )  # fmt: skip


def step_of(pilot: Run, anchor: Anchor) -> float:
    """Return how long a step takes after the warm-up, as far as the pilot knows."""
    record = max(pilot.records, key=lambda each: len(ends_of_steps(each, anchor)))
    lengths = durations(record, anchor)
    warmup = max(1 + warmup_of(lengths), SETTLED)
    return fmean(lengths[min(warmup, len(lengths) // 2) :]) if lengths else 0.0


def _turn(turn: int, timed: int) -> int:
    """Return the steps of a turn, fewer where there would not be turns enough."""
    return min(turn, max(1, timed // TURNS))


def _on_gpu(record: Record) -> bool:
    return record.device.upper() != "CPU"


def _start(pilot: Run, anchor: Anchor, record: Record, warmup: int) -> float:
    """Return how long the pilot took to start, for its warm-up, and to end."""
    ends = ends_of_steps(record, anchor)
    begun = ends[min(warmup, len(ends)) - 1] - record.start
    return max(begun, 0.0) + max(pilot.seconds - (ends[-1] - record.start), 0.0)


def turns_of(
    pilot: Run,
    anchor: Anchor,
    *,
    launcher: Sequence[str] = (),
    memory: int | None = None,
    steps: int | None = None,
) -> Turns:
    """Return how to pair the runs.

    ``memory`` are the bytes that are free now, ``steps`` those that can be timed in a run of a
    script that ends by itself, where known.
    """
    wait = data_wait(pilot, anchor, SETTLED)
    if launcher or len(pilot.records) > 1 or any(record.world > 1 for record in pilot.records):
        return Turns("sequential", "several processes must not be stopped: they watch each other")
    if any(record.workers for record in pilot.records):
        return Turns("sequential", "workers would go on preparing batches while a run is stopped")
    if wait is not None and wait > WAITING:
        why = f"{wait:.0%} of the time is spent waiting for data, which would go on coming"
        return Turns("sequential", why)
    if steps is not None and steps < 2 * TURN:
        return Turns("sequential", f"the script makes only {steps} steps that can be timed")
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
