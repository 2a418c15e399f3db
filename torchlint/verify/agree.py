"""Whether a fix leaves the results of a script as they were, by trace runs before and after.

Five classes, each with its evidence: bitwise equal, within rounding, another random stream, within
what another seed changes, diverged.  The script itself, run twice, says what it repeats exactly.
The constants, here and for the curves, come from trainings of small nets with known changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.curves import REPEATS, differences, limits, times_seed
from torchlint.verify.model import Agreement, Same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.verify.model import Run, Trace

NORMS = 5e-3  # relative difference of all norms that is rounding: gradients near zero are noise
WITHIN = 1.0  # times the spread of seeds, with the same random streams
WITHIN_STREAM = 2.5  # and with others: one draw of a difference against another draw


@dataclass(frozen=True, slots=True)
class _Originals:
    """The original's traces in one process: twice, and with another seed where that was run."""

    once: Trace
    again: Trace
    other: Trace | None


def agreement(
    before: Run,
    again: Run,
    other_seed: Run | None,
    after: Run,
    *,
    level: Level,
    safety: Safety | None,
) -> Agreement:
    """Say how near the results after are to those before; of several processes, the farthest.

    ``before`` and ``again`` are two trace runs of the original, ``other_seed`` one with another
    seed; without it, whatever is more than rounding counts as diverged.
    """
    traces = [_traces(run) for run in (before, again, after)]
    if not traces[0] or len({len(found) for found in traces}) > 1:
        why = f"{len(traces[2])} processes trained where {len(traces[0])} did before"
        return Agreement(Same.DIVERGED, allowed=False, first=None, difference=math.inf, why=why)
    others: Sequence[Trace | None] = _traces(other_seed) if other_seed else ()
    if len(others) != len(traces[0]):
        others = (None,) * len(traces[0])
    originals = [_Originals(*each) for each in zip(traces[0], traces[1], others, strict=True)]
    found = [_compare(one, trace) for one, trace in zip(originals, traces[2], strict=True)]
    repeats = all(_repeats(one) for one in originals)
    finite = all(_is_finite(one, trace) for one, trace in zip(originals, traces[2], strict=True))
    worst = max(found, key=lambda each: (each.same, each.difference))
    allowed = _allowed(worst.same, level, safety, repeats=repeats, finite=finite)
    return Agreement(worst.same, allowed, worst.first, worst.difference, worst.why)


def needs_other_seed(before: Run, again: Run, after: Run) -> bool:
    """Tell whether only a run with another seed can say how near the results are."""
    found = agreement(before, again, None, after, level=Level.E0, safety=None)
    settled = found.same <= Same.TOLERANCE or found.difference == math.inf
    same = found.same is Same.RANDOM_STREAM and not found.difference
    return not settled and not same


def _traces(run: Run) -> tuple[Trace, ...]:
    return tuple(record.trace for record in run.records if record.trace)


def _repeats(originals: _Originals) -> bool:
    """Tell whether the original gives the same, bit for bit, when it is run again."""
    once, again = originals.once, originals.again
    same = len(once.losses) == len(again.losses) and once.parameters == again.parameters
    return same and not any(differences(once.losses, again.losses))


def _is_finite(originals: _Originals, after: Trace) -> bool:
    """Tell whether no loss or weight is lost to NaN or infinity that was not before."""
    bad = [sum(_is_lost(x) for x in trace.losses) for trace in (originals.once, after)]
    weights = [sum(_is_lost(x) for x in trace.norms) for trace in (originals.once, after)]
    return bad[1] <= bad[0] and weights[1] <= weights[0]


def _is_lost(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def _allowed(
    same: Same, level: Level, safety: Safety | None, *, repeats: bool, finite: bool
) -> bool:
    match Level.E0 if safety is Safety.SAFE else level:
        case Level.E0:
            return same <= (Same.BITWISE if repeats else Same.TOLERANCE)
        case Level.E1:
            return same <= Same.TOLERANCE
        case Level.E2:
            return same <= Same.SEED_SPREAD
        case _:
            return finite


def _compare(originals: _Originals, after: Trace) -> Agreement:
    """Say how near one process is; ``allowed`` is left to the caller."""
    once, again, other = originals.once, originals.again, originals.other
    found = differences(once.losses, after.losses)
    first = next((k for k, each in enumerate(found) if each), None)
    largest = max(found, default=0.0)

    def say(same: Same, why: str, difference: float = largest) -> Agreement:
        return Agreement(same, allowed=False, first=first, difference=difference, why=why)

    if len(once.losses) == len(again.losses) != len(after.losses):
        counts = f"{len(after.losses)} backwards where {len(once.losses)} were before"
        return say(Same.DIVERGED, counts, math.inf)
    if largest == math.inf:
        k = found.index(math.inf)
        return say(Same.DIVERGED, f"the loss of backward {k + 1} {_lost(once, after, k)}")
    streams = _streams(originals, after)
    if not largest and once.parameters == after.parameters:
        if once.random != after.random and once.random == again.random:
            why = "losses and parameters are equal, but later random numbers will be others"
            return say(Same.RANDOM_STREAM, why)
        return say(Same.BITWISE, _equal(once))
    reshaped = len(once.norms) != len(after.norms)  # parameters came or went: the losses decide
    moved = 0.0 if reshaped else _distance(once.norms, after.norms)
    beyond = [
        k
        for k, (each, limit) in enumerate(
            zip(
                found,
                limits(once.losses, again.losses, other.losses if other else None),
                strict=False,
            )
        )
        if each > limit
    ]
    where = _where(first, largest)
    if reshaped:
        counts = f"{len(after.norms)} parameters where {len(once.norms)} were before"
        where = f"{counts}; {where}"
    nearby = max(NORMS, REPEATS * _distance(once.norms, again.norms))
    if moved <= nearby and not (beyond or reshaped):
        return say(Same.TOLERANCE, f"{where}: rounding{_repeated(originals)}")
    if other is None:
        return say(Same.DIVERGED, f"{where}; no run with another seed to compare that with")
    times = times_seed(once.losses, other.losses, after.losses)
    if spread := _distance(once.norms, other.norms):
        times = max(times, moved / spread / WITHIN_STREAM)
    where = f"{where}, {times:.2g} times as much as with another seed"
    if times > (WITHIN_STREAM if streams else WITHIN) or math.isnan(moved):
        return say(Same.DIVERGED, f"{streams}; {where}" if streams else where)
    if streams:
        return say(Same.RANDOM_STREAM, f"{streams}; {where}")
    return say(Same.SEED_SPREAD, where)


def _streams(originals: _Originals, after: Trace) -> str:
    """Return what tells of another random stream, or nothing; only what repeats can tell."""
    once, again = originals.once, originals.again
    if once.batches == again.batches:
        count = min(len(once.batches), len(after.batches))
        if once.batches[:count] != after.batches[:count]:
            if sorted(once.batches) == sorted(after.batches):
                return "the same batches in another order"
            return "other batches: another order, or other augmentation"
    if once.initial == again.initial != after.initial:
        return "other initial parameters"
    if once.random == again.random != after.random:
        return "the same batches, but other random numbers"
    return ""


def _distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the relative distance of all norms together; 0 where both are lost alike."""
    pairs = [(a, b) for a, b in zip(first, second, strict=False) if not _is_lost(a)]
    whole = math.sqrt(sum(a * a for a, _ in pairs))
    apart = math.sqrt(sum((a - b) ** 2 for a, b in pairs))
    return apart / whole if whole else apart


def _equal(trace: Trace) -> str:
    if all(loss is None for loss in trace.losses):
        return "all parameters are equal, bit for bit, after the last step (no loss was seen)"
    return f"all {len(trace.losses)} losses and the parameters are equal, bit for bit"


def _where(first: int | None, largest: float) -> str:
    if first is None:
        return "the losses are equal, the parameters after the last step are not"
    return f"losses differ from backward {first + 1} on, by {largest:.0e} at most"


def _repeated(originals: _Originals) -> str:
    apart = max(differences(originals.once.losses, originals.again.losses), default=0.0)
    return f" (two runs of the original differ by {apart:.0e})" if apart else ""


def _lost(before: Trace, after: Trace, k: int) -> str:
    a, b = before.losses[k], after.losses[k]
    words = ["is no single number" if x is None else f"is {x:.6g}" for x in (a, b)]
    return f"{words[1]} and {words[0].replace('is', 'was', 1)} before"
