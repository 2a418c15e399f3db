"""What is measured next, as a function of what is known; and whole reports on a made-up clock."""

from __future__ import annotations

import random

import pytest
from session_tools import FakeExecutor, session, verdicts, verify

from torchlint.rule import Level
from torchlint.verify.keep import HARMFUL
from torchlint.verify.model import Report, Verdict
from torchlint.verify.schedule import GROUPS, Option, comparisons, halves, ranked

# what they run is counted where the others do
many_reports = pytest.mark.uncounted
LOUD = {Verdict.FASTER, Verdict.SLOWER}


def order(*options: Option, left: float = 1000.0) -> list[int]:
    return [option.place for option in ranked(options, left)]


def test_what_leads_goes_first_until_its_verdict() -> None:
    others = Option(1, 0, 5.0), Option(2, 2, 5.0, needed=1)
    assert order(*others, Option(0, 0, 5.0, leads=True))[0] == 0
    assert order(*others, Option(0, 8, 5.0, needed=9, leads=True))[0] == 0


def test_what_leads_does_not_take_more_than_half_of_the_time_for_its_verdict() -> None:
    leading, other = Option(0, 3, 10.0, needed=9, leads=True), Option(1, 0, 10.0)
    assert order(leading, other, left=190)[0] == 0
    assert order(leading, other, left=170)[0] == 1
    first_pairs = Option(0, 2, 10.0, needed=30, leads=True)
    assert order(first_pairs, other, left=100)[0] == 0


def test_each_is_looked_at_once_and_then_the_nearest_to_a_verdict_comes() -> None:
    far, near = Option(0, 1, 5.0, needed=14), Option(1, 1, 5.0, needed=2, gain=0.3)
    assert order(far, near, Option(2, 0, 5.0, trace=3.0)) == [2, 1, 0]
    cheap = Option(3, 1, 1.0, needed=5)
    assert order(far, near, cheap) == [3, 1, 0]


def test_of_what_costs_alike_the_larger_effect_comes_first() -> None:
    small, large = Option(0, 2, 5.0, needed=2, gain=0.03), Option(1, 2, 5.1, needed=2, gain=-0.5)
    assert order(small, large) == [1, 0]


def test_a_look_at_another_waits_where_it_would_cost_a_verdict() -> None:
    fair, fresh = Option(0, 1, 5.0, needed=2, gain=-0.2), Option(1, 0, 5.0, trace=3.0)
    assert order(fair, fresh, left=100) == [1, 0]
    assert order(fair, fresh, left=17) == [0, 1]
    large = Option(0, 1, 5.0, needed=2, gain=1.4)
    assert order(large, fresh, left=100) == [0, 1]
    nothing = Option(0, 1, 5.0, needed=2, gain=0.001)
    assert order(nothing, fresh, left=17) == [1, 0]


def test_what_cannot_be_settled_comes_last_and_what_cannot_end_never() -> None:
    hopeless, possible = Option(0, 3, 5.0, needed=30, gain=0.1), Option(1, 3, 50.0, needed=1)
    assert order(hopeless, possible, left=60) == [1, 0]
    assert order(hopeless, possible, left=20) == [0]
    assert order(hopeless, Option(2, 0, 3.0, trace=3.0), left=4.9) == []


def test_how_many_comparisons_a_report_has() -> None:
    assert [comparisons(fixes) for fixes in (0, 1, 2, 10)] == [0, 1, 5, 11 + GROUPS]


def test_halves_of_what_is_proved_and_not_explained() -> None:
    whole = ("A", "B", "C", "D", "E")
    unknown = dict.fromkeys(whole)
    assert halves({whole: 0.3}, unknown, {whole}) == [("A", "B", "C"), ("D", "E")]
    assert halves({whole: 0.3}, unknown | {"A": 0.29}, {whole}) == []
    assert halves({whole: 0.3}, unknown | {"A": 0.1}, {whole}) == [("B", "C"), ("D", "E")]
    assert halves({whole: 0.02}, unknown, {whole}) == []
    asked = {whole, ("A", "B", "C"), ("D", "E")}
    assert halves({whole: 0.3}, unknown, asked) == []
    assert halves({whole: 0.3, ("A", "B", "C"): 0.3}, unknown, asked) == [("A", "B")]


def codes(count: int) -> list[str]:
    return [f"TL{k}" for k in range(count)]


def unsafe(count: int) -> dict[str, Level]:
    """Return fixes that are worth something only if they are faster."""
    return dict.fromkeys(codes(count), Level.E1)


def made(
    seed: int, executor: FakeExecutor, count: int, seconds: float, safe: bool = False
) -> Report:
    executor.rng = random.Random(seed)  # noqa: S311
    levels = {} if safe else unsafe(count)
    report = verify(session(executor, seconds=seconds, seed=seed, **levels), *codes(count))
    over = executor.seconds - seconds
    assert over <= executor.longest, "more than a pair beyond the budget"
    return report


def sets(report: Report) -> list:
    several = [report.together, report.kept_result, *report.groups]
    return [*report.singles, *(result for result in several if result)]


def check_what_is_kept(report: Report) -> None:
    """Look that what is kept was proved as it is kept."""
    if not report.kept:
        return
    (proof,) = [one for one in sets(report) if one.configuration.codes == report.kept]
    assert proof.verdict in {Verdict.FASTER, Verdict.NO_CHANGE}
    singles = {one.configuration.codes[0]: one.verdict for one in report.singles}
    assert HARMFUL.isdisjoint(singles[code] for code in report.kept)


@pytest.mark.parametrize("place", [0, 5])
def test_of_a_large_and_a_small_effect_the_large_one_has_its_verdict_first(place: int) -> None:
    """4.3x beside 1.01x in 100 s: the time once went to five pairs of the small one."""
    alone = 0
    for seed in range(40):
        small, large = codes(6)[3], codes(6)[place]
        executor = FakeExecutor({small: 1 / 1.01, large: 1 / 4.3}, noise=0.02, start=2.0)
        report = made(seed, executor, 6, 100)
        assert verdicts(report)[large] is Verdict.FASTER
        assert large in report.kept
        alone += report.kept == (large,)
    assert alone > 35


@many_reports
def test_a_gain_that_only_all_together_have_keeps_the_group() -> None:
    for seed in range(30):
        four = frozenset(codes(4))
        report = made(seed, FakeExecutor(together={four: 0.6}, noise=0.02), 4, 300)
        assert report.kept == tuple(codes(4))
        assert report.together.verdict is Verdict.FASTER
        assert report.kept_result is None
        check_what_is_kept(report)


@many_reports
def test_a_gain_of_two_together_is_looked_for_by_halves() -> None:
    found = 0
    for seed in range(12):
        pair = frozenset({"TL6", "TL7"})
        report = made(seed, FakeExecutor(together={pair: 0.6}, noise=0.02), 10, 700)
        assert pair <= set(report.kept)
        assert report.groups or report.kept_result
        check_what_is_kept(report)
        found += len(report.kept) < 10
    assert found > 9


def test_fixes_that_cancel_are_both_seen_though_all_together_gain_nothing() -> None:
    for seed in range(20):
        executor = FakeExecutor({"TL1": 0.7, "TL2": 1 / 0.7}, noise=0.01)
        report = made(seed, executor, 4, 500)
        assert report.together.verdict not in LOUD
        found = verdicts(report)
        assert (found["TL1"], found["TL2"]) == (Verdict.FASTER, Verdict.SLOWER)
        assert "TL1" in report.kept
        assert "TL2" not in report.kept
        check_what_is_kept(report)


def test_a_slow_fix_among_fast_ones_is_left_out_of_what_is_kept() -> None:
    for seed in range(20):
        executor = FakeExecutor({"TL0": 0.8, "TL1": 0.8, "TL2": 1.4}, noise=0.01)
        report = made(seed, executor, 4, 600, safe=True)
        assert {"TL0", "TL1"} <= set(report.kept)
        assert "TL2" not in report.kept
        check_what_is_kept(report)


@many_reports
def test_nothing_false_is_said_or_kept() -> None:
    """Fixes that do nothing; 1 % of reports may say that they do."""
    false = 0
    for seed in range(400):
        count, seconds = (1, 3, 6)[seed % 3], (50, 120)[seed % 2]
        report = made(seed, FakeExecutor(noise=0.04, start=2.0), count, seconds)
        false += any(result.verdict in LOUD for result in sets(report)) or bool(report.kept)
    assert false <= 4


@many_reports
def test_whatever_is_the_case_the_time_is_kept_and_what_is_kept_is_proved() -> None:
    for seed in range(100):
        rng = random.Random(seed)  # noqa: S311
        count = rng.randint(1, 8)
        factors = {code: rng.choice((1, 1, 0.98, 0.8, 0.3, 1.2)) for code in codes(count)}
        bad = {code for code in codes(count) if rng.random() < 0.1}
        other = {code for code in codes(count) if rng.random() < 0.1}
        executor = FakeExecutor(
            factors,
            breaks=lambda some, bad=bad: not bad.isdisjoint(some),
            changes=lambda some, other=other: not other.isdisjoint(some),
            workers=lambda some, seed=seed: seed % 5 == 0 and "TL0" in some,
            noise=rng.choice((0.001, 0.03, 0.2)),
            start=rng.choice((0.5, 3.0)),
            ends_at=rng.choice((None, None, 10, 60)),
            fails_at=rng.choice((None, None, None, 70)),
        )
        report = made(seed, executor, count, rng.choice((10, 60, 200)), safe=seed % 2 == 0)
        check_what_is_kept(report)
        assert (bad | other).isdisjoint(report.kept)


def test_time_is_given_back_only_where_all_is_settled() -> None:
    for seed in range(30):
        executor = FakeExecutor({"TL0": 0.98}, noise=0.05, start=1.0)
        report = made(seed, executor, 2, 150)
        is_settled = all(one.verdict is not Verdict.NOT_MEASURED for one in sets(report))
        noisy = any(one.verdict is Verdict.NOISY for one in sets(report))
        longest = 2 * executor.longest  # a trace and a pair
        assert (is_settled and not noisy) or executor.seconds > 150 - longest
