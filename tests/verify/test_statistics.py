"""The stopping rule by hand, against published tables, and what pairs are settled as."""

from __future__ import annotations

import math
import random

import pytest

from torchlint.verify.model import Sample, Speed
from torchlint.verify.statistics import (
    UNKNOWN,
    Pool,
    Spread,
    judge,
    log_interval,
    pairs_needed,
    pooled,
    student_cdf,
    student_quantile,
)

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t
TABLE = [
    (1, 0.975, 12.706), (2, 0.975, 4.303), (4, 0.995, 4.604), (5, 0.995, 4.032),
    (9, 0.95, 1.833), (10, 0.995, 3.169), (14, 0.995, 2.977), (30, 0.99, 2.457),
    (100, 0.975, 1.984), (3, 0.999, 10.215),
]  # fmt: skip
SOME = (0.0, 0.1, 0.2, 0.3, 0.4)  # logarithms: mean 0.2, sum of squares 0.1, variance 0.025


def pairs(*logs: float) -> tuple[Sample, ...]:
    return tuple(Sample(math.exp(each), 1.0, "lockstep") for each in logs)


def around(ratio: float, spread: float, count: int, seed: int = 0) -> tuple[Sample, ...]:
    rng = random.Random(seed)  # noqa: S311 - noise, no secret
    return pairs(*(math.log(ratio) + rng.gauss(0, spread) for _ in range(count)))


@pytest.mark.parametrize(("degrees", "probability", "value"), TABLE)
def test_quantiles_are_those_of_the_table(degrees, probability, value) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(value, abs=6e-4)


def test_the_quantile_undoes_the_distribution() -> None:
    for degrees in range(1, 40):
        assert student_cdf(student_quantile(0.93, degrees), degrees) == pytest.approx(0.93)
    assert student_cdf(0, 3) == 0.5


@pytest.mark.parametrize(
    ("comparisons", "spread", "half"),
    [
        # d = 0: t(0.995; 4) = 4.604095, sqrt(0.025 / 5) = 0.0707107
        pytest.param(1, UNKNOWN, 4.604095 * 0.0707107, id="alone"),
        # d = 2: v = (2 * 0.01 + 0.1) / 6 = 0.02; t(0.995; 6) = 3.707428
        pytest.param(1, Spread(0.01, 2), 3.707428 * math.sqrt(0.02 / 5), id="pooled"),
        # d = min(4, 100): v = (4 * 0.01 + 0.1) / 8 = 0.0175; t(0.995; 8) = 3.355387
        pytest.param(1, Spread(0.01, 100), 3.355387 * math.sqrt(0.0175 / 5), id="at most four"),
        # m = 10: t(0.9995; 8) = 5.041305
        pytest.param(10, Spread(0.01, 100), 5.041305 * math.sqrt(0.0175 / 5), id="ten"),
    ],
)  # fmt: skip
def test_the_interval_by_hand(comparisons, spread, half) -> None:
    judgement = judge(pairs(*SOME), comparisons=comparisons, spread=spread)
    interval = judgement.interval
    assert math.log(interval.middle) == pytest.approx(0.2)
    assert math.log(interval.high) == pytest.approx(0.2 + half, rel=1e-6)
    assert math.log(interval.low) == pytest.approx(0.2 - half, abs=1e-6)
    assert judgement.seen == pytest.approx(math.exp(half) - 0.98, rel=1e-6)


def test_undoing_a_change_mirrors_its_interval() -> None:
    there = judge(pairs(*SOME)).interval
    back = judge(pairs(*(-each for each in SOME))).interval
    assert back.low == pytest.approx(1 / there.high)
    assert back.middle == pytest.approx(1 / there.middle)


def test_a_spread_is_that_of_each_around_its_own_mean() -> None:
    # squares 0.1 and 0.02 around means 0.2 and 5.1, with 4 and 1 degrees of freedom
    assert pooled([pairs(*SOME), pairs(5.0, 5.2)]) == Spread(pytest.approx(0.12 / 5), 5)


def test_a_script_with_itself_is_known_to_be_no_change() -> None:
    assert pooled([], pairs(0.1, 0.3)) == Spread(pytest.approx(0.05), 2)


def test_a_comparison_does_not_count_for_its_own_pool() -> None:
    pool = Pool(pairs(0.1, 0.3))
    pool.add("a", pairs(0.0))
    pool.add("a", pairs(*SOME))  # instead of the one before
    pool.add("b", pairs(5.0, 5.2))
    assert pool.without("a") == Spread(pytest.approx(0.12 / 3), 3)
    assert pool.without() == Spread(pytest.approx(0.22 / 7), 7)


def test_nothing_is_known_of_one_pair_alone() -> None:
    assert judge(pairs(0.7)).interval is None
    assert judge(pairs(0.7)).seen is None
    assert judge(()).speed is Speed.OPEN
    assert judge(pairs(0.7), spread=Spread(0.01, 2)).interval is not None


def test_two_clear_pairs_are_too_few_even_at_the_end() -> None:
    two = pairs(0.7, 0.701)
    assert judge(two, spread=Spread(1e-4, 9)).speed is Speed.OPEN
    assert judge(two, spread=Spread(1e-4, 9), last=True).speed is Speed.OPEN


def test_three_pairs_that_lie_together_by_luck_settle_nothing() -> None:
    lucky = pairs(0.06, 0.0601, 0.0602)
    assert judge(lucky).speed is Speed.FASTER
    assert judge(lucky, spread=Spread(0.04**2, 4)).speed is Speed.OPEN


def test_a_clear_change_is_settled_with_three_pairs() -> None:
    spread = Spread(0.01**2, 4)
    assert judge(around(1.2, 0.01, 3), comparisons=10, spread=spread).speed is Speed.FASTER
    assert judge(around(1 / 1.2, 0.01, 3), comparisons=10, spread=spread).speed is Speed.SLOWER


def test_more_comparisons_ask_for_more_proof() -> None:
    samples, spread = around(1.06, 0.01, 4), Spread(0.01**2, 4)
    assert judge(samples, comparisons=1, spread=spread).speed is Speed.FASTER
    assert judge(samples, comparisons=1000, spread=spread).speed is Speed.OPEN


def test_a_certain_change_within_the_margin_is_none() -> None:
    assert judge(around(1.015, 0.001, 5)).speed is Speed.NO_CHANGE


def test_a_change_beyond_the_margin_by_estimate_alone_stays_open() -> None:
    judgement = judge(around(1.06, 0.04, 6))
    assert judgement.interval.middle > 1.02 > judgement.interval.low
    assert judgement.speed is Speed.OPEN


def test_at_the_end_it_is_no_change_or_noise_by_what_would_have_shown() -> None:
    quiet, loud = judge(around(1, 0.15, 40)), judge(around(1, 0.4, 40))
    assert (quiet.speed, quiet.seen < 0.15) == (Speed.NO_CHANGE, True)
    assert (loud.speed, loud.seen > 0.15) == (Speed.NOISY, True)
    assert judge(around(1, 0.04, 6), last=True).speed is Speed.NO_CHANGE


def test_only_what_is_too_noisy_takes_more_than_the_usual_pairs() -> None:
    assert judge(around(1, 0.08, 14)).speed is Speed.OPEN
    assert judge(around(1, 0.08, 15)).speed is Speed.NO_CHANGE
    loud = judge(around(1, 0.25, 15))
    assert (loud.speed, loud.seen > 0.15) == (Speed.OPEN, True)
    assert judge(around(1, 0.25, 15), most=15).speed is Speed.NOISY
    assert judge(around(1, 0.25, 15), last=True).speed is Speed.NOISY


def test_one_lucky_launch_makes_no_change() -> None:
    assert judge((*around(1, 0.02, 9), *pairs(1.1))).speed is not Speed.FASTER


@pytest.mark.parametrize("ratio", [1.0, 1.05, 1.3, 0.5])
@pytest.mark.parametrize("comparisons", [1, 10])
def test_so_many_pairs_as_are_said_to_be_needed_settle_it(ratio, comparisons) -> None:
    spread, log = Spread(0.02**2, 4), math.log(ratio)
    began = pairs(log - 0.01, log + 0.01)  # of which each pair that comes keeps mean and variance
    needed = pairs_needed(began, comparisons, spread)
    sizes = [0.02 * (-1) ** place / math.sqrt(2) for place in range(40)]
    for count in range(3, 2 + needed + 1):
        logs = [log + size for size in sizes[:count]]
        speed = judge(pairs(*logs), comparisons=comparisons, spread=spread).speed
        if speed is not Speed.OPEN:
            break
    assert abs(count - 2 - needed) <= max(1, needed // 2)


def test_what_many_pairs_would_not_settle_needs_no_number() -> None:
    assert pairs_needed(pairs(-2.0, 2.0)) is None
    assert pairs_needed(()) is None
    assert pairs_needed(pairs(0.3)) is None  # nothing is known of the spread


def test_the_interval_of_step_times() -> None:
    assert log_interval([1.0]) is None
    found = log_interval([math.exp(each) for each in SOME])
    assert math.log(found.high) == pytest.approx(0.2 + 4.604095 * 0.0707107, rel=1e-6)


def test_no_false_verdict_in_a_hundred_comparisons_of_a_script_with_itself() -> None:
    for seed in range(100):
        samples, spread = around(1, 0.05, 15, seed), Spread(0.05**2, 4)
        looks = {judge(samples[:count], spread=spread).speed for count in range(3, 16)}
        assert not looks & {Speed.FASTER, Speed.SLOWER}, seed
