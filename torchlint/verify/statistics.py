"""When a comparison is settled: the stopping rule, computed here for verify, bench and benchmarks.

One pair is one launch of the script before and one after; it gives one ratio.  A launch is the
unit of replication, never a step: the steps of one launch share its luck (memory layout, the load
of that minute), and intervals over pooled steps are far too narrow.  Ratios of times are analysed
on the log scale, where a change and its undoing are as large.

A report looks at each of its comparisons after every pair.  For a comparison with n pairs whose log
ratios have the mean x and the variance s2, and a pooled variance P with f degrees of freedom of
other comparisons of its kind,

    d = min(4, f),   v = (d P + (n - 1) s2) / (d + n - 1),
    h = t(1 - 0.005 / m; d + n - 1) sqrt(v / n),

with m the comparisons that the report may judge, fixed before the first pair.  From three pairs on
it is faster where x - h > ln 1.02 and slower where x + h < -ln 1.02.  The pooled variance keeps
three pairs that lie together by luck from settling anything; m keeps a report of many comparisons
as honest as one of a single.  `benchmarks/verify_statistics.py` simulates whole reports: at most
1 % of them call something faster or slower that is neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev, variance
from typing import TYPE_CHECKING

from torchlint.verify.model import Interval, Judgement, Speed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.verify.model import Sample

CONFIDENCE = 0.99  # of all the intervals of a report together
MARGIN = 1.02  # changes below 2 % are not worth speaking of, and may be the layout of memory
FEWEST, MOST = 3, 40  # pairs
USUAL = 15  # pairs after which it is enough that a change of NOISY would have shown
ENOUGH = 1.05  # no change of this size is left: there is nothing more to look for
NOISY = 1.15  # a change must be this large to show: nothing can be said
WIDEST = 300.0  # half an interval of which nobody needs to know more: its ends are still numbers
PRIOR = 4  # degrees of freedom that the pooled variance counts for, at most


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of one pair's log ratio, and the degrees of freedom that it was seen with."""

    variance: float = 0.0
    degrees: int = 0


UNKNOWN = Spread()


def pooled(comparisons: Iterable[Sequence[Sample]], itself: Sequence[Sample] = ()) -> Spread:
    """Return the spread of comparisons of one kind, each around its own mean.

    ``itself`` are pairs of a script with itself: their mean is known to be no change.
    """
    squares = [math.log(sample.ratio) ** 2 for sample in itself]
    total, degrees = sum(squares), len(squares)
    for samples in comparisons:
        if len(samples) > 1:
            total += (len(samples) - 1) * variance(_logs(samples))
            degrees += len(samples) - 1
    return Spread(total / degrees, degrees) if degrees else UNKNOWN


def half_width(
    samples: Sequence[Sample], comparisons: int = 1, spread: Spread = UNKNOWN
) -> float | None:
    """Return h, half the width of the interval of the log ratio; None where it cannot be known."""
    count = len(samples)
    own = variance(_logs(samples)) if count > 1 else 0.0
    return _half(own, count, count, comparisons, spread)


def _half(own: float, seen: int, count: int, comparisons: int, spread: Spread) -> float | None:
    """Return h after ``count`` pairs, if the variance stays as it was after ``seen``."""
    prior = min(PRIOR, spread.degrees)
    degrees = prior + max(seen - 1, 0)
    if not degrees or not count:
        return None
    value = (prior * spread.variance + max(seen - 1, 0) * own) / degrees
    tail = (1 - CONFIDENCE) / 2 / comparisons
    return student_quantile(1 - tail, prior + count - 1) * math.sqrt(value / count)


def pairs_needed(
    samples: Sequence[Sample],
    comparisons: int = 1,
    spread: Spread = UNKNOWN,
    *,
    most: int = MOST,
) -> int | None:
    """Return how many more pairs would settle a comparison if it went on as it began.

    None where nothing is known yet, or ``most`` pairs would not settle it.
    """
    count = len(samples)
    if not count:
        return None
    middle = abs(fmean(_logs(samples)))
    own = variance(_logs(samples)) if count > 1 else 0.0
    for more in range(max(1, FEWEST - count), most - count + 1):
        half = _half(own, count, count + more, comparisons, spread)
        if half is None:
            return None
        if middle - half > math.log(MARGIN) or middle + half < math.log(ENOUGH):
            return more
    return None


def _logs(samples: Sequence[Sample]) -> list[float]:
    return [math.log(sample.ratio) for sample in samples]


@lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t, for a probability of at least one half."""
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        if student_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


def student_cdf(t: float, degrees: int) -> float:
    """Return the probability that Student's t is below ``t`` >= 0: the finite sums for integers.

    Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    cos, sin = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cos if odd else 1.0
    total = 0.0
    for k in range(1 + odd, degrees, 2):
        total += term
        term *= cos * cos * k / (k + 1)
    both_sides = (angle + sin * total) * 2 / math.pi if odd else sin * total
    return 0.5 + both_sides / 2


def log_interval(values: Sequence[float]) -> Interval | None:
    """Return the interval of the typical one of some positive values, such as step times."""
    if len(values) < 2:
        return None
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    quantile = student_quantile((1 + CONFIDENCE) / 2, len(logs) - 1)
    half = quantile * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))


def judge(
    samples: Sequence[Sample],
    *,
    comparisons: int = 1,
    spread: Spread = UNKNOWN,
    fewest: int = FEWEST,
    most: int = MOST,
    last: bool = False,
) -> Judgement:
    """Return what the pairs say so far; ``OPEN`` asks for another pair.

    ``comparisons`` is m, ``spread`` that of the other comparisons of the same kind.  ``last`` says
    that no more pairs will come, because the time is over: with fewer than ``fewest`` it stays
    ``OPEN``, which then means "not measured".
    """
    half = half_width(samples, comparisons, spread)
    if half is None:
        return Judgement(Speed.OPEN, None, None, tuple(samples))
    half = min(half, WIDEST)
    middle = fmean(_logs(samples))
    interval = Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))
    seen = math.expm1(half) + MARGIN - 1
    speed = Speed.OPEN
    if len(samples) >= fewest:
        late, last = len(samples) >= USUAL, last or len(samples) >= most
        speed = _settle(interval, seen, late=late, last=last)
    return Judgement(speed, interval, seen, tuple(samples))


def _settle(interval: Interval, seen: float, *, late: bool, last: bool) -> Speed:
    if interval.low > MARGIN:
        return Speed.FASTER
    if interval.high < 1 / MARGIN:
        return Speed.SLOWER
    if interval.low > 1 / ENOUGH and interval.high < ENOUGH:
        return Speed.NO_CHANGE
    if (late or last) and seen <= NOISY - 1:
        return Speed.NO_CHANGE
    return Speed.NOISY if last else Speed.OPEN
