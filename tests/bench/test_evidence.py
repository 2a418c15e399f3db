"""How recorded evidence is read, merged and written, and what pages and the README say of it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import evidence  # noqa: E402  found from here on
import evidence_pages as pages  # noqa: E402
import evidence_plot  # noqa: E402


def pair(before, after, *, gpu=False, equal=True):
    arms = ({"wall": time, "cpu": time, "gpu": time if gpu else None} for time in (before, after))
    return {**dict(zip(("before", "after"), arms, strict=True)), "equal": equal}


def row(code, verdict, ratio, pairs, *, why="", size="width 8"):
    return {"key": None, "code": code, "name": "a-rule", "size": size, "step": "training step",
            "level": "E1", "verdict": verdict, "why": why, "ratio": ratio,
            "pairs": pairs, "when": "2026-11-21T19:00:00+00:00"}  # fmt: skip


def device(name, *rows):
    machine = {"cpu": "AMD EPYC", "threads": 1, "device": name, "torch": "2.13.0"}
    told = [{**row, "machine": machine} for row in rows]
    return {"device": name, "schema": 2, "rules": {"method": {"confidence": 0.99}, "rows": told}}


CPU = device(
    "CPU",
    row("TL1", "faster", [1.9, 2.0, 2.1], [pair(2e-3, 1e-3)]),
    row("TL1", "no-change", [0.99, 1.0, 1.01], [pair(2e-6, 2e-6, equal=False)], size="width 4"),
    row("TL2", "not-measured", None, [], why="copies to a CPU are no copies"),
)
GPU = device("NVIDIA H200", row("TL2", "slower", [0.8, 0.9, 0.95], [pair(1.0, 1.1, gpu=True)]))


def test_a_page_says_what_was_measured_where_and_that_a_gpu_is_missing():
    assert pages.section("TL1", [CPU]) == (
        "`torchlint bench TL1` on AMD EPYC, 1 thread, torch 2.13.0, 2026-11-21: time of a step "
        "before and\nafter, and their ratio with its 99% interval.\n"
        "- training step, width 8: 2.00 ms and 1.00 ms, 2.00 x (1.90 to 2.10): faster; results "
        "bitwise equal.\n"
        "- training step, width 4: 2.00 µs and 2.00 µs, 1.00 x (0.99 to 1.01): no measurable "
        "change; results\n  as E1 allows.\n\n"
        "On a GPU: not measured yet."
    )


def test_a_page_says_why_a_cpu_has_nothing_to_show():
    told = pages.section("TL2", [CPU])
    assert told.startswith("A CPU has nothing to show: copies to a CPU are no copies.")
    both = pages.section("TL2", [GPU, CPU])
    assert "on NVIDIA H200, torch" in both
    assert "0.90 x (0.80 to 0.95): slower here" in both
    assert "not measured yet" not in both


def test_a_rule_without_evidence_has_no_section():
    assert pages.section("TL3", [CPU]) == ""


def test_evidence_of_gpus_comes_first_and_is_written_whole(tmp_path):
    for each in (CPU, GPU):
        evidence.write(tmp_path / f"{evidence.slug(each['device'])}.json", each)
    assert [each["device"] for each in evidence.read(tmp_path)] == ["NVIDIA H200", "CPU"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cpu.json", "nvidia-h200.json"]
    assert json.loads((tmp_path / "cpu.json").read_text()) == CPU


def test_a_row_with_one_pair_and_one_without_a_reason_are_told_as_such():
    few = device("NVIDIA H200", row("TL1", "not-measured", None, [pair(2.0, 1.0, gpu=True)]))
    assert "not settled yet (1 pair); results bitwise equal." in pages.section("TL1", [few])
    none = device("NVIDIA H200", row("TL1", "not-measured", None, []))
    assert pages.section("TL1", [none]) == ""
    several = row("TL1", "not-measured", None, [], why="it acts on several GPUs only")
    assert pages.section("TL1", [device("NVIDIA H200", several)]) == ""
    told = pages.section("TL2", [none, CPU])
    assert told.startswith("A CPU has nothing to show")
    assert told.endswith(pages.NO_GPU)
    page = pages.page([("TL1", "one")], [few])
    assert "| TL1 `one` | training step, width 8 | 2.00 s | 1.00 s |  | not measured | 1 |" in page


def whole(speed_up, codes, allocated=None, samples=(), verdict="faster"):
    ratio = speed_up and dict(zip(("low", "middle", "high"), speed_up, strict=True))
    return {"step seconds": 2e-3, "speed-up": ratio, "codes": codes, "verdict": verdict,
            "results": "bitwise equal", "allocated": allocated, "busy": None,
            "samples": list(samples)}  # fmt: skip


def sample(number):
    return {"before": 2.0 + number, "after": 1.0, "mode": "lockstep", "when": f"at {number}"}


def entry(key, status, *numbers, speed_up=None, **more):
    """Return the entry of a script with the pairs of these numbers."""
    if status == "failed":
        return {"key": key, "status": status, "error": "no"}
    together = whole(speed_up, ["TL1"], samples=map(sample, numbers))
    machine = {"torch": "2.13.0", "cpu": "AMD EPYC"}
    rows = {"before": whole(None, []), "all proven fixes": together}
    return {"key": key, "status": status, "machine": machine, "rows": rows, "fixes": {}, **more}


def scripts(name="NVIDIA H200", **entries):
    return {"device": name, "schema": 2, "scripts": entries}


def merged(*entries):
    known = scripts()
    for one in entries:
        known = evidence.merged(known, scripts(net=one))
    return known


def numbers(one):
    return [round(pair["before"] - 2) for pair in one["rows"]["all proven fixes"]["samples"]]


def test_pairs_of_one_key_are_added_up_whatever_the_order():
    first, second = entry("a", "partial", 1, 2), entry("a", "partial", 2, 3)
    assert numbers(merged(first, second)["scripts"]["net"]) == [1, 2, 3]
    assert sorted(numbers(merged(second, first)["scripts"]["net"])) == [1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "left", "apart"),
    [
        (entry("a", "done", 1), entry("a", "failed"), ("a", "done"), None),
        (entry("a", "done", 1), entry("a", "partial"), ("a", "done"), None),
        (entry("a", "failed"), entry("a", "partial"), ("a", "partial"), None),
        (entry("a", "done", 1), entry("b", "failed"), ("a", "done"), None),
        (entry("a", "done", 1), entry("b", "partial", 2), ("a", "done"), "b"),
        (
            entry("a", "done", 1),
            entry("b", "partial", 2, speed_up=(1, 2, 3)),
            ("b", "partial"),
            None,
        ),
        (entry("a", "done", 1), entry("b", "done", 2), ("b", "done"), None),
        (entry("a", "failed"), entry("b", "failed"), ("b", "failed"), None),
    ],
)
def test_a_worse_entry_never_replaces_a_better_one(old, new, left, apart):
    known = merged(old, new)
    one = known["scripts"]["net"]
    assert (one["key"], one["status"]) == left
    assert "error" not in one or one["status"] == "failed"
    assert known.get("unfinished", {}).get("net", {}).get("key") == apart
    if old["key"] == left[0] and old["status"] == "done":
        assert numbers(one) == [1]


def test_what_is_kept_apart_takes_its_place_once_it_says_as_much():
    going_on = merged(entry("a", "done", 1), entry("b", "partial", 2), entry("b", "partial", 3))
    assert numbers(going_on["unfinished"]["net"]) == [2, 3]
    done = evidence.merged(going_on, scripts(net=entry("b", "done", 4)))
    assert numbers(done["scripts"]["net"]) == [2, 3, 4]
    assert done["unfinished"] == {}


def timed(key, *times):
    pairs = [pair(time, 1.0) for time in times]
    return {**row("TL1", "faster", [1, 2, 3], pairs), "key": key}


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (timed("a", 1, 2), timed("a", 2, 3), {"a": 3}),
        (timed("a", 1, 2, 3), timed("b", 4), {"a": 3, "b": 1}),
        (timed("a", 1, 2, 3), timed("b", 4, 5, 6), {"b": 3}),
        (timed("a", 1), timed("b"), {"a": 1}),
        (timed(None), timed("b"), {"b": 0}),
        (timed(None, 1), timed(None, 2), {None: 1}),
    ],
)
def test_rows_of_the_rules_are_added_up_and_none_is_lost_to_a_worse_one(old, new, left):
    known, news = device("CPU", old), device("CPU", new)
    rows = evidence.merged(known, news)["rules"]["rows"]
    found = [(one["key"], len(one["pairs"])) for one in rows]
    if old["key"] is new["key"] is None:  # of unknown programs: both stay
        assert found == [(None, 1), (None, 1)]
        return
    assert dict(found) == left
    assert len(found) == len(left)


def test_what_is_said_of_a_pair_later_counts_and_makes_no_second_one():
    first, again = timed("a", 1), timed("a", 1)
    first["pairs"][0]["equal"] = None
    rows = evidence.merged(device("CPU", first), device("CPU", again))["rules"]["rows"]
    assert [one["equal"] for one in rows[0]["pairs"]] == [True]


def test_a_file_of_the_first_schema_is_read_as_one_of_the_second():
    machine = {"cpu": "AMD EPYC", "threads": 1, "device": "CPU", "torch": "2.13.0"}
    plain = {key: value for key, value in timed(None, 1).items() if key not in ("key", "when")}
    rules = {"schema": 1, "machine": machine, "method": {"confidence": 0.99}, "rows": [plain]}
    left = {name: value for name, value in entry("a", "done", 1).items() if name != "status"}
    cut = {**left, "rows": {"before": whole(None, [], verdict="not measured")}}
    found = evidence.upgraded(
        {"device": "CPU", "schema": 1, "rules when": "2026-11-21", "rules": rules,
         "scripts": {"net": left, "cut": cut, "bad": {"key": "a", "error": "no"}}}
    )  # fmt: skip
    assert [one["status"] for one in found["scripts"].values()] == ["done", "partial", "failed"]
    [told] = found["rules"]["rows"]
    assert (told["machine"], told["when"], told["key"]) == (machine, "2026-11-21", None)
    assert "rules when" not in found
    assert evidence.upgraded(found) == found


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"device": "CPU", "schema": 9}'])
def test_what_is_no_evidence_is_said_and_put_aside(tmp_path, text):
    path = tmp_path / "cpu.json"
    path.write_text(text)
    with pytest.raises(evidence.EvidenceError, match=r"cpu\.json"):
        evidence.read(tmp_path)
    evidence.add(tmp_path, "CPU", scripts("CPU", net=entry("a", "done", 1)))
    assert evidence.read(tmp_path)[0]["scripts"].keys() == {"net"}
    assert (tmp_path / "cpu.json.unreadable").read_text() == text


def test_a_full_disk_leaves_the_evidence_as_it_was(tmp_path, monkeypatch):
    evidence.add(tmp_path, "CPU", scripts("CPU", net=entry("a", "done", 1)))
    before = (tmp_path / "cpu.json").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        evidence.add(tmp_path, "CPU", scripts("CPU", other=entry("a", "done", 2)))
    assert [file.name for file in tmp_path.iterdir()] == ["cpu.json"]
    assert (tmp_path / "cpu.json").read_bytes() == before


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import evidence
for k in range(20):
    entry = {"key": "a", "status": "failed", "error": "no"}
    news = {"device": "CPU", "schema": 2, "scripts": {f"{sys.argv[3]}{k}": entry}}
    evidence.add(Path(sys.argv[2]), "CPU", news)
"""


def test_two_runs_beside_each_other_keep_what_the_other_writes(tmp_path):
    runs = [
        subprocess.Popen([sys.executable, "-c", WRITER, ROOT / "benchmarks", tmp_path, name])
        for name in ("one", "two")
    ]
    assert [run.wait(60) for run in runs] == [0, 0]
    assert len(evidence.read(tmp_path)[0]["scripts"]) == 40


def test_the_parts_of_two_commands_stand_beside_each_other(tmp_path):
    evidence.add(tmp_path, "NVIDIA H200", GPU)
    evidence.add(tmp_path, "NVIDIA H200", scripts(net=entry("a", "done", 1)))
    [known] = evidence.read(tmp_path)
    assert known["rules"]["rows"]
    assert known["scripts"]["net"]


def test_the_page_tells_of_each_script_with_its_caveat():
    safe, proven = whole(None, ["TL1"]), whole([1.9, 2.0, 2.1], ["TL1", "TL2"], 2e9)
    rows = {"before": {**whole(None, []), "busy": 0.15}, "safe fixes": safe,
            "all proven fixes": proven}  # fmt: skip
    net = entry("a", "partial", origin="a/b@0123456789", caveat="read with care")
    known = scripts(net={**net, "rows": rows}, broken=entry("a", "failed"))
    page = pages.page([], [known])
    assert (
        "| net (a/b@0123456) | 2.13.0 | 2.00 ms | faster (TL1) "
        "| 2.00 x (1.90 to 2.10), 2.00 GB: faster (TL1, TL2) | 15% | bitwise equal |"
    ) in page
    assert "net: read with care." in page
    assert "Not all was settled in the time there was: net." in page
    assert "broken" not in page


def test_the_readme_says_what_was_not_measured_on_a_gpu():
    told = pages.summary([CPU])
    assert "Nothing was measured on a GPU yet" in told
    assert "| CPU (AMD EPYC) | not measured yet | 1 rule: faster in some size in 1 |" in told
    slow = entry("a", "done", 1, speed_up=(0.97, 1.01, 1.05))
    slow["rows"]["all proven fixes"]["verdict"] = "no measurable change"
    told = pages.summary([scripts(net=slow), CPU])
    assert (
        "| NVIDIA H200 | 1 script, net: 1.01 x (0.97 to 1.05): no measurable change (TL1) |" in told
    )
    assert "No speed-up of a whole script was seen on a GPU yet." in told
    assert "No rule's program was measured on a GPU yet." in told
    both = {**GPU, **scripts(net=entry("a", "done", 1, speed_up=(1.9, 2, 2.1)))}
    told = pages.summary([both])
    assert "No speed-up" not in told
    assert "No rule" not in told


def test_the_plot_has_a_row_for_each_ratio_and_is_an_image():
    known = scripts(net=entry("a", "done", 1, speed_up=(1.9, 2.0, 2.1)), **{
        "a<b": entry("a", "done", 1, speed_up=(0.01, 1.0, 100.0))})  # fmt: skip
    root = ET.fromstring(evidence_plot.svg(pages.bars(known), "speed-ups"))  # noqa: S314
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"net", "a<b"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2


def test_the_run_of_the_h200_is_told_with_its_caveat():
    [gpu] = [one for one in evidence.read() if one["device"] == "NVIDIA H200"]
    page = pages.page([], [gpu])
    assert "word_language_model" in page
    if "caveat" in gpu["scripts"]["word_language_model"]:
        assert "reads a step are one too many in 50" in page
