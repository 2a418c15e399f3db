"""`benchmarks/rules.py` writes what it measured at once, and a later run goes on from there."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from eager_tools import eager_path

from torchlint.bench import kept
from torchlint.bench.model import Row
from torchlint.rule import Level
from torchlint.verify.model import Machine

ROOT = Path(__file__).parents[2]
# The script with rows of our own, and little patience.
WRAPPER = """
import json, runpy, sys
from torchlint.bench import command, runner
from torchlint.bench.model import Row
from torchlint.rule import Level

rows = [Row(code, "a-rule", "", "step", *texts, None, Level.E0)
        for code, texts in json.loads(sys.argv.pop(1)).items()]
command.rows = lambda *_, **__: rows
Row.patience = property(lambda _: 4.0)
sys.path.insert(0, {benchmarks!r})
sys.argv[0] = {script!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SAME = "def run(steps):\n    return 1\n"
SLOW = "import time\n\ndef run(steps):\n    time.sleep(0.002 * steps)\n    return 1\n"
ENDLESS = "import time\n\ndef run(steps):\n    time.sleep(0.6)\n    return 1\n"
HANGS = "import time\n\ndef run(steps):\n    time.sleep(600)\n"


@pytest.fixture
def start(tmp_path):
    """Start the script with some programs, and end it and what it started."""
    wrapper = tmp_path / "wrapper.py"
    script = ROOT / "benchmarks" / "rules.py"
    wrapper.write_text(WRAPPER.format(benchmarks=str(script.parent), script=str(script)))
    (tmp_path / "scratch").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": eager_path(os.pathsep.join((str(ROOT), str(ROOT / "rules")))),
        "TMPDIR": str(tmp_path / "scratch"),
    }
    started = []

    def begin(programs, *words, evidence="evidence", budget="60s"):
        places = ("--known", tmp_path / "known", "--evidence", tmp_path / evidence)
        command = (sys.executable, wrapper, json.dumps(programs), "--device", "cpu", *places)
        process = subprocess.Popen(
            (*command, "--time-budget", budget, *words),
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def evidence_in(folder):
    return json.loads((folder / "cpu.json").read_text())


def rows_in(folder):
    return {row["code"]: row for row in evidence_in(folder)["rules"]["rows"]}


def log_in(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_goes_wrong_costs_its_own_row_and_a_later_run_goes_on(start, tmp_path):
    (tmp_path / "evidence").mkdir()
    there = {"device": "CPU", "schema": 2, "scripts": {"net": {"status": "done", "key": "a"}}}
    (tmp_path / "evidence" / "cpu.json").write_text(json.dumps(there))
    log = tmp_path / "log"
    programs = {
        "GOOD": (SLOW, SAME),
        "HANGS": (HANGS, SAME),
        "OTHER": (SAME, SAME.replace("1", "2")),
        "FAILS": (SAME, "raise ValueError('on purpose')"),
        "DIES": ("import os\nos.kill(os.getpid(), 9)", SAME),
    }
    process = start(programs, "--log", log)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    rows = rows_in(tmp_path / "evidence")
    assert evidence_in(tmp_path / "evidence")["scripts"] == there["scripts"]
    assert {code: row["verdict"] for code, row in rows.items()} == {
        "GOOD": "faster", "HANGS": "failed", "OTHER": "changes-results", "FAILS": "failed",
        "DIES": "failed",
    }  # fmt: skip
    pairs = len(rows["GOOD"]["pairs"])
    assert pairs >= 3  # and more where the machine was busy
    assert "line 4 in run" in rows["HANGS"]["why"]
    assert "ValueError: on purpose" in rows["FAILS"]["why"]
    assert "SIGKILL" in rows["DIES"]["why"]
    events = [(line["what"], line["row"]) for line in log_in(log)]
    assert events.count(("pair", "GOOD")) == pairs
    assert ("hung", "HANGS") in events
    assert ("changes results", "OTHER") in events
    assert "GOOD: pair 3: " in said  # no terminal: a plain line for each

    assert len(said.splitlines()) == len(events)

    log.unlink()
    process = start({"GOOD": programs["GOOD"], "MORE": (SLOW, SAME + "\n")}, "--log", log)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert {line["row"] for line in log_in(log)} == {"MORE"}
    assert rows_in(tmp_path / "evidence")["GOOD"]["pairs"] == rows["GOOD"]["pairs"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_from_outside_leaves_all_pairs_and_no_process(start, tmp_path, how):
    log = tmp_path / "log"
    process = start({"GOOD": (SLOW, SAME), "LONG": (ENDLESS, SAME)}, "--log", log)
    while process.poll() is None and not (log.exists() and "pair" in log.read_text()):
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode == (143 if how is signal.SIGTERM else -9)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    pairs = sum(line["what"] == "pair" for line in log_in(log))
    rows = rows_in(tmp_path / "evidence").values()
    assert sum(len(row["pairs"]) for row in rows) >= pairs > 0
    assert not list((tmp_path / "scratch").glob("torchlint-bench-*"))


def test_a_full_disk_is_told_in_a_line_and_measuring_goes_on(start, tmp_path):
    (tmp_path / "evidence" / "cpu.json").mkdir(parents=True)  # cannot be replaced by a file
    process = start({"GOOD": (SLOW, SAME)}, "--log", "/dev/full")
    out, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.count("the evidence is not written") == 1
    assert said.count("the log is not written") == 1
    assert "faster" in out


def test_what_the_time_does_not_reach_is_left(start, tmp_path):
    process = start({"LONG": (ENDLESS, SAME)}, budget="8s")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3, said
    assert rows_in(tmp_path / "evidence")["LONG"]["verdict"] == "not-measured"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--time-budget", "soon"), "--time-budget takes a length of time"),
        (("--device", "cuda"), "torch finds no CUDA device"),
    ],
)
def test_wrong_use_says_what_to_do(start, words, why):
    process = start({"GOOD": (SAME, SAME)}, *words)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert why in said
    assert "Traceback" not in said


MACHINE = Machine(
    python="3.11", torch="2.13", device="CPU", cuda=None, driver=None, cpu="AMD", cores=2,
    threads=1, system="Linux", load=(0.0, 0.0, 0.0), pressure=None,
)  # fmt: skip


def entry(row, machine, **more):
    arm = {"wall": 1.0, "cpu": 1.0}
    check = {"difference": 0.0, "equal": True, "allowed": True, "itself": 0.0}
    found = {"key": kept.key(row, machine), "results": check, "when": "", "seconds": 1.0,
             "pairs": [{"before": arm, "after": arm, "equal": True}]}  # fmt: skip
    return {**found, **more}


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        pytest.param({}, 1, id="same"),
        pytest.param({"key": None}, 0, id="from before keys"),
        pytest.param({"key": "other"}, 0, id="of another kind"),
        pytest.param({"results": None}, 0, id="unchecked"),
    ],
)
def test_pairs_count_where_all_that_they_depend_on_is_the_same(change, pairs):
    row = Row("TL1", "a-rule", "", "step", "before", "after", None, Level.E0)
    (one,) = kept.recalled([row], MACHINE, [entry(row, MACHINE, **change)])
    assert len(one.pairs) == pairs
    assert (one.check is not None) is bool(pairs)


def test_each_kind_of_pairs_has_a_key_of_its_own():
    def row(before="before", after="after"):
        return Row("TL1", "a-rule", "", "step", before, after, None, Level.E0)

    def machine(**more):
        facts = {name: getattr(MACHINE, name) for name in MACHINE.__slots__}
        return Machine(**{**facts, **more})

    keys = [
        kept.key(row(), machine()),
        kept.key(row(before="x"), machine()),
        kept.key(row(after="x"), machine()),
        kept.key(dataclasses.replace(row(), quick=True), machine()),
        kept.key(row(), machine(torch="2.12")),
        kept.key(row(), machine(cpu="Intel")),
        kept.key(row(), machine(device="NVIDIA H100")),
        kept.key(row(), machine(device="NVIDIA H200")),
    ]
    assert len(set(keys)) == len(keys)
    assert kept.key(row(), machine(load=(9.0, 9.0, 9.0))) == keys[0]


def test_the_schema_of_the_worker_is_that_of_the_keys():
    text = (ROOT / "torchlint" / "bench" / "worker.py").read_text()
    assert f"\nSCHEMA = {kept.SCHEMA}  #" in text
