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
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, stdev
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
PRIOR = 4  # degrees of freedom that the pooled variance counts for, at most


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of one pair's log ratio, and the degrees of freedom that it was seen with."""

    variance: float = 0.0
    degrees: int = 0


UNKNOWN = Spread()


@dataclass(slots=True)
class Pool:
    """The squares of all comparisons of one kind, each around its own mean.

    ``itself`` are pairs of a script with itself: their mean is known to be no change.
    """

    itself: Sequence[Sample] = ()
    _known: dict[object, tuple[float, int]] = field(default_factory=dict)

    def add(self, key: object, samples: Sequence[Sample]) -> None:
        """Take the pairs of a comparison as they are now, instead of those before."""
        if len(samples) > 1:
            self._known[key] = _squares(_logs(samples)), len(samples) - 1

    def without(self, key: object = None) -> Spread:
        """Return the spread of all comparisons but one."""
        others = [found for each, found in self._known.items() if each != key]
        total = sum(squares for squares, _ in others) + sum(x * x for x in _logs(self.itself))
        degrees = sum(count for _, count in others) + len(self.itself)
        return Spread(total / degrees, degrees) if degrees else UNKNOWN


def pooled(comparisons: Iterable[Sequence[Sample]], itself: Sequence[Sample] = ()) -> Spread:
    """Return the spread of some comparisons of one kind, and of pairs of a script with itself."""
    pool = Pool(itself)
    for place, samples in enumerate(comparisons):
        pool.add(place, samples)
    return pool.without()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the pairs of a comparison say: their mean, and the variance of one."""

    count: int
    middle: float
    variance: float
    prior: int

    def half(self, count: int, comparisons: int) -> float:
        """Return h after so many pairs, if the variance stays as it is."""
        tail = (1 - CONFIDENCE) / 2 / comparisons
        quantile = student_quantile(1 - tail, self.prior + count - 1)
        return quantile * math.sqrt(self.variance / count)


def _seen(samples: Sequence[Sample], spread: Spread) -> _Seen | None:
    """Return what pairs say; None where nothing is known of their variance."""
    count, prior = len(samples), min(PRIOR, spread.degrees)
    degrees = prior + count - 1
    if not count or not degrees:
        return None
    logs = _logs(samples)
    value = (prior * spread.variance + _squares(logs)) / degrees
    return _Seen(count, fmean(logs), value, prior)


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
    seen = _seen(samples, spread)
    if seen is None:
        return None
    for count in range(max(seen.count + 1, FEWEST), most + 1):
        half, middle = seen.half(count, comparisons), abs(seen.middle)
        if middle - half > math.log(MARGIN) or middle + half < math.log(ENOUGH):
            return count - seen.count
    return None


def _logs(samples: Sequence[Sample]) -> list[float]:
    return [math.log(sample.ratio) for sample in samples]


def _squares(values: Sequence[float]) -> float:
    """Return the sum of the squares of the distances from the mean."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values)


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
    seen = _seen(samples, spread)
    if seen is None:
        return Judgement(Speed.OPEN, None, None, tuple(samples))
    half = seen.half(seen.count, comparisons)
    interval = Interval(*(math.exp(seen.middle + side * half) for side in (-1, 0, 1)))
    shows = math.expm1(half) + MARGIN - 1
    speed = Speed.OPEN
    if len(samples) >= fewest:
        late, last = len(samples) >= USUAL, last or len(samples) >= most
        speed = _settle(interval, shows, late=late, last=last)
    return Judgement(speed, interval, shows, tuple(samples))


def _settle(interval: Interval, shows: float, *, late: bool, last: bool) -> Speed:
    if interval.low > MARGIN:
        return Speed.FASTER
    if interval.high < 1 / MARGIN:
        return Speed.SLOWER
    if interval.low > 1 / ENOUGH and interval.high < ENOUGH:
        return Speed.NO_CHANGE
    if (late or last) and shows <= NOISY - 1:
        return Speed.NO_CHANGE
    return Speed.NOISY if last else Speed.OPEN
