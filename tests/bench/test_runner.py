"""Launches go on until every row is judged; what goes wrong stays with its own row."""

from __future__ import annotations

import random

import pytest

from torchlint.bench import runner
from torchlint.bench.model import Row
from torchlint.errors import TorchlintError
from torchlint.rule import Level
from torchlint.verify.model import Verdict

MACHINE = {
    "machine": {
        "python": "3.11", "torch": "2.13.0", "device": "CPU", "cuda": None, "gpus": 0,
        "driver": None, "threads": 1, "libraries": {},
    }
}  # fmt: skip


def row(code, unfit=""):
    return Row(code, "a-rule", "", "step", "", "", None, Level.E1, unfit)


def arm(seconds):
    return {"wall": seconds, "cpu": seconds, "gpu": None, "memory": None, "syncs": None}


class FakeBench(runner.Bench):
    """Each launch gives what a plan says of a row: how many times faster, or an error."""

    def __init__(self, plan, limit=1e9, dies=()):
        super().__init__("python", "cpu", {}, limit, lambda *_: None)
        self.rng = random.Random(0)  # noqa: S311
        self.plan, self.dies, self.asked = plan, set(dies), []

    def _launched(self, _folder, rows):
        yield MACHINE
        self.asked.append({one.key for one in rows})
        for one in rows:
            yield {"begun": one.key}
            if one.key in self.dies:
                raise TorchlintError("python ended with -11: it said nothing")
            said = self.plan[one.key]
            if isinstance(said, str):
                yield {"row": one.key, "error": said}
                continue
            if isinstance(said, BaseException):
                raise said
            ratio, far = said if isinstance(said, tuple) else (said, 0.0)
            noise = self.rng.gauss(1, 0.001)
            yield {"row": one.key, "before": arm(ratio * noise), "after": arm(1.0),
                   "difference": far, "equal": not far, "allowed": far < 0.1}  # fmt: skip


def verdicts(found):
    return {one.row.code: one.verdict for one in found}


def test_rows_are_launched_until_they_are_judged_and_no_longer():
    bench = FakeBench({"A": 2.0, "B": 1.0, "C": 0.5, "D": 1.035})
    found = bench.measure([row("A"), row("B"), row("C"), row("D")])
    assert verdicts(found) == {
        "A": Verdict.FASTER, "B": Verdict.NO_CHANGE, "C": Verdict.SLOWER, "D": Verdict.FASTER,
    }  # fmt: skip
    assert {len(one.pairs) for one in found} == {5}
    assert found[0].interval.low == pytest.approx(2.0, rel=0.01)


def test_a_row_that_fails_is_not_launched_again_and_the_others_are():
    bench = FakeBench({"A": "Traceback\nValueError: no", "B": 2.0})
    found = bench.measure([row("A"), row("B")])
    assert verdicts(found) == {"A": Verdict.FAILED, "B": Verdict.FASTER}
    assert "ValueError: no" in found[0].why
    assert [("A" in keys) for keys in bench.asked] == [True, False, False, False, False]


def test_the_row_that_ends_the_process_is_named_and_the_others_are_measured():
    bench = FakeBench({"A": 2.0, "B": 2.0}, dies=["B"])
    found = bench.measure([row("A"), row("B")])
    assert verdicts(found) == {"A": Verdict.FASTER, "B": Verdict.FAILED}
    assert "ended with -11" in found[1].why


def test_a_process_that_ends_before_any_row_is_an_error():
    bench = FakeBench({})
    bench._launched = lambda *_: (_ for _ in ()).throw(TorchlintError("no torch here"))  # type: ignore[method-assign]
    with pytest.raises(TorchlintError, match="no torch here"):
        bench.measure([row("A")])


def test_other_results_than_declared_are_no_speed_up():
    found = FakeBench({"A": (3.0, 0.5)}).measure([row("A")])
    assert verdicts(found) == {"A": Verdict.CHANGES_RESULTS}
    assert found[0].why == "before and after compute what is 0.5 apart, more than E1 allows"


def test_nothing_is_launched_that_cannot_end_in_time(monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(runner.time, "monotonic", lambda: float(next(clock)))
    bench = FakeBench({"A": 2.0}, limit=60.0)
    found = bench.measure([row("A")])
    assert 1 <= bench.launches < 5
    assert verdicts(found) == {"A": Verdict.NOT_MEASURED}


def test_an_interrupted_bench_says_what_is_known():
    bench = FakeBench({"A": KeyboardInterrupt()})
    assert verdicts(bench.measure([row("A")])) == {"A": Verdict.NOT_MEASURED}
    assert bench.interrupted


def test_a_row_that_needs_a_gpu_is_not_launched():
    bench = FakeBench({"A": 2.0})
    found = bench.measure([row("A"), row("B", unfit="a CPU copies at once")])
    assert found[1].why == "a CPU copies at once"
    assert found[1].verdict is Verdict.NOT_MEASURED
    assert all(keys == {"A"} for keys in bench.asked)
