"""Which fixes are kept, with made-up truths about how they work together."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field

import pytest
from statistics_tools import agreement, configuration, judged

from torchlint.edits.fix import Safety
from torchlint.verify.keep import Kept, choose, is_proven, proved, smallest_failing
from torchlint.verify.model import Interval, Judgement, Same, Speed, Verdict
from torchlint.verify.verdict import result_of


@dataclass
class World:
    """Gains (logarithms) of fixes alone and of pairs beside that; sets that fail together."""

    gains: dict[str, float]
    pairs: dict[tuple[str, str], float] = field(default_factory=dict)
    failing: tuple[frozenset[str], ...] = ()
    noise: float = 0.0
    rng: random.Random = field(default_factory=random.Random)
    known: dict = field(default_factory=dict)
    traced: set = field(default_factory=set)
    safety: Safety = Safety.SAFE

    def value(self, codes) -> float:
        both = sum(gain for pair, gain in self.pairs.items() if set(pair) <= set(codes))
        return sum(self.gains[code] for code in codes) + both

    def works(self, codes) -> bool:
        self.traced.add(codes)
        return not any(each <= set(codes) for each in self.failing)

    def compare(self, first, second) -> Judgement:
        if (first, second) not in self.known:
            true = self.value(second) - self.value(first) + self.rng.gauss(0, self.noise / 2.5)
            interval = Interval(*(math.exp(true + k * (self.noise + 1e-6)) for k in (-1, 0, 1)))
            speed = Speed.FASTER if interval.low > 1.02 else Speed.NO_CHANGE
            speed = Speed.SLOWER if interval.high < 1 / 1.02 else speed
            self.known[first, second] = Judgement(speed, interval, 0.04, ())
        return self.known[first, second]

    @property
    def configurations(self) -> int:
        return len({codes for pair in self.known for codes in pair if codes})

    def choose(self):
        singles = {
            code: result_of(
                configuration(code, safety=self.safety), [], agreement(), self.compare((), (code,))
            )
            for code in self.gains
        }
        return choose(singles, self.works, self.compare)


def gains(*faster: float) -> dict[str, float]:
    return {f"TL{k}": math.log(each) for k, each in enumerate(faster)}


@pytest.mark.parametrize(
    ("verdict", "safety", "same", "proven"),
    [
        (Verdict.FASTER, Safety.UNSAFE, Same.SEED_SPREAD, True),
        (Verdict.NO_CHANGE, Safety.SAFE, Same.BITWISE, True),
        (Verdict.NO_CHANGE, Safety.SAFE, Same.TOLERANCE, True),  # where the script is not exact
        (Verdict.NO_CHANGE, Safety.UNSAFE, Same.BITWISE, False),
        (Verdict.SLOWER, Safety.SAFE, Same.BITWISE, False),
        (Verdict.NOISY, Safety.SAFE, Same.BITWISE, False),
        (Verdict.NOT_MEASURED, Safety.SAFE, Same.BITWISE, False),
    ],
)
def test_what_is_proven(verdict, safety, same, proven) -> None:
    judgement = {
        Verdict.FASTER: judged(1.2), Verdict.NO_CHANGE: judged(1), Verdict.SLOWER: judged(0.8),
        Verdict.NOISY: judged(1, 0.2, 5, last=True), Verdict.NOT_MEASURED: None,
    }[verdict]  # fmt: skip
    result = result_of(configuration("TL1", safety=safety), [], agreement(same), judgement)
    assert result.verdict is verdict
    assert is_proven(result) is proven


def test_what_failed_or_changed_results_is_not_kept() -> None:
    one = configuration("TL1", safety=Safety.SAFE)
    assert not is_proven(result_of(one, [], agreement(allowed=False), judged(1.2)))
    assert not is_proven(result_of(one, [], agreement(), judged(1.2), "not reached"))


def test_fixes_that_get_along_need_one_more_configuration() -> None:
    world = World(gains(1.2, 1.1, 1.0, 0.9))
    kept = world.choose()
    assert kept.codes == ("TL0", "TL1", "TL2")
    assert kept.left_out == {}
    assert world.configurations == 5


def test_ten_fixes_with_a_harmful_one() -> None:
    world = World(gains(1.3, 1.1, *[1.0] * 7, 0.8))
    assert world.choose().codes == tuple(f"TL{k}" for k in range(9))


def test_no_fix_or_one_needs_nothing() -> None:
    assert World({}).choose().codes == ()
    world = World(gains(1.2))
    assert (world.choose().codes, world.configurations) == (("TL0",), 1)


def test_two_that_only_fail_together() -> None:
    world = World(gains(1.2, *[1.0] * 6, 1.1), failing=(frozenset({"TL0", "TL7"}),))
    kept = world.choose()
    assert kept.codes == tuple(f"TL{k}" for k in range(7))
    assert kept.left_out == {"TL7": "fails or changes results together with TL0"}
    assert len(world.traced) < 20


def test_of_three_that_fail_together_the_least_useful_goes() -> None:
    world = World(gains(1.2, 1.1, 1.05, 1.0), failing=(frozenset({"TL0", "TL1", "TL2"}),))
    kept = world.choose()
    assert kept.codes == ("TL0", "TL1", "TL3")
    assert kept.left_out == {"TL2": "fails or changes results together with TL0, TL1"}


def test_two_separate_failures() -> None:
    bad = frozenset({"TL0", "TL1"}), frozenset({"TL2", "TL3"})
    kept = World(gains(1.2, 1.0, 1.0, 1.2, 1.0), failing=bad).choose()
    assert set(kept.codes) == {"TL0", "TL3", "TL4"}


def test_fixes_that_were_not_tried_together_as_the_time_was_over() -> None:
    """Nothing is said of what was not run: not that it fails."""
    world = World(gains(1.1, 1.3, 1.0))
    world.works = lambda _: None
    kept = world.choose()
    assert kept.codes == ("TL1",)
    assert set(kept.left_out.values()) == {"not tried together with TL1, as the time was over"}


def test_time_that_is_over_while_the_failing_are_looked_for() -> None:
    world = World(gains(1.2, 1.1, 1.3, 1.0))
    world.works = lambda codes: None if len(codes) < 3 else False
    kept = world.choose()
    assert kept.codes == ("TL2",)
    assert kept.left_out["TL3"] == "fails or changes results together with TL1, TL2"
    assert "as the time was over" in kept.left_out["TL0"]


def told(ratio: float | None, *codes: str, spread: float = 0.002, **known):
    judgement = judged(ratio, spread) if ratio else None
    made = configuration(*codes, safety=known.get("safety", Safety.UNSAFE))
    return result_of(made, [], known.get("same", agreement()), judgement)


def test_a_group_is_kept_where_no_fix_alone_explains_it() -> None:
    singles = {code: told(None, code) for code in ("A", "B", "C")}
    sets = {("A", "B", "C"): told(1.3, "A", "B", "C")}
    assert proved(Kept((), {}), singles, sets).codes == ("A", "B", "C")
    half = {("A", "B"): told(1.29, "A", "B"), ("B", "C"): told(1.1, "B", "C")}
    assert proved(Kept((), {}), singles, sets | half).codes == ("A", "B")


def test_a_fix_that_explains_the_gain_of_a_group_is_kept_alone() -> None:
    singles = {"A": told(1.29, "A"), "B": told(None, "B")}
    sets = {("A", "B"): told(1.3, "A", "B")}
    assert proved(Kept(("A",), {}), singles, sets).codes == ("A",)
    singles["A"] = told(1.1, "A")
    assert proved(Kept(("A",), {}), singles, sets).codes == ("A", "B")
    unsure = {"A": told(1.24, "A", spread=0.05), "B": told(None, "B")}
    assert proved(Kept(("A",), {}), unsure, sets).codes == ("A",)


def test_what_was_not_timed_together_is_not_recommended_together() -> None:
    singles = {"A": told(1.2, "A"), "B": told(1.3, "B"), "C": told(None, "C")}
    kept = proved(Kept(("A", "B"), {}), singles, {})
    assert kept.codes == ("B",)
    assert kept.left_out == {"A": "not tried together with B, as the time was over"}
    timed = {("A", "B"): told(1.5, "A", "B")}
    assert proved(Kept(("A", "B"), {}), singles, timed).codes == ("A", "B")
    slower = {("A", "B"): told(0.8, "A", "B")}
    kept = proved(Kept(("A", "B"), {}), singles, slower)
    assert (kept.codes, kept.left_out) == (("B",), {"A": "the others are faster without it"})


def test_a_group_with_a_fix_that_does_harm_alone_is_not_kept() -> None:
    changes = told(None, "B", same=agreement(Same.DIVERGED, allowed=False))
    singles = {"A": told(None, "A"), "B": changes}
    assert proved(Kept((), {}), singles, {("A", "B"): told(1.5, "A", "B")}).codes == ()


def test_safe_fixes_that_cost_nothing_are_kept_as_they_were_timed() -> None:
    singles = {code: told(1.0, code, safety=Safety.SAFE) for code in ("A", "B")}
    timed = {("A", "B"): told(1.0, "A", "B", safety=Safety.SAFE)}
    assert proved(Kept(("A", "B"), {}), singles, timed).codes == ("A", "B")
    assert proved(Kept(("A", "B"), {}), singles, {}).codes == ("A",)


def test_one_that_fails_alone_is_found_among_many() -> None:
    codes = tuple(f"TL{k}" for k in range(16))
    tried = []

    def works(some) -> bool:
        tried.append(some)
        return "TL11" not in some

    assert smallest_failing(codes, works) == ("TL11",)
    assert len(tried) <= 8


@pytest.mark.parametrize("size", [2, 3, 4])
def test_delta_debugging_finds_a_smallest_set(size) -> None:
    codes = tuple(f"TL{k}" for k in range(12))
    for seed in range(40):
        bad = set(random.Random(seed).sample(codes, size))  # noqa: S311 - no secret
        found = smallest_failing(codes, lambda some, bad=bad: not bad <= set(some))
        assert set(found) == bad


def test_one_that_spoils_another_is_left_out() -> None:
    world = World(gains(1.3, 1.0, 1.0, 1.0), {("TL0", "TL2"): -0.2})
    kept = world.choose()
    assert kept.codes == ("TL0", "TL1", "TL3")
    assert kept.left_out == {"TL2": "the others are faster without it"}


def test_two_that_do_the_same_are_both_kept() -> None:
    world = World(gains(1.3, 1.2), {("TL0", "TL1"): -math.log(1.2)})
    assert world.choose().codes == ("TL0", "TL1")


def test_a_noisy_whole_is_no_reason_to_leave_out() -> None:
    world = World(gains(1.3, 1.2))
    noisy = Judgement(Speed.NOISY, Interval(0.7, 1.0, 1.4), 0.3, ())
    world.known[(), ("TL0", "TL1")] = noisy
    world.known[("TL0", "TL1"), ("TL0",)] = judged(1.5)
    assert world.choose().codes == ("TL0", "TL1")


def test_in_simulation_it_loses_less_than_one_percent_in_eleven_configurations() -> None:
    lost, everything, configurations = [], [], []
    for seed in range(150):
        rng = random.Random(seed)  # noqa: S311 - no secret
        codes = [f"TL{k}" for k in range(9)]
        kinds = rng.choices(("idle", "faster", "slower"), (45, 40, 15), k=9)
        range_of = {"idle": (0, 0), "faster": (0.02, 0.22), "slower": (-0.1, -0.02)}
        alone = {c: rng.uniform(*range_of[k]) for c, k in zip(codes, kinds, strict=True)}
        pairs = {}
        if rng.random() < 0.5:
            pairs[tuple(rng.sample(codes, 2))] = -rng.uniform(0.03, 0.15)
        world = World(alone, pairs, noise=0.008, rng=rng)
        subsets = itertools.chain.from_iterable(
            itertools.combinations(codes, size) for size in range(10)
        )
        best = max(map(world.value, subsets))
        lost.append(1 - math.exp(world.value(world.choose().codes) - best))
        everything.append(1 - math.exp(world.value(codes) - best))
        configurations.append(world.configurations)
    assert sum(lost) / len(lost) < 0.01
    assert sum(everything) / len(lost) > 0.05
    assert sum(configurations) / len(lost) < 11.5
