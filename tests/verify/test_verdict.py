"""What comes first in a verdict, and the words for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from statistics_tools import agreement, configuration, judged, record, run

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.model import Ending, Same, Verdict
from torchlint.verify.verdict import result_of, unexercised

ONE = configuration("TL901")
FAILED = run(ending=Ending.FAILED, code=1, stderr="Traceback\n\nValueError: no\n\n")
CHANGED = agreement(Same.DIVERGED, allowed=False)


def verdict(*args, **known) -> tuple[Verdict, str]:
    result = result_of(ONE, *args, **known)
    return result.verdict, result.why


def test_the_order_of_verdicts() -> None:
    fast = judged(1.2)
    assert verdict([FAILED], CHANGED, fast, "not run")[0] is Verdict.FAILED
    assert verdict([run()], CHANGED, fast, "not run") == (Verdict.NOT_EXERCISED, "not run")
    assert verdict([run()], CHANGED, fast)[0] is Verdict.CHANGES_RESULTS
    assert verdict([run()], agreement(), fast)[0] is Verdict.FASTER
    assert verdict([], None, fast)[0] is Verdict.NOT_MEASURED
    assert verdict([], agreement(), None)[0] is Verdict.NOT_MEASURED


def test_a_failure_is_told_with_the_last_words_of_the_script() -> None:
    assert verdict([FAILED], None, None)[1] == (
        "the script with it fails (exit code 1): ValueError: no"
    )
    killed = run(ending=Ending.FAILED, code=-9)
    assert verdict([killed], None, None)[1] == (
        "the script with it fails (killed by signal 9 (SIGKILL): perhaps out of memory)"
    )
    late = run(ending=Ending.TIMEOUT, code=None, seconds=61.0)
    assert verdict([late], None, None)[1] == "the script with it did not come to an end in 61 s"
    known = replace(late, expected=8.0)
    assert verdict([known], None, None)[1] == (
        "the script with it did not come to an end in 61 s (expected 8 s)"
    )
    lost = result_of(ONE, [run()], agreement(), None, is_lost=True)
    assert lost.why == "not timed: its runs ended before steps were made that can be compared"


def test_a_safe_fix_that_changes_results_is_a_bug() -> None:
    safe = configuration("TL901", safety=Safety.SAFE)
    near = agreement(Same.TOLERANCE, allowed=False)
    assert result_of(safe, [], near, None).why == (
        "results differ (within tolerance): evidence; the fix is called safe, so this is "
        "a bug of torchlint, please report it"
    )


def test_an_unsafe_fix_that_changes_more_than_declared() -> None:
    near = agreement(Same.SEED_SPREAD, allowed=False)
    assert verdict([], near, None)[1] == (
        "results differ (within seed spread), where the fix may change rounding only: evidence"
    )
    assert verdict([], CHANGED, None)[1] == "results diverged: evidence"
    wild = configuration("TL607", level=Level.E3)
    meant = result_of(wild, [], agreement(Same.DIVERGED), judged(1.2))
    assert meant.verdict is Verdict.CHANGES_RESULTS
    assert meant.why == "results differ, as the fix means them to: evidence"


@pytest.mark.parametrize(
    ("judgement", "expected", "words"),
    [
        (judged(1.24), Verdict.FASTER, "1.24x faster (1.23 to 1.25)"),
        (judged(0.8), Verdict.SLOWER, "1.25x slower (1.24 to 1.26)"),
        (judged(1), Verdict.NO_CHANGE, "no measurable change; a change of 2.7 % would have shown"),
        (
            judged(1, 0.1, 5, last=True), Verdict.NOISY,
            "too noisy to say: 0.71x to 1.38x; only a change of 41 % would have shown",
        ),
        (
            judged(1, 0.3, 5, last=True), Verdict.NOISY,
            "too noisy to say: pairs of runs differ too much for any change to show",
        ),
        (
            judged(1.5, count=2, last=True), Verdict.NOT_MEASURED,
            "not settled: the budget was enough for 2 pairs of runs only",
        ),
        (
            judged(1, count=0), Verdict.NOT_MEASURED,
            "not timed: the budget went to what was nearer to a verdict",
        ),
    ],
)  # fmt: skip
def test_speed_in_words(judgement, expected, words) -> None:
    assert verdict([run()], agreement(), judgement) == (expected, words)


def test_the_step_time_of_a_result_is_that_with_the_fix() -> None:
    step = result_of(ONE, [], agreement(), judged(1.2)).step
    assert step.low == pytest.approx(1.0)
    assert result_of(ONE, [], agreement(), None).step is None


def test_lines_that_the_pilot_did_not_reach() -> None:
    def of(count: int, **known) -> str:
        return unexercised(ONE, run(record(1, reached={"train.py": {3: count, 9: 7}}, **known)))

    assert of(0) == "the fixed lines were not reached (train.py:3)"
    assert of(2) == ""
    assert of(0, workers=2) == of(0)  # lines that run in workers are counted as well
    assert unexercised(ONE, run(record(1))) == ""  # nothing was counted


def test_a_fixed_file_that_was_not_the_one_imported() -> None:
    def of(*modules: str, root: Path | None = Path("/home/me/project")) -> str:
        return unexercised(ONE, run(), [run(record(1, modules=modules))], root)

    assert of("/tmp/copy/train.py") == ""  # noqa: S108
    assert of("/tmp/copy/other.py") == "the script does not import train.py"  # noqa: S108
    assert of("/home/me/project/train.py") == (
        "train.py was imported from somewhere else than the copy with the fix"
    )
    assert of("/home/me/project/train.py", root=None) == ""
    assert of() == ""
