"""The report for a terminal, as it is seen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_tools import (
    compared,
    cpu_report,
    cuda_report,
    group_report,
    interrupted_report,
    report_of,
    snapshot,
    snapshots,
    unproved_report,
)

from torchlint.report.paint import paint, width
from torchlint.verify.model import Caution, Interval, Result, Speed, Verdict
from torchlint.verify.report import table
from torchlint.verify.report.rows import rows

REPORTS = [cpu_report, cuda_report, interrupted_report, group_report, unproved_report]


def shown(report, columns: int = 100) -> str:
    return "".join(paint(table.lines(report, columns), color=False))


def test_it_looks_as_it_did() -> None:
    """Run `python tests/verify/report_tools.py` where this fails, and look at what changed."""
    made = snapshots()
    assert made == {name: snapshot(name) for name in made}


@pytest.mark.parametrize("columns", [40, 50, 60, 72, 80, 100, 120, 160])
@pytest.mark.parametrize("make", REPORTS)
def test_no_row_is_wider_than_the_terminal(make, columns: int) -> None:
    lines = shown(make(), columns).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith(("configuration", "fix  ")))
    rows = lines[head : lines.index("", head)]
    assert len(rows) == 2 + len(make().singles) + len(make().groups) + sum(
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
    assert lines.endswith("\nThe script fails as it is: no fix was tried.\n")


def test_the_last_lines_are_what_it_comes_to_what_to_keep_and_the_command() -> None:
    assert shown(group_report(), 160).endswith(
        "\n\nNo single fix is proved yet; TL601 and TL602 together are 1.3x faster (1.1 to 1.5), "
        "results equal\nwithin rounding: keep them together.\n"
        "keep  TL601 and TL602 together (marked *)\n"
        "      torchlint check --fix --fixable TL601,TL602 train.py\n"
    )
    assert "\nkeep" not in shown(unproved_report())


def test_what_gains_nothing_here_is_kept_without_a_promise() -> None:
    idle = unproved_report().singles[0]
    lines = shown(report_of(idle, kept=("TL601",)))
    assert "\nkeep  TL601: no gain measured here, and no loss (marked *)\n" in lines


@pytest.mark.parametrize("make", REPORTS)
def test_the_times_of_a_row_have_the_ratio_of_the_row(make) -> None:
    found = re.findall(r" ([\d.]+) +([\d.]+)  ([\d.]+)x +[\d.]+-[\d.]+ ", shown(make(), 140))
    told = [row for row in rows(make()) if row.ratio]
    assert len(found) == len(told) > 0
    for before, after, ratio in found:
        assert float(before) / float(after) == pytest.approx(float(ratio), rel=0.02)


def test_the_script_as_it_was_has_only_what_belongs_to_it_alone() -> None:
    lines = shown(cpu_report(), 140).splitlines()
    assert next(line for line in lines if line.startswith("  before")).split() == [
        "before", "1%", "1.26", "GB", "2.0",
    ]  # fmt: skip


def test_groups_stand_between_all_and_the_kept_ones_and_are_marked_where_they_are_kept() -> None:
    report = group_report()
    kept = compared("TL601", "TL602", ratio=Interval(1.1, 1.3, 1.5), name="kept")
    lines = shown(replace(report, kept_result=kept), 140).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("  before"))
    names = [line[:2].strip() + line[2:].split("  ")[0] for line in lines[first : first + 9]]
    assert names == [
        "before", "*TL601 optimizer-not-fused", "*TL602 zero-grad-not-none",
        "TL104 tensordataset-per-sample-collate", "TL904", "all 4 together", "*TL601+TL602",
        "TL104+TL904", "kept TL601+TL602",
    ]  # fmt: skip


def test_what_was_not_run_or_not_measured_is_told_once_and_with_its_reason() -> None:
    lines = shown(group_report())
    assert lines.count("Not run here, since they act on a GPU only: TL102, TL201, TL501\n") == 1
    assert "Not run here, since it acts on several GPUs only: TL801\n" in lines
    assert lines.count("no pair of runs was made") == 1
    assert "  TL601, TL602, TL104: no pair of runs was made before the time was over\n" in lines
    assert lines.count("--time-budget") == 1


def test_a_verdict_is_not_said_again_in_its_reason() -> None:
    assert shown(unproved_report()).count("no measurable change") == 1


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
