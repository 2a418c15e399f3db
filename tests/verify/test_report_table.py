"""The report for a terminal, as it is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_tools import cpu_report, cuda_report, interrupted_report, snapshot, snapshots

from torchlint.report.paint import paint, width
from torchlint.verify.model import Caution, Result, Speed, Verdict
from torchlint.verify.report import table


def shown(report, columns: int = 100) -> str:
    return "".join(paint(table.lines(report, columns), color=False))


def test_it_looks_as_it_did() -> None:
    """Run `python tests/verify/report_tools.py` where this fails, and look at what changed."""
    made = snapshots()
    assert made == {name: snapshot(name) for name in made}


@pytest.mark.parametrize("columns", [40, 50, 60, 72, 80, 100, 120, 160])
@pytest.mark.parametrize("make", [cpu_report, cuda_report, interrupted_report])
def test_no_row_is_wider_than_the_terminal(make, columns: int) -> None:
    lines = shown(make(), columns).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith(("configuration", "fix  ")))
    rows = lines[head : lines.index("", head)]
    assert len(rows) == 2 + len(make().singles) + sum(
        result is not None for result in (make().together, make().kept_result)
    )
    assert [row for row in rows if width(row) > columns] == []


def test_columns_that_nobody_has_are_left_out() -> None:
    assert "busy" not in shown(cpu_report(), 140)
    assert "busy" in shown(cuda_report(), 140)


def test_a_cpu_is_labelled_and_a_gpu_is_not() -> None:
    label = "measured on a CPU: says nothing of a GPU"
    assert label in shown(cpu_report())
    assert label not in shown(cuda_report())


def test_the_last_lines_of_a_failure_are_told_once() -> None:
    assert shown(cpu_report()).count("Traceback") == 1


def test_control_characters_of_a_script_stay_out_of_the_terminal() -> None:
    report = cpu_report()
    failed = next(each for each in report.singles if each.verdict is Verdict.FAILED)
    run = replace(failed.runs[0], stderr="\x1b[2Jgone\x07")
    failed = replace(failed, runs=(run,), why="it said \x1b[31mred")
    lines = shown(replace(report, singles=(failed,), together=None))
    assert "\x1b" not in lines
    assert "\x07" not in lines


def test_colour_is_only_where_it_is_asked_for() -> None:
    assert "\x1b[" not in shown(cpu_report())
    assert "\x1b[" in "".join(paint(table.lines(cpu_report()), color=True))


def test_a_script_that_fails_before_any_fix_is_told_with_its_last_words() -> None:
    report = cpu_report()
    failed = next(each for each in report.singles if each.verdict is Verdict.FAILED)
    before = Result(
        report.before.configuration, Verdict.FAILED, "it ended with exit code 1 in its pilot run",
        None, None, failed.runs, keep=False,
    )  # fmt: skip
    alone = replace(
        report, before=before, singles=(), together=None, kept=(), kept_result=None, cautions=()
    )
    lines = shown(alone)
    assert "before: failed\n  it ended with exit code 1 in its pilot run\n  | " in lines
    assert lines.endswith("keep  the script failed before any fix was tried\n")


def test_nothing_to_keep_is_said() -> None:
    report = replace(cpu_report(), kept=(), kept_result=None)
    assert shown(report).endswith("keep  none of the fixes proved itself\n")


def test_a_speed_up_that_is_not_settled_is_not_told() -> None:
    report = cpu_report()
    first = report.singles[0]
    judgement = replace(first.judgement, speed=Speed.OPEN)
    single = replace(first, verdict=Verdict.NOT_MEASURED, judgement=judgement, keep=False)
    alone = replace(report, singles=(single,), together=None, kept=(), kept_result=None)
    assert "1.46x" in shown(report)
    assert "1.46x" not in shown(alone)


def test_that_it_was_a_cpu_is_said_by_the_label_alone() -> None:
    caution = Caution("cpu-only", "measured on a CPU, as one knows", "run it elsewhere")
    assert "as one knows" not in shown(replace(cpu_report(), cautions=(caution,)))
