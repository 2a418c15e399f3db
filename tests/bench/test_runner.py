"""Launches go on until every row is judged; what goes wrong stays with its own row."""

from __future__ import annotations

import random
import time

import pytest

from torchlint.bench import runner
from torchlint.bench.model import Arm, Check, Measured, Pair, Row
from torchlint.errors import TorchlintError
from torchlint.rule import Level
from torchlint.verify.model import Verdict

FINE = {"difference": 0.0, "equal": True, "allowed": True, "itself": 0.0}


def row(code, unfit="", **more):
    return Measured(Row(code, "a-rule", "", "step", "", "", None, Level.E1, unfit, **more))


def arm(seconds):
    return {"wall": seconds, "cpu": seconds, "gpu": None, "memory": None, "host": None}


class FakeServer:
    """Gives what a plan says of a row: how many times faster, or the words that are said."""

    def __init__(self, plan):
        self.rng = random.Random(0)  # noqa: S311
        self.plan, self.asked, self.closed = plan, [], False

    def write(self, _number, one):
        return {"key": one.key}

    def close(self):
        self.closed = True

    def ask(self, job, _until):
        self.asked.append(job)
        said = self.plan[job["key"]]
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, float):
            noise = self.rng.gauss(1, 0.001)
            said = {"before": arm(said * noise), "after": arm(1.0), "done": True, "ended": 0}
        if job["check"]:
            yield {"check": FINE}
        yield {"stack": "", "said": "", **said}


class Told:
    """A bench with a fake server, and what it tells."""

    def __init__(self, plan, limit=1e6, start=None):
        self.server, self.events = FakeServer(plan), []
        self.bench = runner.Bench(
            start or (lambda: self.server),
            "cpu",
            time.monotonic() + limit,
            lambda *_: None,
            lambda what, one, why: self.events.append((what, one.row.code, why)),
        )

    def measure(self, *rows):
        self.bench.measure(rows)
        return {one.row.code: one.verdict for one in rows}

    def asked(self):
        return [job["key"] for job in self.server.asked]


def test_rows_are_launched_until_they_are_judged_and_no_longer():
    told = Told({"A": 2.0, "B": 1.0, "C": 0.5, "D": 1.05})
    rows = [row("A"), row("B"), row("C"), row("D")]
    assert told.measure(*rows) == {
        "A": Verdict.FASTER, "B": Verdict.NO_CHANGE, "C": Verdict.SLOWER, "D": Verdict.FASTER,
    }  # fmt: skip
    assert {len(one.pairs) for one in rows} == {3}
    assert rows[0].interval.low == pytest.approx(2.0, rel=0.01)
    assert told.server.closed


def test_only_the_first_launch_of_a_row_checks_its_results():
    told = Told({"A": 2.0})
    told.measure(row("A"))
    assert [job["check"] for job in told.server.asked] == [True, False, False]


def test_the_clock_of_a_gpu_is_brought_up_in_each_launch_and_longest_in_the_first():
    told = Told({"A": 2.0})
    told.measure(row("A"))
    first, *others = [job["warm"] for job in told.server.asked]
    assert first > min(others) > 0


def test_a_group_gets_its_pairs_before_the_next_one_begins():
    codes = [f"R{number:02}" for number in range(runner.GROUP + 2)]
    told = Told(dict.fromkeys(codes, 2.0))
    told.measure(*map(row, codes))
    first = 3 * runner.GROUP
    assert set(told.asked()[:first]) == set(codes[: runner.GROUP])
    assert set(told.asked()[first:]) == set(codes[runner.GROUP :])


def test_a_quick_run_sees_each_row_before_it_sees_one_again():
    codes = [f"R{number:02}" for number in range(runner.GROUP + 2)]
    told = Told(dict.fromkeys(codes, 2.0))
    told.measure(*(row(code, quick=True) for code in codes))
    assert set(told.asked()[: len(codes)]) == set(codes)
    assert told.server.asked[0]["warm"] == 0.0


def test_groups_begin_with_the_lowest_rank_and_the_cheapest_row():
    rows = [row("A", rank=3), row("B", rank=0, workers=True), row("C", rank=0)]
    dear = row("D", rank=0)
    dear.seconds = 9.0
    (group,) = runner.groups([dear, *rows], 8)
    assert [one.row.code for one in group] == ["C", "B", "D", "A"]


def test_time_left_goes_where_a_verdict_is_near():
    near, far = row("A"), row("B")
    sure = Check(**FINE)
    for one, ratios in ((near, (1.6, 1.7, 1.8)), (far, (0.7, 1.0, 1.5))):
        one.pairs = [Pair(Arm(ratio, ratio), Arm(1.0, 1.0)) for ratio in ratios]
        one.check, one.seconds = sure, 1.0
    told = Told({"A": 1.7, "B": 1.0})
    told.measure(near, far)
    assert set(told.asked()[: told.asked().index("B")]) == {"A"}


@pytest.mark.parametrize(
    ("said", "what", "why"),
    [
        ({"error": "Traceback\nValueError: no", "ended": 1}, "failed", "ValueError: no"),
        ({"ended": -9}, "failed", "ended by SIGKILL: it said nothing"),
        ({"ended": 3, "said": "first\nlast"}, "failed", "ended with 3: last"),
        ({"ended": "hung", "stack": "File x, line 3"}, "hung", "nothing for 20 s\nFile x, line 3"),
        ({"check": {**FINE, "difference": 0.5, "allowed": False}, "ended": 0},
         "changes results", "0.5 apart, more than E1 allows"),
        ({"check": {**FINE, "difference": None, "allowed": False}, "ended": 0},
         "changes results", "cannot be compared; E1 does not allow that"),
    ],
)  # fmt: skip
def test_a_row_that_goes_wrong_is_told_once_and_the_others_are_measured(said, what, why):
    told = Told({"A": said, "B": 2.0})
    first, second = row("A"), row("B")
    told.measure(first, second)
    assert first.is_wrong
    assert why in first.why
    assert (what, "A", first.why) in told.events
    assert (second.verdict, told.asked().count("A")) == (Verdict.FASTER, 1)


@pytest.mark.parametrize("ended", [-11, 1, "hung"])
def test_an_answer_counts_however_the_process_ends(ended):
    said = {"before": arm(2.0), "after": arm(1.0), "done": True, "ended": ended}
    told = Told({"A": said})
    assert told.measure(row("A")) == {"A": Verdict.FASTER}
    assert len([what for what, *_ in told.events if what == "pair"]) == 3
    assert len(told.events) == 6  # and that of its end


def test_a_server_that_dies_costs_the_row_that_it_served():
    dead = TorchlintError("python ended with -9")
    servers = [FakeServer({"A": dead, "B": dead}), FakeServer({"A": 2.0, "B": 2.0})]
    told = Told({}, start=lambda: servers.pop(0))
    found = told.measure(row("A"), row("B"))  # in random order
    assert set(found.values()) == {Verdict.FAILED, Verdict.FASTER}


def test_nothing_is_launched_that_cannot_end_in_time():
    quick, slow = row("A"), row("B")
    quick.seconds, slow.seconds = 0.001, 60.0
    told = Told({"A": 2.0, "B": 2.0}, limit=30.0)
    assert told.measure(quick, slow) == {"A": Verdict.FASTER, "B": Verdict.NOT_MEASURED}
    assert "B" not in told.asked()


def test_a_row_that_was_stopped_by_the_end_of_the_time_has_not_failed():
    told = Told({})

    def ask(*_):
        told.bench.ends = 0.0
        yield {"ended": "stopped"}

    told.server.ask = ask
    assert told.measure(row("A")) == {"A": Verdict.NOT_MEASURED}
    assert told.events == [("stopped", "A", "the time was over")]


def test_an_interrupted_bench_says_what_is_known():
    told = Told({"A": KeyboardInterrupt()})
    assert told.measure(row("A")) == {"A": Verdict.NOT_MEASURED}
    assert told.bench.interrupted
    assert told.server.closed


def test_what_cannot_act_here_is_left_out_by_name():
    told = Told({"A": 2.0})
    one = row("B", unfit="a CPU copies at once")
    assert told.measure(row("A"), one)["B"] is Verdict.NOT_MEASURED
    assert one.why == "a CPU copies at once"
    assert ("left out", "B", one.why) in told.events
    assert set(told.asked()) == {"A"}
