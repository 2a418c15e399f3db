"""The report for machines says all, as its schema describes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from report_tools import cpu_report, cuda_report, group_report, interrupted_report, unproved_report

from torchlint.verify.model import Phase, Verdict
from torchlint.verify.report import json as report_json

SCHEMA = json.loads(Path(report_json.__file__).with_name("verify.schema.json").read_text())


def read(report) -> dict:
    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    return json.loads(report_json.render(report), parse_constant=refuse)


def of(content: dict, code: str) -> dict:
    return next(each for each in content["configurations"] if each["codes"] == [code])


def with_losses(*losses: float | None):
    """Return a report whose script before computed these losses."""
    report = cpu_report()
    run = report.before.runs[0]
    trace = replace(run.records[0].trace, losses=losses)
    changed = replace(run, records=(replace(run.records[0], trace=trace),))
    return replace(report, before=replace(report.before, runs=(changed,)))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


REPORTS = [cpu_report, cuda_report, interrupted_report, group_report, unproved_report]


@pytest.mark.uncounted
@pytest.mark.parametrize("make", REPORTS)
def test_reports_are_as_the_schema_says(make) -> None:
    jsonschema.validate(read(make()), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_every_verdict_is_in_the_schema() -> None:
    said = {each["verdict"] for each in read(cpu_report())["configurations"]}
    known = SCHEMA["$defs"]["configuration"]["properties"]["verdict"]["enum"]
    assert said == set(known)
    assert len(known) == len(Verdict)


def test_every_sample_of_both_arms_is_there_unrounded() -> None:
    report = cpu_report()
    content = read(report)
    samples = report.singles[0].judgement.samples
    assert of(content, "TL901")["speed"]["samples"] == [
        {"before": each.before, "after": each.after, "mode": "sequential"} for each in samples
    ]
    pairs = sum(len(r.judgement.samples) for r in report.singles if r.judgement)
    pairs += len(report.kept_result.judgement.samples)
    before = [run for run in content["configurations"][0]["runs"] if run["phase"] == "timing"]
    assert len(before) == pairs
    steps = next(run for run in report.before.runs if run.phase is Phase.TIMING).records[0].steps
    assert before[0]["records"][0]["steps"] == [list(each) for each in steps]


def test_the_step_time_of_a_run_is_that_of_its_sample() -> None:
    content = of(read(cpu_report()), "TL901")
    runs = [run["step_seconds"] for run in content["runs"] if run["phase"] == "timing"]
    assert runs == pytest.approx([each["after"] for each in content["speed"]["samples"]])


def test_a_cpu_is_labelled_and_a_gpu_is_not() -> None:
    assert read(cpu_report())["label"] == "measured on a CPU: says nothing of a GPU"
    assert read(cuda_report())["label"] is None


def test_numbers_that_are_none_are_words() -> None:
    content = read(with_losses(1.5, float("nan"), float("inf"), -float("inf"), None))
    trace = content["configurations"][0]["runs"][0]["records"][0]["trace"]
    assert trace["losses"] == [1.5, "NaN", "Infinity", "-Infinity", None]
    jsonschema.validate(content, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_contents_of_files_stay_out() -> None:
    content = of(read(cpu_report()), "TL901")
    assert content["files"] == ["train.py"]
    assert content["lines"] == {"train.py": [12, 29]}


@pytest.mark.uncounted
def test_a_reader_of_the_former_schema_is_not_misled_and_finds_nothing_required_anew() -> None:
    """The version stays: older reports have neither of the keys that came with groups."""
    content = read(cpu_report())
    for key in ("headline", "unfit"):
        del content[key]
    del of(content, "TL901")["speed"]["typical"]
    jsonschema.validate(content, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_typical_times_are_those_of_the_pairs_and_their_ratio_is_the_one_told() -> None:
    for content in map(read, (make() for make in REPORTS)):
        speeds = [each["speed"] for each in content["configurations"] if each["speed"]]
        known = [speed for speed in speeds if speed["ratio"]]
        assert known
        for speed in known:
            ratio = speed["typical"]["before"] / speed["typical"]["after"]
            assert ratio == pytest.approx(speed["ratio"]["middle"], rel=1e-12)


def test_groups_what_was_not_run_and_the_headline_are_there() -> None:
    content = read(group_report())
    groups = [each["codes"] for each in content["configurations"] if each["role"] == "group"]
    assert groups == [["TL601", "TL602"], ["TL104", "TL904"]]
    kept = [each["codes"] for each in content["configurations"] if each["keep"]]
    assert kept == [["TL601"], ["TL602"], ["TL601", "TL602"]]
    assert content["unfit"][0] == {"code": "TL102", "why": "it acts on a GPU only"}
    assert content["headline"].startswith("No single fix is proved yet; TL601 and TL602 together")


def test_what_is_kept_comes_with_its_command() -> None:
    assert read(cpu_report())["keep"] == {
        "codes": ["TL201", "TL901"],
        "apply": "torchlint check train.py --select TL201,TL901 --fix",
    }
