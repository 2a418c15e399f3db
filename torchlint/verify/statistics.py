"""What pairs of runs say of the speed: the paired interval, and when it is enough to settle.

One pair is one launch of the script before and one after; it gives one ratio.  A launch is the
unit of replication, never a step: the steps of one launch share its luck (memory layout, the load
of that minute), and intervals over pooled steps are far too narrow.  Ratios of times are analysed
on the log scale, where a change and its undoing are as large.  The interval is Student's, from
seven pairs on that of the trimmed mean.  A comparison that is too noisy after the usual pairs takes
more of them, as far as time allows.  `benchmarks/verify_statistics.py` shows what the rule does
with many kinds of noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from torchlint.verify.model import Interval, Judgement, Speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.verify.model import Sample

CONFIDENCE = 0.99
MARGIN = 1.02  # changes below 2 % are not worth speaking of, and may be the layout of memory
FEWEST, MOST = 5, 40  # pairs
USUAL = 15  # pairs after which it is enough that a change of NOISY would have shown
ENOUGH = 1.05  # no change of this size is left: there is nothing more to look for
NOISY = 1.15  # a change must be this large to show: nothing can be said
TRIM = 0.15  # share of the pairs that is cut on either side
PATIENCE = 10  # pairs after which a hopeless comparison may be given up
HOPELESS = 1.3  # half the width of the interval that it would have in the end


@lru_cache
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


def paired_interval(samples: Sequence[Sample]) -> Interval | None:
    """Return how many times faster the second arm is, or None for fewer than two pairs."""
    return log_interval([sample.ratio for sample in samples])


def log_interval(values: Sequence[float]) -> Interval | None:
    """Return the interval of the typical one of some positive values, such as step times."""
    if len(values) < 2:
        return None
    middle, half = _trimmed(values)
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))


def smallest_seen(samples: Sequence[Sample]) -> float | None:
    """Return the smallest change that these pairs would have shown, as a share (0.03 is 3 %).

    A true change of this size, with the spread that the pairs have, puts the whole interval beyond
    the margin as soon as the estimate is right.
    """
    if len(samples) < 2:
        return None
    return math.expm1(_trimmed([sample.ratio for sample in samples])[1]) + MARGIN - 1


def _trimmed(values: Sequence[float]) -> tuple[float, float]:
    """Return the middle and half the width of the interval of the logarithms.

    From seven pairs on the outermost ones are cut, as many on either side, and the error comes from
    the winsorised spread: one launch that something else disturbed must not hide a change.
    K. K. Yuen, The two-sample trimmed t for unequal population variances, Biometrika 61 (1974).
    """
    logs = sorted(map(math.log, values))
    cut = int(TRIM * len(logs))
    kept = logs[cut : len(logs) - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = stdev(winsorised) * math.sqrt((len(logs) - 1) / (len(kept) * (len(kept) - 1)))
    return fmean(kept), _quantile(len(logs)) * error


def _quantile(count: int) -> float:
    """Return the errors in half an interval of so many values."""
    kept = count - 2 * int(TRIM * count)
    return student_quantile((1 + CONFIDENCE) / 2, kept - 1)


def judge(
    samples: Sequence[Sample], *, fewest: int = FEWEST, most: int = MOST, last: bool = False
) -> Judgement:
    """Return what the pairs say so far; ``OPEN`` asks for another pair.

    ``last`` says that no more will come, because the time is over: with fewer than ``fewest``
    pairs it stays ``OPEN``, which then means "not measured".
    """
    interval, seen = paired_interval(samples), smallest_seen(samples)
    speed = Speed.OPEN
    if interval and seen is not None and len(samples) >= fewest:
        late, last = len(samples) >= USUAL, last or len(samples) >= most
        speed = _settle(interval, seen, late=late, last=last)
        if speed is Speed.OPEN and _hopeless(samples, interval, most):
            speed = Speed.NOISY
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


def _hopeless(samples: Sequence[Sample], interval: Interval, most: int) -> bool:
    """Tell whether all the pairs that may come would leave the interval far too wide."""
    if len(samples) < PATIENCE or not interval.low < 1 < interval.high:
        return False
    error = math.log(interval.high / interval.middle) / _quantile(len(samples))
    return error * math.sqrt(len(samples) / most) * _quantile(most) > math.log(HOPELESS)
