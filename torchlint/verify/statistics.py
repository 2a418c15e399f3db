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
as honest as one of a single.  `benchmarks/verify_statistics.py` simulates whole reports: where
pairs spread by 6 % or less, at most 1 % of the reports call something faster or slower that is
neither.  A report of one single comparison is false more often where pairs spread more than that,
or more than those of the script with itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache, reduce
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
WIDEST = 300.0  # half an interval of which nobody needs to know more: its ends are still numbers
PRIOR = 4  # degrees of freedom that the pooled variance counts for, at most


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of one pair's log ratio, and the degrees of freedom that it was seen with.

    The sum of two is pooled from both; a difference takes one out again.
    """

    variance: float = 0.0
    degrees: int = 0

    def __add__(self, other: Spread) -> Spread:
        return _spread(
            self.variance * self.degrees + other.variance * other.degrees,
            self.degrees + other.degrees,
        )

    def __sub__(self, other: Spread) -> Spread:
        return _spread(
            self.variance * self.degrees - other.variance * other.degrees,
            self.degrees - other.degrees,
        )


UNKNOWN = Spread()


def _spread(squares: float, degrees: int) -> Spread:
    return Spread(max(squares, 0.0) / degrees, degrees) if degrees else UNKNOWN


@dataclass(frozen=True, slots=True)
class Moments:
    """What the log ratios of a comparison come to: ``squares`` are those around their mean."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def plus(self, log: float) -> Moments:
        """Return the moments with one more pair (B. P. Welford, Technometrics 4, 1962)."""
        count, apart = self.count + 1, log - self.mean
        mean = self.mean + apart / count
        return Moments(count, mean, self.squares + apart * (log - mean))

    @property
    def spread(self) -> Spread:
        """The spread around the mean, which is unknown before the second pair."""
        return _spread(self.squares, self.count - 1) if self.count > 1 else UNKNOWN


def moments(samples: Iterable[Sample]) -> Moments:
    """Return what the pairs of a comparison come to."""
    return reduce(Moments.plus, (math.log(sample.ratio) for sample in samples), Moments())


@dataclass(slots=True)
class Pool:
    """The spread of all comparisons of one kind, each around its own mean.

    ``itself`` are pairs of a script with itself: their mean is known to be no change.
    """

    itself: Sequence[Sample] = ()
    _known: dict[object, Spread] = field(default_factory=dict)
    _total: Spread = UNKNOWN

    def add(self, key: object, samples: Sequence[Sample]) -> None:
        """Take the pairs of a comparison as they are now, instead of those before."""
        self.put(key, moments(samples).spread)

    def put(self, key: object, spread: Spread) -> None:
        """Take the spread of a comparison as it is now, instead of the one before."""
        self._total = self._total - self._known.get(key, UNKNOWN) + spread
        self._known[key] = spread

    def without(self, key: object = None) -> Spread:
        """Return the spread of all comparisons but one."""
        squares = sum(math.log(sample.ratio) ** 2 for sample in self.itself)
        others = self._total - self._known.get(key, UNKNOWN)
        return others + _spread(squares, len(self.itself))


def pooled(comparisons: Iterable[Sequence[Sample]], itself: Sequence[Sample] = ()) -> Spread:
    """Return the spread of some comparisons of one kind, and of pairs of a script with itself."""
    pool = Pool(itself)
    for place, samples in enumerate(comparisons):
        pool.add(place, samples)
    return pool.without()


def half_width(
    seen: Moments, comparisons: int = 1, spread: Spread = UNKNOWN, *, count: int | None = None
) -> float | None:
    """Return h, half the width of the interval of the log ratio; None where it cannot be known.

    With ``count`` it is that after so many pairs, if their variance stays as it is.
    """
    count = seen.count if count is None else count
    prior = min(PRIOR, spread.degrees)
    known = Spread(spread.variance, prior) + seen.spread
    if not (seen.count and known.degrees):
        return None
    tail = (1 - CONFIDENCE) / 2 / comparisons
    return student_quantile(1 - tail, prior + count - 1) * math.sqrt(known.variance / count)


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
    seen = moments(samples)
    for count in range(max(seen.count + 1, FEWEST), most + 1):
        half = half_width(seen, comparisons, spread, count=count)
        if half is None:
            return None
        if _settled(seen.mean, half, late=count >= USUAL, last=False) is not Speed.OPEN:
            return count - seen.count
    return None


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
    seen = moments(samples)
    half = half_width(seen, comparisons, spread)
    if half is None:
        return Judgement(Speed.OPEN, None, None, tuple(samples))
    half = min(half, WIDEST)
    interval = Interval(*(math.exp(seen.mean + by) for by in (-half, 0.0, half)))
    speed = settled(seen, half, fewest=fewest, most=most, last=last)
    return Judgement(speed, interval, math.expm1(half) + MARGIN - 1, tuple(samples))


def settled(
    seen: Moments, half: float, *, fewest: int = FEWEST, most: int = MOST, last: bool = False
) -> Speed:
    """Return what pairs say whose interval is ``half`` wide to each side: see `judge`."""
    if seen.count < fewest:
        return Speed.OPEN
    last = last or seen.count >= most
    return _settled(seen.mean, half, late=seen.count >= USUAL, last=last)


def _settled(mean: float, half: float, *, late: bool, last: bool) -> Speed:
    if mean - half > math.log(MARGIN):
        return Speed.FASTER
    if mean + half < -math.log(MARGIN):
        return Speed.SLOWER
    if abs(mean) + half < math.log(ENOUGH):
        return Speed.NO_CHANGE
    if (late or last) and math.expm1(half) + MARGIN <= NOISY:
        return Speed.NO_CHANGE
    return Speed.NOISY if last else Speed.OPEN
