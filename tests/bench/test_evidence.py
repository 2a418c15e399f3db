"""What pages and the README say of the recorded evidence."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evidence():
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "benchmarks" / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def pair(before, after, *, gpu=False, equal=True):
    arms = ({"wall": time, "cpu": time, "gpu": time if gpu else None} for time in (before, after))
    return {**dict(zip(("before", "after"), arms, strict=True)), "equal": equal}


def row(code, verdict, ratio, pairs, why=""):
    return {"code": code, "name": "a-rule", "size": "width 8", "step": "training step",
            "level": "E1", "verdict": verdict, "why": why, "ratio": ratio,
            "pairs": pairs}  # fmt: skip


def device(name, *rows):
    machine = {"cpu": "AMD EPYC", "threads": 1, "device": name, "torch": "2.13.0"}
    rules = {"machine": machine, "method": {"confidence": 0.99}, "rows": list(rows)}
    return {"device": name, "rules when": "2026-11-21T19:00:00+00:00", "rules": rules}


CPU = device(
    "CPU",
    row("TL1", "faster", [1.9, 2.0, 2.1], [pair(2e-3, 1e-3)]),
    row("TL1", "no-change", [0.99, 1.0, 1.01], [pair(2e-6, 2e-6, equal=False)]),
    row("TL2", "not-measured", None, [], "copies to a CPU are no copies"),
)
GPU = device("NVIDIA H200", row("TL2", "slower", [0.8, 0.9, 0.95], [pair(1.0, 1.1, gpu=True)]))


def test_a_page_says_what_was_measured_where_and_that_a_gpu_is_missing(evidence):
    assert evidence.section("TL1", [CPU]) == (
        "`torchlint bench TL1` on AMD EPYC, 1 thread, torch 2.13.0, 2026-11-21: time of a step "
        "before and\nafter, and their ratio with its 99% interval.\n"
        "- training step, width 8: 2 ms and 1 ms, 2.00 x (1.90 to 2.10): faster; results bitwise "
        "equal.\n"
        "- training step, width 8: 2 us and 2 us, 1.00 x (0.99 to 1.01): no measurable change; "
        "results as E1\n  allows.\n\n"
        "On a GPU: not measured yet."
    )


def test_a_page_says_why_a_cpu_has_nothing_to_show(evidence):
    told = evidence.section("TL2", [CPU])
    assert told.startswith("A CPU has nothing to show: copies to a CPU are no copies.")
    both = evidence.section("TL2", [GPU, CPU])
    assert "on NVIDIA H200, torch" in both
    assert "0.90 x (0.80 to 0.95): slower here" in both
    assert "not measured yet" not in both


def test_a_rule_without_evidence_has_no_section(evidence):
    assert evidence.section("TL3", [CPU]) == ""


def test_the_table_has_a_column_a_device_and_says_that_the_gpu_is_missing(evidence):
    rules = [("TL1", "one"), ("TL2", "two"), ("TL3", "three")]
    assert evidence.table(rules, [CPU]).splitlines() == [
        "| rule | CPU | GPU |",
        "|---|---|---|",
        "| TL1 `one` | 2.00 x; none | not measured yet |",
        "| TL2 `two` | needs a GPU | not measured yet |",
    ]
    assert evidence.table(rules, [GPU, CPU]).splitlines()[2:] == [
        "| TL1 `one` |  | 2.00 x; none |",
        "| TL2 `two` | 0.90 x | needs a GPU |",
    ]


def test_evidence_of_gpus_comes_first_and_is_written_whole(evidence, tmp_path):
    for each in (CPU, GPU):
        evidence.write(tmp_path / f"{evidence.slug(each['device'])}.json", each)
    assert [each["device"] for each in evidence.read(tmp_path)] == ["NVIDIA H200", "CPU"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cpu.json", "nvidia-h200.json"]
    assert json.loads((tmp_path / "cpu.json").read_text()) == CPU
