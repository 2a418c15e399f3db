"""What is run, in which order and how often, and what is said of it: with runs that are made up."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from torchlint.edits import Safety
from torchlint.errors import TorchlintError
from torchlint.rule import Level
from torchlint.verify.errors import anchor_of, check_pilot
from torchlint.verify.model import (
    Anchor,
    Bounds,
    Command,
    Configuration,
    Ending,
    Phase,
    Record,
    Run,
    Trace,
    Verdict,
)
from torchlint.verify.session import Limits, Session
from torchlint.verify.verification import verification

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from torchlint.verify.session import Comparison

STEP = 0.01  # seconds of a step as it is
FILE = "train.py"


@dataclass
class FakeExecutor:
    """Runs whose steps take as long as the fixes in them say, with a little noise.

    ``factors`` multiply the step time; ``losses`` replaces those of sets of fixes; what ``breaks``
    says of a set of fixes fails.
    """

    factors: dict[str, float] = field(default_factory=dict)
    breaks: Callable[[frozenset[str]], bool] = lambda _: False
    changes: Callable[[frozenset[str]], bool] = lambda _: False
    reached: bool = True
    noise: float = 0.001
    workers: int = 0
    stop_after: int | None = None
    seconds: float = 0.0
    log: list[tuple[str, str]] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        self.log.append((phase.value, configuration.name))
        return self._made(configuration, phase, bounds)

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run, Run]:
        self.log.append(("lockstep", second.name))
        return self._made(first, Phase.TIMING, bounds), self._made(second, Phase.TIMING, bounds)

    def _made(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        if self.stop_after is not None and len(self.log) > self.stop_after:
            raise KeyboardInterrupt
        self.seconds += 1
        codes = frozenset(configuration.codes)
        if self.breaks(codes):
            return Run(configuration.name, phase, Ending.FAILED, 1, "ValueError: no", 1.0, 1, ())
        step = STEP * self.rng.gauss(1, self.noise)
        for code in codes:
            step *= self.factors.get(code, 1.0)
        times = tuple(1.0 + step * k for k in range(bounds.steps))
        loss = 2.0 if self.changes(codes) else 1.0 + bounds.reseed * 1e-9
        trace = Trace((loss,) * 20, ("b",) * 20, "i", str(loss), (loss,), "r", ())
        record = Record(
            rank=0,
            world=1,
            ended="bound",
            device="cpu",
            torch="2.13.0",
            steps=(times,),
            optimizers=("SGD",),
            backwards=times,
            waits=(),
            start=0.0,
            workers=self.workers,
            turns=(step * 8,) * 6,
            reached={FILE: {1: 5 * self.reached}},
            modules=(f"/copy/{FILE}",),
            trace=trace if phase is Phase.TRACE else None,
        )
        return Run(configuration.name, phase, Ending.BOUND, 0, "", 1.0, 1, (record,))


@dataclass
class FakeFixer:
    """Fixes by their codes alone; those of ``unsafe`` are unsafe and declare their level."""

    command: Command
    unsafe: dict[str, Level] = field(default_factory=dict)

    def keep_to(self, names: Collection[str]) -> None:  # noqa: ARG002
        raise AssertionError("the only file is imported")

    def before(self) -> Configuration:
        return Configuration("before", (), {}, {}, None, Level.E0)

    def with_codes(self, codes: Sequence[str], name: str = "") -> Configuration:
        key = tuple(sorted(codes))
        level = max((self.unsafe.get(code, Level.E0) for code in key), default=Level.E0)
        safety = Safety.UNSAFE if any(code in self.unsafe for code in key) else Safety.SAFE
        lines = {FILE: frozenset({1})}
        return Configuration(name or "+".join(key), key, {FILE: b""}, lines, safety, level)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path / "python", tmp_path / FILE, None, (), (), tmp_path, tmp_path)


def session(command: Command, executor: FakeExecutor, **unsafe: Level) -> Session:
    return Session(
        executor,
        FakeFixer(command, unsafe),  # type: ignore[arg-type]
        Limits(1e6, 5, 15, None),
        lambda *_: None,
        clock=lambda: executor.seconds,
        rng=random.Random(1),  # noqa: S311
    )


def verify(made: Session, *codes: str):
    return verification(made, [made.fixer.with_codes((code,)) for code in codes])


def verdicts(report) -> dict[str, Verdict]:
    return {result.configuration.name: result.verdict for result in report.singles}


def test_each_fix_gets_its_verdict_and_the_fast_ones_are_kept(command: Command) -> None:
    executor = FakeExecutor({"TL1": 0.8, "TL2": 1.25})
    report = verify(session(command, executor, TL2=Level.E1, TL3=Level.E1), "TL1", "TL2", "TL3")
    assert verdicts(report) == {
        "TL1": Verdict.FASTER,
        "TL2": Verdict.SLOWER,
        "TL3": Verdict.NO_CHANGE,
    }
    assert report.kept == ("TL1",)
    assert [result.keep for result in report.singles] == [True, False, False]


def test_the_interval_holds_the_truth(command: Command) -> None:
    report = verify(session(command, FakeExecutor({"TL1": 0.8})), "TL1")
    interval = report.singles[0].judgement.interval
    assert interval.low < 1.25 < interval.high
    assert interval.high - interval.low < 0.02


def test_runs_take_turns_where_the_pilot_allows_it(command: Command) -> None:
    executor = FakeExecutor()
    assert verify(session(command, executor), "TL1").mode == "lockstep"
    assert ("lockstep", "TL1") in executor.log


def test_with_workers_runs_follow_one_another_in_random_order(command: Command) -> None:
    executor = FakeExecutor({"TL1": 0.8}, workers=2)
    report = verify(session(command, executor), "TL1", "TL2")
    assert report.mode == "sequential"
    timed = [name for phase, name in executor.log if phase == "timing"]
    assert timed.count("before") >= 5
    firsts = {tuple(timed[k : k + 4]) for k in range(0, 12, 4)}
    assert len(firsts) > 1


def test_the_mode_asked_for_holds(command: Command) -> None:
    made = session(command, FakeExecutor())
    made.mode = "sequential"
    assert verify(made, "TL1").mode == "sequential"


def test_a_fix_that_breaks_the_script_is_neither_timed_nor_kept(command: Command) -> None:
    executor = FakeExecutor(breaks=lambda codes: "TL1" in codes)
    report = verify(session(command, executor), "TL1", "TL2")
    result = report.singles[0]
    assert result.verdict is Verdict.FAILED
    assert "ValueError: no" in result.why
    assert ("lockstep", "TL1") not in executor.log
    assert report.kept == ("TL2",)


def test_a_safe_fix_that_changes_results_is_called_a_bug(command: Command) -> None:
    executor = FakeExecutor({"TL1": 0.5}, changes=lambda codes: "TL1" in codes)
    report = verify(session(command, executor), "TL1")
    result = report.singles[0]
    assert result.verdict is Verdict.CHANGES_RESULTS
    assert "bug of torchlint" in result.why
    assert ("lockstep", "TL1") not in executor.log


def test_a_fix_that_is_meant_to_change_results_is_told_and_not_kept(command: Command) -> None:
    executor = FakeExecutor({"TL1": 0.5}, changes=lambda codes: "TL1" in codes)
    report = verify(session(command, executor, TL1=Level.E3), "TL1")
    assert report.singles[0].verdict is Verdict.CHANGES_RESULTS
    assert "bug" not in report.singles[0].why
    assert report.kept == ()


def test_keep_going_times_what_changes_results(command: Command) -> None:
    executor = FakeExecutor(changes=lambda codes: "TL1" in codes)
    made = session(command, executor)
    made.keep_going = True
    assert verify(made, "TL1").singles[0].verdict is Verdict.CHANGES_RESULTS
    assert ("lockstep", "TL1") in executor.log


def test_fixed_lines_that_never_run(command: Command) -> None:
    executor = FakeExecutor(reached=False)
    report = verify(session(command, executor), "TL1")
    assert report.singles[0].verdict is Verdict.NOT_EXERCISED
    assert ("trace", "TL1") not in executor.log


def test_fixes_that_only_fail_together(command: Command) -> None:
    executor = FakeExecutor(
        {"TL1": 0.7, "TL2": 0.9, "TL3": 0.8}, breaks=lambda codes: {"TL2", "TL3"} <= codes
    )
    report = verify(session(command, executor), "TL1", "TL2", "TL3", "TL4")
    assert report.together is not None
    assert report.together.verdict is Verdict.FAILED
    assert report.kept == ("TL1", "TL3", "TL4")
    assert report.kept_result is not None
    assert report.kept_result.verdict is Verdict.FASTER
    assert "together with TL3" in report.singles[1].why


def test_time_that_is_over_leaves_the_rest_not_measured(command: Command) -> None:
    made = session(command, FakeExecutor())
    made.limits = replace(made.limits, seconds=4)
    report = verify(made, "TL1", "TL2")
    assert set(verdicts(report).values()) == {Verdict.NOT_MEASURED}
    assert report.kept == ()


def test_in_lockstep_all_together_are_settled_first_and_then_one_after_the_other(
    command: Command,
) -> None:
    made = session(command, FakeExecutor({"TL2": 0.5}))
    made.limits = replace(made.limits, seconds=7 + 4 * 5)  # the pilot, six traces, two verdicts
    report = verify(made, "TL1", "TL2", "TL3")
    assert report.together is not None
    assert report.together.verdict is Verdict.FASTER
    assert verdicts(report) == {
        "TL1": Verdict.NO_CHANGE,
        "TL2": Verdict.NOT_MEASURED,
        "TL3": Verdict.NOT_MEASURED,
    }


def test_nothing_is_begun_after_the_time(command: Command) -> None:
    executor = FakeExecutor(noise=0.3)
    made = session(command, executor)
    made.limits = replace(made.limits, seconds=20)
    verify(made, "TL1", "TL2")
    assert executor.seconds <= 22


@pytest.mark.parametrize("late", [0.02, 0.5], ids=["a little late", "much too late"])
def test_fixes_are_tried_together_though_the_time_is_just_over(
    command: Command, monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """Measured one by one until then: without that one trace only one could be recommended."""
    executor = FakeExecutor({"TL1": 0.7, "TL2": 0.8, "TL3": 1.3})
    made = session(command, executor, TL3=Level.E1)
    made.limits = replace(made.limits, seconds=100)
    times = Session.time

    def slowly(session: Session, wanted: Sequence[Comparison]) -> None:
        times(session, wanted)
        executor.seconds = max(executor.seconds, 100 * (1 + late))

    monkeypatch.setattr(Session, "time", slowly)
    report = verify(made, "TL1", "TL2", "TL3")
    assert report.kept == (("TL1", "TL2") if late < 0.1 else ("TL1",))
    if late > 0.1:
        assert "not tried together with TL1, as the time was over" in report.singles[1].why


def test_ctrl_c_gives_what_is_known(command: Command) -> None:
    executor = FakeExecutor({"TL1": 0.5}, stop_after=6)
    report = verify(session(command, executor), "TL1", "TL2")
    assert report.interrupted
    assert report.singles[0].agreement is not None
    assert report.kept == ()


def test_ctrl_c_in_the_pilot_ends_it(command: Command) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(session(command, FakeExecutor(stop_after=0)), "TL1")


def test_a_script_that_fails_as_it_is(command: Command) -> None:
    executor = FakeExecutor(breaks=lambda codes: not codes)
    with pytest.raises(TorchlintError, match=r"fails as it is \(exit code 1\)[^Z]*ValueError: no"):
        verify(session(command, executor), "TL1")


def test_a_noisy_machine_says_so(command: Command) -> None:
    report = verify(session(command, FakeExecutor(noise=0.4)), "TL1")
    assert report.singles[0].verdict is Verdict.NOISY
    assert report.kept == ()


def record(**fields: object) -> Record:
    made = {"rank": 0, "world": 1, "ended": "bound", "device": "cpu", "torch": "2.13.0"}
    made |= {"optimizers": (), "waits": (), "start": 0.0, "workers": 0}
    return Record(**{"steps": (), "backwards": (), **made, **fields})


def pilot(*records: Record, ending: Ending = Ending.BOUND) -> Run:
    return Run("before", Phase.PILOT, ending, 0, "", 1.0, 1, records)


def test_a_step_is_one_of_the_optimizer_that_steps_least_often() -> None:
    often, seldom = tuple(range(1, 21)), (5.0, 10.0, 15.0, 20.0)
    found = anchor_of(pilot(record(steps=(often, seldom), backwards=often)))
    assert found == Anchor("optimizer", 1)


def test_an_optimizer_that_steps_no_more_is_not_the_anchor() -> None:
    often = tuple(range(1, 21))
    found = anchor_of(pilot(record(steps=((1.0, 2.0), often), backwards=often)))
    assert found == Anchor("optimizer", 1)


def test_without_an_optimizer_a_backward_is_a_step() -> None:
    assert anchor_of(pilot(record(backwards=(1.0, 2.0, 3.0)))) == Anchor("backward")


def test_gradients_may_come_without_a_backward() -> None:
    assert anchor_of(pilot(record(steps=((1.0, 2.0, 3.0),)))) == Anchor("optimizer", 0)


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (pilot(), "without a single optimizer step or backward pass"),
        (pilot(record(backwards=(1.0,))), "after fewer than two optimizer steps"),
        (pilot(record(), ending=Ending.TIMEOUT), "no two optimizer steps in 1 s"),
    ],
    ids=["never steps", "steps once", "no end"],
)
def test_a_script_without_steps(run: Run, complaint: str) -> None:
    with pytest.raises(TorchlintError, match=complaint):
        check_pilot(run)
