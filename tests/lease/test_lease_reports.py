"""What a run writes down of what its commands tell, and the summary."""

from __future__ import annotations

import json

from lease_tools import entries, lease

TELLS = """
import json, time
for line in LINES:
    with open("{log}", "a") as log:
        log.write(line + "\\n")
time.sleep(0.4)
"""


def telling(log, lines):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return f"LINES = {texts!r}\n" + TELLS.format(log=log)


def pair(row, ratio, pairs=3):
    told = {"what": "pair", "row": row, "why": "", "pairs": pairs, "verdict": "faster"}
    return {**told, "ratio": [ratio * 0.9, ratio, ratio * 1.1]}


def rules(tmp_path, lines):
    out = tmp_path / "out"
    out.mkdir()
    return lease(out, {"rules": telling(out / "rules.jsonl", lines)}, log="rules.jsonl")


def test_a_hanging_and_a_failing_row_stand_in_failures_with_their_stack(tmp_path):
    hung = {"what": "hung", "row": "TL1 step", "why": 'nothing for 20 s\n  File "a.py", line 3'}
    failed = {"what": "failed", "row": "TL2 step", "why": "RuntimeError: no kernel"}
    run = rules(tmp_path, [pair("TL3 step", 2.0), hung, failed, pair("TL3 step", 2.0)])
    failures = run.text("failures.txt")
    assert 'TL1 step: hung\nnothing for 20 s\n  File "a.py", line 3' in failures
    assert "TL2 step: failed\nRuntimeError: no kernel" in failures
    assert "TL2 step: failed: RuntimeError: no kernel" in run.text("summary.txt")
    assert "rules: 2 pairs" in run.text("summary.txt")


def test_the_summary_tells_the_largest_effects_first_and_fits_a_page(tmp_path):
    rows = [pair(f"TL{number} step", 1 + number / 10) for number in range(50)]
    failed = [{"what": "failed", "row": f"TL{number}", "why": "x"} for number in range(90)]
    summary = rules(tmp_path, [*rows, *failed]).text("summary.txt").splitlines()
    assert len(summary) <= 60
    told = [line for line in summary if " x (" in line]
    assert told[0].strip() == "TL49 step: 5.9 x (5.31 to 6.49), 3 pairs, faster"
    assert summary[-1].startswith("exit ")


def test_a_line_that_was_cut_short_costs_only_itself(tmp_path):
    run = rules(tmp_path, ['{"what": "pair", "ro', "[]", pair("TL1 step", 2.0)])
    assert "rules: 1 pairs" in run.text("summary.txt")


def test_what_an_earlier_run_told_is_not_told_again(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "rules.jsonl").write_text(json.dumps(pair("TL1 step", 2.0)) + "\n")
    run = lease(out, {"rules": "print('nothing new')"}, log="rules.jsonl")
    assert "rules: 0 pairs" in run.text("summary.txt")


def test_the_terminal_says_what_runs_and_how_long(tmp_path):
    script = "import time; print('row 7 of 9'); time.sleep(1.5)"
    run = lease(tmp_path, {"rules": script})
    assert "rules: row 7 of 9 (" in run.said
    assert "s left, " in run.said


def test_a_traceback_stands_in_failures_with_what_was_raised(tmp_path):
    run = lease(tmp_path, {"rules": "print('fine')\nraise ValueError('this one')"})
    assert run.text("failures.txt").startswith("Traceback")
    assert run.text("failures.txt").endswith("ValueError: this one\n")


def test_there_are_at_most_eight_flat_files(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    run = lease(
        out,
        {
            "rules": telling(out / "rules.jsonl", [pair("TL1 step", 2.0)]),
            "scripts": telling(
                out / "runs.jsonl", [{"what": "pair", "script": "a", "text": "2 x"}]
            ),
        },
    )
    known = {"gpu.csv", "log.txt", "failures.txt", "summary.txt", "rules.jsonl", "runs.jsonl"}
    assert {path.name for path in run.out.rglob("*")} == known
    assert len(entries(out / "rules.jsonl")) == 1


def test_the_summary_names_what_was_raised_not_where(tmp_path):
    why = (
        "Traceback (most recent call last):\n  File 'a'\ntorch.SomeError: no driver\nSearch for it"
    )
    run = rules(tmp_path, [{"what": "failed", "row": "TL1 step", "why": why}])
    assert "TL1 step: failed: torch.SomeError: no driver" in run.text("summary.txt")


def with_evidence(tmp_path, evidence, lines):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a-gpu.json").write_text(json.dumps({"device": "A GPU", **evidence}))
    told = lease(out, {"scripts": telling(out / "runs.jsonl", lines)}, log="runs.jsonl")
    return told.text("summary.txt")


def test_the_summary_tells_what_a_script_gains_and_what_is_next(tmp_path):
    speed = {"low": 2.69, "middle": 2.84, "high": 3.0}
    row = {"speed-up": speed, "verdict": "faster", "samples": []}
    unknown = {"speed-up": None, "verdict": "not measured", "samples": []}
    script = {"rows": {"before": unknown, "all proven fixes": row}, "fixes": {"TL1": unknown}}
    rows = [
        {"code": "TL2", "size": "width 8", "verdict": "not-measured", "why": "", "pairs": [1]},
        {"code": "TL3", "size": "", "verdict": "not-measured", "why": "no GPU", "pairs": []},
        {"code": "TL4", "size": "", "verdict": "faster", "why": "", "pairs": [1, 2, 3]},
    ]
    lines = [
        {"what": "pair", "script": "fit", "before": 2.0, "after": 1.0},
        {"what": "pair", "script": "fit", "text": "TL1: 2 x"},
        {"what": "cut off", "script": "fit", "why": "no time"},
        {"what": "left", "why": "fit, other"},
    ]
    summary = with_evidence(tmp_path, {"scripts": {"fit": script}, "rules": {"rows": rows}}, lines)
    assert "scripts: 1 pairs" in summary
    assert "  fit: all proven fixes 2.84 x (2.69 to 3), faster; no time\n" in summary
    assert "next: 1 rows without a verdict: TL2 width 8\n" in summary
    assert "next: scripts fit, other\n" in summary
    assert "evidence so far: 3 rows with 4 pairs, 1 scripts" in summary


def test_evidence_of_another_form_costs_its_lines_alone(tmp_path):
    summary = with_evidence(
        tmp_path,
        {"rules": {"rows": [7]}, "scripts": {"fit": {"rows": {"all": {"speed-up": [1]}}}}},
        [{"what": "pair", "script": "fit"}],
    )
    assert "the evidence is not as expected: " in summary
    assert summary.splitlines()[-1].startswith("exit ")
