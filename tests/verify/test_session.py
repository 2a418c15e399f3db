"""What is run, in which order and how often, and what is said of it: with runs that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from session_tools import COMMAND, FakeExecutor, FakeFixer, session, verdicts, verify

from torchlint.errors import TorchlintError
from torchlint.rule import Level, Needs
from torchlint.verify import launches, statistics
from torchlint.verify import session as sessions
from torchlint.verify.errors import anchor_of, check_pilot
from torchlint.verify.known import Measuring
from torchlint.verify.model import Anchor, Ending, Phase, Record, Run, Verdict
from torchlint.verify.session import Session


def test_each_fix_gets_its_verdict_and_the_fast_ones_are_kept() -> None:
    executor = FakeExecutor({"TL1": 0.8, "TL2": 1.25})
    report = verify(session(executor, TL2=Level.E1, TL3=Level.E1), "TL1", "TL2", "TL3")
    assert verdicts(report) == {
        "TL1": Verdict.FASTER,
        "TL2": Verdict.SLOWER,
        "TL3": Verdict.NO_CHANGE,
    }
    assert report.kept == ("TL1",)
    assert [result.keep for result in report.singles] == [True, False, False]


def test_the_interval_holds_the_truth() -> None:
    report = verify(session(FakeExecutor({"TL1": 0.8})), "TL1")
    interval = report.singles[0].judgement.interval
    assert interval.low < 1.25 < interval.high
    assert interval.high - interval.low < 0.05


def test_all_together_are_traced_and_settled_before_any_single_is_traced() -> None:
    executor = FakeExecutor({"TL1": 0.5})
    verify(session(executor), "TL1", "TL2", "TL3")
    first = executor.log.index(("trace", "TL1"))
    assert executor.log[:3] == [("pilot", "before"), ("trace", "before"), ("trace", "all")]
    assert executor.log[:first].count(("lockstep", "all")) == statistics.FEWEST
    assert ("lockstep", "all") not in executor.log[first:]
    timed = executor.log.index(("lockstep", "TL1"))
    assert timed < executor.log.index(("trace", "TL2"))


def test_the_script_is_timed_against_itself_early() -> None:
    executor = FakeExecutor()
    made = session(executor)
    verify(made, "TL1")
    timed = [name for phase, name in executor.log if phase == "lockstep"]
    assert timed[:4] == ["TL1", "before", "before", "TL1"]
    assert timed.count("before") == sessions.ITSELF == len(made.itself["lockstep"])


def test_no_time_is_spent_on_that_where_there_is_little() -> None:
    executor = FakeExecutor({"TL1": 0.3})
    report = verify(session(executor, seconds=20), "TL1")
    assert report.singles[0].verdict is Verdict.FASTER
    assert ("lockstep", "before") not in executor.log


def test_how_many_may_be_judged_is_fixed_before_the_first_pair() -> None:
    made = session(FakeExecutor({f"TL{k}": 0.97 for k in range(8)}))
    verify(made, *(f"TL{k}" for k in range(8)))
    assert len(made.comparisons) <= made.expected == 8 + 1 + 6


def test_a_bitwise_equal_trace_needs_no_second_one_of_the_script() -> None:
    for changes, count in ((False, 1), (True, 3)):  # the third has another seed
        executor = FakeExecutor(changes=lambda codes, changes=changes: changes and bool(codes))
        verify(session(executor), "TL1")
        assert executor.log.count(("trace", "before")) == count


def test_runs_take_turns_where_the_pilot_allows_it() -> None:
    executor = FakeExecutor()
    assert verify(session(executor), "TL1").mode == "lockstep"
    assert ("lockstep", "TL1") in executor.log


def test_with_workers_runs_follow_one_another_in_random_order() -> None:
    executor = FakeExecutor({"TL1": 0.8}, workers=lambda _: True)
    made = session(executor)
    report = verify(made, "TL1", "TL2")
    assert report.mode == "sequential"
    timed = [name for phase, name in executor.log if phase == "timing"]
    blocks = [timed[k : k + 3] for k in (0, 3)]
    assert [sorted(block) for block in blocks] == [["all", "before", "before"]] * 2
    assert len(made.itself["sequential"]) == sessions.ITSELF
    shared = [timed[k : k + 3] for k in range(len(timed)) if timed[k] in ("TL1", "TL2")]
    assert {tuple(sorted(block)) for block in shared} >= {("TL1", "TL2", "before")}


def test_a_fix_that_brings_workers_is_never_timed_in_turns() -> None:
    executor = FakeExecutor({"TL1": 0.5}, workers=lambda codes: "TL1" in codes)
    report = verify(session(executor), "TL1", "TL2")
    assert report.singles[0].verdict is Verdict.FASTER
    assert {name for phase, name in executor.log if phase == "lockstep"} == {"TL2", "before"}
    assert {sample.mode for sample in report.singles[0].judgement.samples} == {"sequential"}


def test_the_mode_asked_for_holds() -> None:
    made = session(FakeExecutor())
    made.mode = "sequential"
    assert verify(made, "TL1").mode == "sequential"


def test_a_fix_that_breaks_the_script_is_neither_timed_nor_kept() -> None:
    executor = FakeExecutor(breaks=lambda codes: "TL1" in codes)
    report = verify(session(executor), "TL1", "TL2")
    result = report.singles[0]
    assert result.verdict is Verdict.FAILED
    assert "ValueError: no" in result.why
    assert ("lockstep", "TL1") not in executor.log
    assert report.kept == ("TL2",)


def test_a_fix_that_fails_is_found_among_many_with_few_traces_and_the_rest_is_timed() -> None:
    executor = FakeExecutor({"TL7": 0.5}, breaks=lambda codes: "TL5" in codes)
    report = verify(session(executor), *(f"TL{k}" for k in range(8)))
    before_timing = executor.log[: executor.log.index(("lockstep", "before")) - 1]
    assert len(before_timing) < 2 + 8
    assert report.singles[5].verdict is Verdict.FAILED
    assert report.together is not None
    assert "TL5" not in report.together.configuration.codes
    assert report.together.verdict is Verdict.FASTER


def test_a_safe_fix_that_changes_results_is_called_a_bug() -> None:
    executor = FakeExecutor({"TL1": 0.5}, changes=lambda codes: "TL1" in codes)
    report = verify(session(executor), "TL1")
    result = report.singles[0]
    assert result.verdict is Verdict.CHANGES_RESULTS
    assert "bug of torchlint" in result.why
    assert ("lockstep", "TL1") not in executor.log


def test_a_fix_that_is_meant_to_change_results_is_told_and_not_kept() -> None:
    executor = FakeExecutor({"TL1": 0.5}, changes=lambda codes: "TL1" in codes)
    report = verify(session(executor, TL1=Level.E3), "TL1")
    assert report.singles[0].verdict is Verdict.CHANGES_RESULTS
    assert "bug" not in report.singles[0].why
    assert report.kept == ()


def test_keep_going_times_what_changes_results() -> None:
    executor = FakeExecutor(changes=lambda codes: "TL1" in codes)
    made = session(executor)
    made.keep_going = True
    assert verify(made, "TL1").singles[0].verdict is Verdict.CHANGES_RESULTS
    assert ("lockstep", "TL1") in executor.log


def test_fixed_lines_that_never_run() -> None:
    executor = FakeExecutor(reached=False)
    report = verify(session(executor), "TL1")
    assert report.singles[0].verdict is Verdict.NOT_EXERCISED
    assert ("trace", "TL1") not in executor.log


def test_fixes_that_only_fail_together() -> None:
    executor = FakeExecutor(
        {"TL1": 0.7, "TL2": 0.9, "TL3": 0.8}, breaks=lambda codes: {"TL2", "TL3"} <= codes
    )
    report = verify(session(executor), "TL1", "TL2", "TL3", "TL4")
    assert report.together is not None
    assert report.together.verdict is Verdict.FAILED
    assert report.kept == ("TL1", "TL3", "TL4")
    assert report.kept_result is not None
    assert report.kept_result.verdict is Verdict.FASTER
    assert "together with TL3" in report.singles[1].why


def test_a_fix_that_cannot_act_on_this_machine_is_named_and_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs = {"TL1": Needs.GPU, "TL2": Needs.GPUS, "TL3": Needs.NOTHING}
    monkeypatch.setattr(sessions, "needs_of", needs.__getitem__)
    executor = FakeExecutor({"TL1": 0.5}, gpus=1)
    report = verify(session(executor), "TL1", "TL2", "TL3")
    assert report.unfit == (("TL2", "it acts on several GPUs only"),)
    assert report.together is not None
    assert report.together.configuration.codes == ("TL1", "TL3")
    assert list(verdicts(report)) == ["TL1", "TL3"]

    executor = FakeExecutor()
    report = verify(session(executor), "TL1", "TL2")
    assert [code for code, _ in report.unfit] == ["TL1", "TL2"]
    assert (report.singles, report.kept, executor.log) == ((), (), [("pilot", "before")])
    told = {caution.kind: caution.text for caution in report.cautions}["nothing-fits"]
    assert told.endswith("TL1 (it acts on a GPU only), TL2 (it acts on several GPUs only)")


def test_needs_are_those_of_the_rule() -> None:
    assert sessions.needs_of("TL802") in Needs
    assert sessions.needs_of("XY999") is Needs.NOTHING


def test_time_that_is_over_leaves_the_rest_not_measured() -> None:
    report = verify(session(FakeExecutor(), seconds=4), "TL1", "TL2")
    assert set(verdicts(report).values()) == {Verdict.NOT_MEASURED}
    assert {one.why for one in report.singles} == {
        "not timed: the budget went to what was nearer to a verdict"
    }
    assert report.kept == ()


def test_fixes_that_are_good_alone_are_not_recommended_together_untimed() -> None:
    """The time is over when each has its verdict: the fastest one alone is proved."""
    executor = FakeExecutor({"TL1": 0.7, "TL2": 0.8, "TL3": 1.6})
    made = session(executor, TL3=Level.E1)
    singles = made.begin([made.fixer.with_codes((code,)) for code in ("TL1", "TL2", "TL3")])
    known = [made.with_codes(one.codes) for one in singles]
    for one in known:
        made.trace(one)
    made.time([made.compare(made.before, one) for one in known])
    made.limits = made.launches.limits = replace(made.limits, seconds=executor.seconds)
    from torchlint.verify.verification import _choose, _report  # noqa: PLC0415

    report = _report(made, singles, _choose(made, singles), interrupted=False)
    assert report.kept == ("TL1",)
    assert "not tried together with TL1, as the time was over" in report.singles[1].why


@pytest.mark.parametrize("seed", range(4))
def test_a_fix_found_slower_late_is_left_out(seed: int) -> None:
    """The halves that are looked at before leave a place for the others together."""
    codes = [f"TL{k}" for k in range(10)]
    executor = FakeExecutor({**dict.fromkeys(codes, 1 / 1.2), "TL2": 1.2}, noise=0.001)
    report = verify(session(executor, seed=seed), *codes)
    assert report.singles[2].verdict is Verdict.SLOWER
    assert report.kept == tuple(code for code in codes if code != "TL2")


def test_a_hanging_run_costs_its_own_time_once_and_the_others_go_on() -> None:
    executor = FakeExecutor({"TL2": 0.5}, hangs=lambda codes: "TL1" in codes)
    report = verify(session(executor, seconds=400), "TL1", "TL2")
    failed, other = report.singles
    assert failed.verdict is Verdict.FAILED
    assert failed.why.startswith("the script with it did not come to an end in")
    assert "(expected " in failed.why
    assert other.verdict is Verdict.FASTER
    assert [name for _, name in executor.log].count("TL1") == 1


def test_a_run_is_killed_after_what_the_pilot_makes_plausible() -> None:
    executor = FakeExecutor(hangs=bool)
    verify(session(executor, seconds=60), "TL1")
    assert executor.bounds[-1].seconds == pytest.approx(20 + 5 * executor.bounds[-1].expected)
    verify(session(executor, seconds=10_000), "TL1")
    assert executor.bounds[-1].seconds == launches.COMPILING


@pytest.mark.parametrize("at", [45, 90])
def test_a_script_that_fails_by_itself_is_not_a_fix_that_fails(at: int) -> None:
    """In the trace or when it is timed: it is run as far without fixes."""
    executor = FakeExecutor({"TL1": 0.5}, fails_at=at)
    report = verify(session(executor), "TL1", "TL2")
    assert verdicts(report) == {"TL1": Verdict.FASTER, "TL2": Verdict.NO_CHANGE}
    assert report.bounds.steps == at
    told = {caution.kind: caution for caution in report.cautions}["fails-by-itself"]
    assert told.text == (
        f"the script fails by itself at step {at + 1} (exit code 1): ValueError: by itself"
    )


def test_a_fix_that_fails_late_is_blamed_where_the_script_goes_further() -> None:
    executor = FakeExecutor(breaks=lambda codes: "TL1" in codes, breaks_at=90)
    report = verify(session(executor), "TL1", "TL2")
    assert report.singles[0].verdict is Verdict.FAILED
    assert "fails-by-itself" not in {caution.kind for caution in report.cautions}


def test_a_script_that_ends_by_itself_is_started_more_often() -> None:
    """Eight minutes are not over after 25 s because a script makes ten steps."""
    executor = FakeExecutor(noise=0.3, ends_at=10)
    report = verify(session(executor, seconds=480), "TL1")
    assert report.mode == "sequential"
    assert (report.bounds.steps, report.bounds.warmup) == (10, 3)
    assert len(report.singles[0].judgement.samples) == 40


def test_the_end_of_a_script_may_be_found_after_the_pilot() -> None:
    executor = FakeExecutor({"TL1": 0.5}, ends_at=60)
    report = verify(session(executor), "TL1")
    assert report.mode == "lockstep"
    assert report.bounds.steps == 60
    assert report.singles[0].verdict is Verdict.FASTER


def test_every_run_and_pair_is_told() -> None:
    told = []
    made = session(FakeExecutor({"TL1": 0.5}))
    made.note = lambda what, values: told.append((what, values))
    verify(made, "TL1")
    runs = [values for what, values in told if what == "run"]
    pairs = [values for what, values in told if what == "pair"]
    assert [values["phase"] for values in runs[:3]] == ["pilot", "trace", "trace"]
    assert {values["ending"] for values in runs} == {"bound"}
    last = pairs[-1]
    assert (last["first"], last["second"], last["pairs"]) == ([], ["TL1"], 3)
    assert last["before"] / last["after"] == pytest.approx(2, rel=0.1)


def test_ctrl_c_gives_what_is_known() -> None:
    report = verify(session(FakeExecutor({"TL1": 0.5}, stop_after=6)), "TL1", "TL2")
    assert report.interrupted
    assert report.together is not None
    assert report.together.agreement is not None
    assert report.kept == ()


def test_ctrl_c_in_the_pilot_ends_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(session(FakeExecutor(stop_after=0)), "TL1")


def test_a_script_that_fails_as_it_is() -> None:
    executor = FakeExecutor(breaks=lambda codes: not codes)
    with pytest.raises(TorchlintError, match=r"fails as it is \(exit code 1\)[^Z]*ValueError: no"):
        verify(session(executor), "TL1")


def test_a_noisy_machine_says_so() -> None:
    report = verify(session(FakeExecutor(noise=0.4)), "TL1")
    assert report.singles[0].verdict is Verdict.NOISY
    assert report.kept == ()


def test_a_session_can_be_driven_step_by_step() -> None:
    """As the benchmark of whole scripts does."""
    executor = FakeExecutor({"TL1": 0.5})
    made = Session(executor, FakeFixer(COMMAND), session(executor).limits, lambda *_: None)  # type: ignore[arg-type]
    made.clock = lambda: executor.seconds
    (one,) = made.begin([made.fixer.with_codes(("TL1",))])
    known = made.with_codes(one.codes)
    made.trace(known)
    assert made.may_be_timed(known)
    made.time([made.compare(made.before, known)])
    assert made.result(known).verdict is Verdict.FASTER
    assert isinstance(made.how, Measuring)


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
        (
            pilot(record(steps=((1.0, 2.0, 3.0),)), ending=Ending.FINISHED),
            "made 3 optimizer steps; at least 4 are needed; give it .* longer, such as --epochs",
        ),
        (
            pilot(record(steps=((1.0,),))),
            "made 1 optimizer step in 1 s; at least 4 are needed; .*more --time-budget",
        ),
        (pilot(record(), ending=Ending.TIMEOUT), "the script made no optimizer steps in 1 s"),
    ],
    ids=["never steps", "few steps", "slow", "no end"],
)
def test_a_script_without_steps(run: Run, complaint: str) -> None:
    with pytest.raises(TorchlintError, match=complaint):
        check_pilot(run)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (2, "usage: train.py --data DATA\ntrain.py: error: unrecognized arguments: x"),
        (1, "error: the following arguments are required: --data"),
    ],
)
def test_a_script_that_lacks_its_arguments(code: int, said: str) -> None:
    run = replace(pilot(ending=Ending.FAILED), code=code, stderr=said)
    with pytest.raises(TorchlintError, match="its own arguments after `--`"):
        check_pilot(run)


def test_another_failure_is_to_be_mended() -> None:
    run = replace(pilot(ending=Ending.FAILED), code=2, stderr="out of memory")
    with pytest.raises(TorchlintError, match=r"exit code 2\); mend it"):
        check_pilot(run)
