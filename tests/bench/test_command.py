"""`torchlint bench` with real runs of small programs: the table, the files, the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from eager_tools import eager_path

from torchlint.bench import command
from torchlint.bench.model import Arm, Check, Measured, Pair, Row
from torchlint.bench.process import Server
from torchlint.bench.report import json as json_report
from torchlint.bench.report import table
from torchlint.rule import Level, Needs
from torchlint.verify.model import Interval, Machine

ROOT = Path(__file__).parents[2]
PATH = eager_path(os.pathsep.join((str(ROOT), str(ROOT / "rules"))))
MACHINE = Machine(
    python="3.11", torch="2.13", device="CPU", cuda=None, driver=None, cpu="AMD", cores=2,
    threads=1, system="Linux", load=(0.0, 0.0, 0.0), pressure=None,
)  # fmt: skip


def call(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "torchlint", "bench", *words],
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def left_over(folder):
    return list(folder.glob("torchlint-bench-*"))  # torch leaves a cache of its own beside it


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Its own folder for temporary files: other tests run a bench at the same time."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_a_rule_is_measured_and_told_in_every_format(tmp_path, scratch):
    files = [tmp_path / "a.json", tmp_path / "a.html"]
    done = call(
        "TL602", "--device", "cpu", "--time-budget", "8s", "--json", files[0], "--html", files[1],
        "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "TL602" in done.stdout
    assert "measured on a CPU: says nothing of a GPU" in done.stdout
    assert done.stderr == ""
    told = json.loads(files[0].read_text())
    assert told["schema"] == 2
    assert told["machine"]["device"] == "CPU"
    assert {row["code"] for row in told["rows"]} == {"TL602"}
    assert all(pair["before"]["wall"] > 0 for row in told["rows"] for pair in row["pairs"])
    page = files[1].read_text()
    assert "TL602" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert not left_over(scratch)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("TL999",), "unknown rule `TL999`"),
        (("--time-budget", "soon"), "--time-budget takes a length of time"),
        (("TL105",), "nothing to measure: no benchmark for TL105"),
    ],
)
def test_wrong_use_says_what_to_do(words, said):
    done = call(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_torch_is_named(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho \"No module named 'torch'\" >&2\nexit 1\n")
    fake.chmod(0o755)
    done = call("TL602", "--python", str(fake))
    assert done.returncode == 2
    assert f"{fake} ended with 1: No module named 'torch'" in done.stderr


def test_an_ended_bench_leaves_nothing_behind(scratch):
    process = subprocess.Popen(
        [sys.executable, "-m", "torchlint", "bench", "TL602", "--device", "cpu"],
        env={**os.environ, "PYTHONPATH": PATH}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (made := left_over(scratch)) and process.poll() is None:
        time.sleep(0.05)
    assert made
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not left_over(scratch)


def test_an_end_while_the_server_starts_leaves_no_folder(scratch, monkeypatch):
    def terminated(*_, **__):
        raise SystemExit(143)

    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(subprocess, "Popen", terminated)
    with pytest.raises(SystemExit):
        Server(Path(sys.executable), dict(os.environ))
    assert not left_over(scratch)


def real_rows(**programs):
    return [
        Row(code, "a-rule", "", "step", *texts, None, Level.E0) for code, texts in programs.items()
    ]


CONSTANT = "def run(steps):\n    return {value}\n"


def test_programs_that_go_wrong_are_told_apart(monkeypatch, capsys):
    same = CONSTANT.format(value=1)
    rows = [
        *real_rows(
            GOOD=(same, same),
            OTHER=(same, CONSTANT.format(value=2)),
            FAILS=(same, "def run(steps):\n    raise ValueError('on purpose')\n"),
            DIES=("import os\ndef run(steps):\n    os._exit(3)\n", same),
        ),
        Row("GPU", "a-rule", "", "step", "", "", None, Level.E0, "why", Needs.GPU),
        Row("GPUS", "a-rule", "", "step", "", "", None, Level.E0, "why", Needs.GPUS),
        Row("BAD", "a-rule", "", "step", "", "", None, Level.E0, broken="the habit is missing"),
    ]
    monkeypatch.setattr(command, "rows", lambda *_, **__: rows)
    monkeypatch.setenv("PYTHONPATH", eager_path(os.environ.get("PYTHONPATH", "")))
    options = {"device": "cpu", "time_budget": "10s", "python": None, "json": None, "html": None,
               "color": "never", "quiet": True, "quick": True}  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    assert command.bench([], options) == 1
    assert signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr().out
    assert "OTHER: changes results\n  | before and after compute what is 1 apart" in said
    assert "ValueError: on purpose" in said
    assert "DIES: failed\n  | the process ended with 3: it said nothing" in said
    assert "BAD: failed\n  | the habit is missing" in said
    assert "GOOD:" not in said
    assert "left out, since they need a GPU: GPU\n" in said
    assert "left out, since they need several GPUs: GPUS\n" in said


def arm(seconds, **more):
    return Arm(seconds, seconds, **more)


def shown(one):
    """Return the cells of a row's line by the heads of their columns."""
    return {
        column.header.replace("\n", " "): text
        for column in table.columns([one])
        for text, _ in column.cells
    }


def measured_row(before, after, check=None):
    row = Row("TL1", "a-rule", "", "step", "", "", None, Level.E0)
    pairs = [Pair(before, after), Pair(arm(0.03), arm(0.01))]
    found = Measured(row, pairs, check or Check(0.0, equal=True, allowed=True))
    found.interval = Interval(2.0, 3.0, 4.0)
    return found


def test_what_a_fix_takes_once_is_shown_with_the_steps_after_which_it_pays():
    compiled = measured_row(arm(0.03, setup=0.5), arm(0.01, setup=20.5))
    assert compiled.break_even == pytest.approx(1000)
    assert (shown(compiled)["set-up"], shown(compiled)["pays after"]) == (
        "500 ms > 20.5 s", "1,000 steps",
    )  # fmt: skip
    quick = measured_row(arm(0.03, setup=0.5), arm(0.01, setup=0.51))
    assert quick.break_even is None
    assert shown(quick)["set-up"] == ""


@pytest.mark.parametrize(("host", "regime"), [(0.97, "launch-bound"), (0.4, "GPU-bound")])
def test_a_row_says_what_its_turns_are_bound_by(host, regime):
    found = measured_row(arm(0.03, setup=0.0, host=1.0), arm(0.01, setup=0.0, host=host))
    assert shown(found)["bound by"] == regime
    assert json_report.content_of(found, MACHINE)["regime"] == regime


def test_memory_and_waits_are_those_of_the_launch_that_saw_them():
    found = measured_row(
        arm(0.03, setup=0.0, memory=2**20, syncs=2.0), arm(0.01, setup=0.0, memory=2**21, syncs=0.0)
    )
    assert shown(found)["waits"] == "2 > 0"
    assert ">" in shown(found)["memory"]


def test_results_that_stray_by_themselves_say_so():
    check = Check(2e-7, equal=False, allowed=True, itself=1e-7)
    found = measured_row(arm(0.03), arm(0.01), check)
    assert shown(found)["results"] == "E0, 2e-07 apart, before itself 1e-07"
