"""`torchlint bench` with real runs of small programs: the table, the files, the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchlint.bench import command, runner
from torchlint.bench.model import Row
from torchlint.rule import Level

ROOT = Path(__file__).parents[2]


def call(*words, **environment):
    path = os.pathsep.join((str(ROOT), str(ROOT / "rules")))
    return subprocess.run(
        [sys.executable, "-m", "torchlint", "bench", *words],
        env={**os.environ, "PYTHONPATH": path, **environment},
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
    assert told["schema"] == 1
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
    path = os.pathsep.join((str(ROOT), str(ROOT / "rules")))
    process = subprocess.Popen(
        [sys.executable, "-m", "torchlint", "bench", "TL602", "--device", "cpu"],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (made := left_over(scratch)) and process.poll() is None:
        time.sleep(0.05)
    assert made
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not left_over(scratch)


def real_rows(**programs):
    return [
        Row(code, "a-rule", "", "step", *texts, None, Level.E0) for code, texts in programs.items()
    ]


CONSTANT = "def run(steps):\n    return {value}\n"


def test_programs_that_go_wrong_are_told_apart(monkeypatch, capsys):
    same = CONSTANT.format(value=1)
    rows = real_rows(
        GOOD=(same, same),
        OTHER=(same, CONSTANT.format(value=2)),
        FAILS=(same, "def run(steps):\n    raise ValueError('on purpose')\n"),
        DIES=("import os\ndef run(steps):\n    os._exit(3)\n", same),
    )
    monkeypatch.setattr(command, "rows", lambda *_, **__: rows)
    monkeypatch.setattr(runner, "SECONDS", 0.0)
    options = {"device": "cpu", "time_budget": "20s", "python": None, "json": None, "html": None,
               "color": "never", "quiet": True}  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    assert command.bench([], options) == 1
    assert signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr().out
    assert "OTHER: changes results\n  | before and after compute what is 1 apart" in said
    assert "ValueError: on purpose" in said
    assert "DIES: failed" in said
    assert "GOOD:" not in said
