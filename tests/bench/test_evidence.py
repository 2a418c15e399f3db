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
        "- training step, width 8: 2.00 ms and 1.00 ms, 2.00 x (1.90 to 2.10): faster; results "
        "bitwise equal.\n"
        "- training step, width 8: 2.00 µs and 2.00 µs, 1.00 x (0.99 to 1.01): no measurable "
        "change; results\n  as E1 allows.\n\n"
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
        "| TL1 `one` | 2.00 x; no change | not measured yet |",
        "| TL2 `two` | needs a GPU | not measured yet |",
    ]
    assert evidence.table(rules, [GPU, CPU]).splitlines()[2:] == [
        "| TL1 `one` |  | 2.00 x; no change |",
        "| TL2 `two` | 0.90 x | needs a GPU |",
    ]


def test_evidence_of_gpus_comes_first_and_is_written_whole(evidence, tmp_path):
    for each in (CPU, GPU):
        evidence.write(tmp_path / f"{evidence.slug(each['device'])}.json", each)
    assert [each["device"] for each in evidence.read(tmp_path)] == ["NVIDIA H200", "CPU"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cpu.json", "nvidia-h200.json"]
    assert json.loads((tmp_path / "cpu.json").read_text()) == CPU


def whole(speed_up, codes, allocated=None):
    ratio = speed_up and dict(zip(("low", "middle", "high"), speed_up, strict=True))
    return {"step seconds": 2e-3, "speed-up": ratio, "codes": codes, "verdict": "faster",
            "results": "bitwise equal", "allocated": allocated}  # fmt: skip


def test_the_table_of_scripts_tells_of_each_row(evidence):
    before = {"step seconds": 4e-3}
    safe, proven = whole(None, ["TL1"]), whole([1.9, 2.0, 2.1], ["TL1", "TL2"], 2e9)
    known = {
        "device": "NVIDIA H200",
        "scripts": {
            "net": {"origin": "a/b@0123456789", "rows": {
                "before": before, "safe fixes": safe, "all proven fixes": proven}},
            "other": {"origin": None, "rows": {"before": before}},
            "broken": {"error": "no"},
        },
    }  # fmt: skip
    assert evidence.scripts_table([known]).splitlines()[2:] == [
        (
            "| NVIDIA H200 | net (a/b@0123456) | 4.00 ms | faster (TL1) "
            "| 2.00 x (1.90 to 2.10), 2.00 GB: faster (TL1, TL2) | bitwise equal |"
        ),
        "| NVIDIA H200 | other | 4.00 ms | none | none |  |",
    ]
    assert "| a GPU | all | not measured yet | | | |" in evidence.scripts_table([CPU])


def test_rows_from_a_cpu_name_its_model(evidence):
    models = ("AMD EPYC", "Intel Xeon")
    known = {**CPU, "scripts": {
        model: {"machine": {"cpu": model}, "rows": {"before": {"step seconds": 1e-3}}}
        for model in models}}  # fmt: skip
    cells = [line.split(" | ")[0] for line in evidence.scripts_table([known]).splitlines()[2:4]]
    assert cells == [f"| {model}" for model in models]


def test_a_public_script_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import whole_scripts  # noqa: PLC0415  found from here on

    file = tmp_path / "train.py"
    file.write_bytes(b"")
    whole_scripts.checked(file, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")  # git's empty file
    file.write_bytes(b"x")
    with pytest.raises(ValueError, match="not the version"):
        whole_scripts.checked(file, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_script_is_copied_with_its_folders_and_data(tmp_path, monkeypatch, device):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import whole_scripts  # noqa: PLC0415  found from here on

    monkeypatch.setattr(whole_scripts, "checked", lambda *_: None)
    checkouts = tmp_path / "checkouts"
    for public in whole_scripts.PUBLIC:
        for name in public.sources:
            source = checkouts / public.checkout / name
            target = source if source.suffix else source / "part.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    found = list(whole_scripts.public_scripts(checkouts, device))
    assert len(found) == len(whole_scripts.PUBLIC) - (device == "cpu")
    for script in found:
        root = tmp_path / script.name
        root.mkdir()
        folder = script.copy_to(root)
        assert folder.is_dir()
        assert {file.name for file in script.files} <= {file.name for file in root.rglob("*.py")}
        assert "@" in script.origin
