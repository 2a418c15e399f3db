"""Intervals against published tables, and what pairs are settled as."""

from __future__ import annotations

import math
import random
import runpy
from pathlib import Path

import pytest

from torchlint.verify.model import Sample, Speed
from torchlint.verify.statistics import (
    judge,
    paired_interval,
    smallest_seen,
    student_cdf,
    student_quantile,
)

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t
TABLE = [
    (1, 0.975, 12.706), (2, 0.975, 4.303), (4, 0.995, 4.604), (5, 0.995, 4.032),
    (9, 0.95, 1.833), (10, 0.995, 3.169), (14, 0.995, 2.977), (30, 0.99, 2.457),
    (100, 0.975, 1.984), (3, 0.999, 10.215),
]  # fmt: skip


def pairs(*ratios: float) -> tuple[Sample, ...]:
    return tuple(Sample(ratio, 1.0, "sequential") for ratio in ratios)


def around(ratio: float, spread: float, count: int, seed: int = 0) -> tuple[Sample, ...]:
    rng = random.Random(seed)  # noqa: S311 - noise, no secret
    return pairs(*(ratio * math.exp(rng.gauss(0, spread)) for _ in range(count)))


@pytest.mark.parametrize(("degrees", "probability", "value"), TABLE)
def test_quantiles_are_those_of_the_table(degrees, probability, value) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(value, abs=6e-4)


def test_the_quantile_undoes_the_distribution() -> None:
    for degrees in range(1, 40):
        assert student_cdf(student_quantile(0.93, degrees), degrees) == pytest.approx(0.93)
    assert student_cdf(0, 3) == 0.5


def test_the_interval_of_five_pairs_by_hand() -> None:
    # logs 0, .1, .2, .3, .4: mean .2, standard deviation .1581139, error .0707107, t = 4.604095
    interval = paired_interval(pairs(*map(math.exp, (0, 0.1, 0.2, 0.3, 0.4))))
    assert math.log(interval.middle) == pytest.approx(0.2)
    assert math.log(interval.high) == pytest.approx(0.2 + 4.604095 * 0.0707107, rel=1e-6)
    assert math.log(interval.low) == pytest.approx(0.2 - 4.604095 * 0.0707107, rel=1e-6)
    assert smallest_seen(pairs(*map(math.exp, (0, 0.1, 0.2, 0.3, 0.4)))) == pytest.approx(
        math.exp(4.604095 * 0.0707107) - 0.98, rel=1e-6
    )


def test_the_interval_of_eight_pairs_by_hand_has_its_ends_cut() -> None:
    # logs -9, 1 .. 6, 9: kept 1 .. 6, mean 3.5; winsorised 1, 1 .. 6, 6: sum of squares 42-8*3.5**2
    logs = [x / 100 for x in (-9, 1, 2, 3, 4, 5, 6, 9)]
    spread = math.sqrt((1 + 1 + 4 + 9 + 16 + 25 + 36 + 36 - 8 * 3.5**2) / 7) / 100
    half = 4.032143 * spread * math.sqrt(7 / (6 * 5))
    interval = paired_interval(pairs(*map(math.exp, logs)))
    assert math.log(interval.middle) == pytest.approx(0.035)
    assert math.log(interval.high) == pytest.approx(0.035 + half, rel=1e-6)


def test_undoing_a_change_mirrors_its_interval() -> None:
    there = paired_interval(pairs(1.1, 1.3, 1.2, 1.25, 1.15))
    back = paired_interval(pairs(*(1 / r for r in (1.1, 1.3, 1.2, 1.25, 1.15))))
    assert back.low == pytest.approx(1 / there.high)
    assert back.middle == pytest.approx(1 / there.middle)


def test_one_pair_has_no_interval() -> None:
    assert paired_interval(pairs(2.0)) is None
    assert judge(pairs(2.0)).seen is None


def test_four_clear_pairs_are_too_few_even_at_the_end() -> None:
    assert judge(pairs(2, 2.01, 2.02, 2.03)).speed is Speed.OPEN
    assert judge(pairs(2, 2.01, 2.02, 2.03), last=True).speed is Speed.OPEN


def test_a_clear_change_is_settled_with_five_pairs() -> None:
    assert judge(around(1.2, 0.01, 5)).speed is Speed.FASTER
    assert judge(around(1 / 1.2, 0.01, 5)).speed is Speed.SLOWER


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


def test_hopeless_noise_is_given_up_early() -> None:
    assert judge(around(1, 0.8, 9)).speed is Speed.OPEN
    assert judge(around(1, 0.8, 10)).speed is Speed.NOISY
    assert judge(around(1, 0.08, 10)).speed is Speed.OPEN


def test_what_may_yet_turn_out_faster_is_not_given_up() -> None:
    noisy = around(1, 0.8, 10)
    low = paired_interval(noisy).low
    promising = pairs(*(sample.ratio * 1.01 / low for sample in noisy))
    assert judge(promising).speed is Speed.OPEN


def test_one_disturbed_launch_does_not_hide_a_change() -> None:
    assert judge((*around(1.2, 0.02, 9), *pairs(0.4))).speed is Speed.FASTER


def test_one_lucky_launch_makes_no_change() -> None:
    assert judge((*around(1, 0.02, 9), *pairs(3.0))).speed is not Speed.FASTER


def test_the_simulation_gives_the_same_table_every_time() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "verify_statistics.py"
    table = runpy.run_path(str(path))
    lines = [table["row"]("normal, 1 %", 40) for _ in range(2)]
    assert lines[0] == lines[1]
    assert lines[0].split()[3:5] == ["0.0", "0.0"]
    assert lines[0].split()[6::2] == ["100"] * 4


def test_no_false_verdict_in_a_hundred_comparisons_of_a_script_with_itself() -> None:
    for seed in range(100):
        samples = around(1, 0.05, 15, seed)
        looks = {judge(samples[:count]).speed for count in range(5, 16)}
        assert not looks & {Speed.FASTER, Speed.SLOWER}, seed
