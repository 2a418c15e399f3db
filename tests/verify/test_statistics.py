"""The stopping rule: quantiles of published tables, intervals by hand, and each kind of verdict."""

from __future__ import annotations

import math
import random

import pytest

from torchlint.verify.model import Sample, Speed
from torchlint.verify.statistics import (
    ENOUGH,
    FEWEST,
    MARGIN,
    MOST,
    NOISY,
    UNKNOWN,
    USUAL,
    Pool,
    Spread,
    half_width,
    judge,
    log_interval,
    moments,
    pairs_needed,
    pooled,
    student_cdf,
    student_quantile,
)

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t; those
# for 0.9995 from Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10
TABLE = [
    (1, 0.975, 12.706), (2, 0.975, 4.303), (4, 0.995, 4.604), (5, 0.995, 4.032),
    (9, 0.95, 1.833), (10, 0.995, 3.169), (14, 0.995, 2.977), (30, 0.99, 2.457),
    (100, 0.975, 1.984), (3, 0.999, 10.215), (4, 0.9995, 8.610), (6, 0.9995, 5.959),
]  # fmt: skip
SLIGHTLY = 1e-6


def pairs(*logs: float) -> tuple[Sample, ...]:
    """Return pairs with these log ratios."""
    return tuple(Sample(math.exp(log), 1.0, "sequential") for log in logs)


def having(mean: float, deviation: float, number: int) -> tuple[Sample, ...]:
    """Return pairs whose log ratios have exactly this mean and standard deviation."""
    out = deviation * math.sqrt((number - 1) / 2)
    return pairs(mean - out, *[mean] * (number - 2), mean + out)


def of_width(mean: float, half: float, number: int = FEWEST, **known) -> tuple[Sample, ...]:
    """Return pairs around a mean whose interval is so wide to both sides."""
    return having(mean, half / half_width(moments(having(0.0, 1.0, number)), **known), number)


def speed(*settings, **known) -> Speed:
    return judge(*settings, **known).speed


@pytest.mark.parametrize(("degrees", "probability", "value"), TABLE)
def test_quantiles_are_those_of_the_table(degrees, probability, value) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(value, abs=6e-4)


def test_the_quantile_undoes_the_distribution() -> None:
    for degrees in range(1, 40):
        assert student_cdf(student_quantile(0.93, degrees), degrees) == pytest.approx(0.93)
    assert student_cdf(0, 3) == 0.5


@pytest.mark.parametrize(
    ("logs", "comparisons", "spread", "mean", "half"),
    [
        # s2 = .025, h = t(.995; 4) sqrt(.025 / 5)
        ((0, 0.1, 0.2, 0.3, 0.4), 1, UNKNOWN, 0.2, 4.604095 * math.sqrt(0.005)),
        # s2 = .0001, d = min(4, 2), v = (2 x .0009 + 2 x .0001) / 4 = .0005, h = t(.995; 4) ...
        ((0.19, 0.2, 0.21), 1, Spread(0.0009, 2), 0.2, 4.604095 * math.sqrt(0.0005 / 3)),
        # d = min(4, 70), v = (4 x .0009 + 2 x .0001) / 6, h = t(.995; 6) ...
        ((0.19, 0.2, 0.21), 1, Spread(0.0009, 70), 0.2, 3.707428 * math.sqrt(0.0038 / 18)),
        # of ten comparisons: t(.9995; 2) and t(.9995; 6)
        ((0.19, 0.2, 0.21), 10, UNKNOWN, 0.2, 31.599055 * math.sqrt(0.0001 / 3)),
        ((0.19, 0.2, 0.21), 10, Spread(0.0009, 4), 0.2, 5.958816 * math.sqrt(0.0038 / 18)),
        # one pair has the pooled variance alone
        ((0.2,), 1, Spread(0.0009, 4), 0.2, 4.604095 * 0.03),
    ],
)
def test_intervals_by_hand(logs, comparisons, spread, mean, half) -> None:
    judgement = judge(pairs(*logs), comparisons=comparisons, spread=spread)
    low, middle, high = (
        math.log(end)
        for end in (judgement.interval.low, judgement.interval.middle, judgement.interval.high)
    )
    assert middle == pytest.approx(mean)
    assert high - middle == pytest.approx(half, rel=1e-6)
    assert middle - low == pytest.approx(half, rel=1e-6)
    assert judgement.seen == pytest.approx(math.exp(half) - 1 + 0.02, rel=1e-6)


def test_undoing_a_change_mirrors_its_interval() -> None:
    logs, known = (0.1, 0.3, 0.2, 0.25, 0.15), {"comparisons": 3, "spread": Spread(0.001, 3)}
    there = judge(pairs(*logs), **known).interval
    back = judge(pairs(*(-log for log in logs)), **known).interval
    assert back.low == pytest.approx(1 / there.high)
    assert back.middle == pytest.approx(1 / there.middle)
    assert back.high == pytest.approx(1 / there.low)


@pytest.mark.parametrize("logs", [(), (0.7,)])
def test_without_any_spread_there_is_no_interval(logs) -> None:
    judgement = judge(pairs(*logs), last=True)
    assert (judgement.speed, judgement.interval, judgement.seen) == (Speed.OPEN, None, None)
    assert half_width(moments(pairs(*logs))) is None


@pytest.mark.parametrize("comparisons", [1, 10])
@pytest.mark.parametrize("number", [FEWEST, 10])
@pytest.mark.parametrize("sign", [1, -1])
def test_it_is_faster_or_slower_where_the_whole_interval_is(sign, number, comparisons) -> None:
    edge = math.log(MARGIN) + 0.01
    called = Speed.FASTER if sign > 0 else Speed.SLOWER
    known = {"comparisons": comparisons}
    beyond = of_width(sign * (edge + SLIGHTLY), 0.01, number, **known)
    short = of_width(sign * (edge - SLIGHTLY), 0.01, number, **known)
    assert speed(beyond, **known) is called
    assert speed(short, **known) is not called


def test_two_pairs_settle_nothing_even_at_the_end() -> None:
    clear = having(0.7, 0.001, FEWEST - 1)
    assert speed(clear, spread=Spread(1e-6, 4)) is Speed.OPEN
    assert speed(clear, spread=Spread(1e-6, 4), last=True) is Speed.OPEN


def test_pairs_that_lie_together_by_luck_settle_nothing() -> None:
    lucky = having(0.06, 0.001, FEWEST)
    assert speed(lucky) is Speed.FASTER
    assert speed(lucky, spread=Spread(0.04**2, 4)) is Speed.OPEN


def test_the_same_pairs_tell_less_beside_other_comparisons() -> None:
    some = of_width(0.06, 0.03)
    assert speed(some) is Speed.FASTER
    assert speed(some, comparisons=10) is Speed.OPEN


def test_no_change_is_settled_early_where_nothing_worth_looking_for_is_left() -> None:
    edge = math.log(ENOUGH) - 0.03
    for sign in (1, -1):
        assert speed(of_width(sign * (edge - SLIGHTLY), 0.03)) is Speed.NO_CHANGE
        assert speed(of_width(sign * (edge + SLIGHTLY), 0.03)) is Speed.OPEN


@pytest.mark.parametrize(
    ("number", "last"), [(FEWEST, True), (USUAL, True), (MOST, False), (MOST, True)]
)
def test_at_the_end_it_is_no_change_or_noise_by_what_would_have_shown(number, last) -> None:
    half = math.log(1 + NOISY - MARGIN)  # of which a change of 15 % would just show
    quiet, loud = (of_width(0.0, half + by, number) for by in (-SLIGHTLY, SLIGHTLY))
    assert speed(quiet, last=last) is Speed.NO_CHANGE
    assert judge(quiet, last=last).seen == pytest.approx(0.15, abs=2 * SLIGHTLY)
    assert speed(loud, last=last) is Speed.NOISY


def test_only_what_is_too_noisy_takes_more_than_the_usual_pairs() -> None:
    assert speed(of_width(0.0, 0.1, USUAL - 1)) is Speed.OPEN
    assert speed(of_width(0.0, 0.1, USUAL)) is Speed.NO_CHANGE
    assert speed(of_width(0.0, 0.2, USUAL)) is Speed.OPEN
    assert speed(of_width(0.0, 0.2, USUAL), most=USUAL) is Speed.NOISY


def test_a_script_with_itself_has_the_mean_of_no_change() -> None:
    spread = pooled([], itself=pairs(0.03, 0.03))
    assert (spread.variance, spread.degrees) == (pytest.approx(0.0009), 2)


def test_spreads_are_pooled_each_around_its_own_mean() -> None:
    # (.0002 + .0018) / (1 + 2): a comparison of one pair tells nothing, nor does an empty one
    spread = pooled([pairs(0.1, 0.12), pairs(-0.33, -0.3, -0.27), pairs(0.5), ()])
    assert (spread.variance, spread.degrees) == (pytest.approx(0.002 / 3), 3)
    both = pooled([pairs(0.1, 0.12)], itself=pairs(-0.02))
    assert (both.variance, both.degrees) == (pytest.approx(0.0006 / 2), 2)
    assert pooled([pairs(0.5)]) == UNKNOWN


@pytest.mark.parametrize("comparisons", [1, 10])
@pytest.mark.parametrize("number", [2, 3, 7, 20])
@pytest.mark.parametrize("deviation", [0.01, 0.03, 0.12])
@pytest.mark.parametrize("mean", [0.0, 0.015, 0.04, -0.1, 0.3])
def test_the_pairs_needed_are_those_after_which_it_is_settled(
    mean, deviation, number, comparisons
) -> None:
    known = {"comparisons": comparisons, "spread": Spread(deviation**2, 4)}
    settled = (
        count - number
        for count in range(number + 1, MOST + 1)
        if speed(having(mean, deviation, count), most=MOST + 1, **known) is not Speed.OPEN
    )
    assert pairs_needed(having(mean, deviation, number), **known) == next(settled, None)


def test_a_comparison_does_not_count_for_its_own_pool() -> None:
    pool = Pool(pairs(0.1, 0.3))  # squares .1, two degrees of freedom
    pool.add("a", pairs(0.0, 0.1))
    pool.add("a", pairs(0.0, 0.1, 0.2))  # squares .02, two degrees; instead of the one before
    pool.add("b", pairs(5.0, 5.2))  # squares .02, one degree
    assert pool.without("a") == Spread(pytest.approx(0.12 / 3), 3)
    assert pool.without("b") == Spread(pytest.approx(0.12 / 4), 4)
    assert pool.without() == Spread(pytest.approx(0.14 / 5), 5)


def test_the_last_one_is_taken_out_of_the_pool_without_a_rest() -> None:
    pool = Pool()
    pool.add("a", pairs(0.1, 0.2, 0.4))
    assert pool.without("a") == UNKNOWN


def test_rounding_makes_no_variance_negative() -> None:
    # (0.3 x 6 + 1e-18 x 5) / 11 x 11 - 0.3 x 6 is -2.2e-16 in floating point
    left = Spread(0.3, 6) + Spread(1e-18, 5) - Spread(0.3, 6)
    assert left == Spread(0.0, 5)


def test_there_may_be_too_few_pairs_to_settle_it() -> None:
    began = having(0.04, 0.01, 2)
    needed = pairs_needed(began)
    assert pairs_needed(began, most=2 + needed) == needed
    assert pairs_needed(began, most=1 + needed) is None


def test_the_pairs_needed_are_unknown_without_a_spread() -> None:
    assert pairs_needed((), spread=Spread(0.001, 4)) is None
    assert pairs_needed(pairs(0.3)) is None
    assert pairs_needed(pairs(0.3), spread=Spread(0.0001, 4)) == FEWEST - 1


def test_a_typical_step_time_by_hand() -> None:
    # logs of 1, e and e squared: mean 1, standard deviation 1, t(.995; 2)
    interval = log_interval([1.0, math.e, math.e**2])
    assert math.log(interval.middle) == pytest.approx(1.0)
    assert math.log(interval.high) == pytest.approx(1 + 9.924843 / math.sqrt(3), rel=1e-6)
    assert log_interval([1.0]) is None


def test_no_false_verdict_in_a_hundred_comparisons_of_a_script_with_itself() -> None:
    rng = random.Random(0)  # noqa: S311 - noise, no secret
    for _ in range(100):
        samples = pairs(*(rng.gauss(0, 0.05) for _ in range(MOST)))
        looks = {speed(samples[:number], comparisons=10) for number in range(FEWEST, MOST + 1)}
        assert not looks & {Speed.FASTER, Speed.SLOWER}
