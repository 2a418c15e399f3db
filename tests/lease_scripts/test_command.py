"""The command, end to end on a CPU: what ends badly costs only itself, and loses no pair."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evidence
import pytest
from eager_tools import eager_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "benchmarks" / "gpu.py"
# The command with scripts of the test's own.
RUNNER = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(COMMAND.parent)!r})
import gpu, whole_scripts
gpu.LEAST = 2
own = Path(sys.argv.pop(1))
gpu.scripts = lambda *_: (
    {{file.stem: whole_scripts.Script(file.stem, own, (file.name,), (file.name,))
      for file in sorted(own.glob("*.py"))}},
    {{"absent": "absent: there is no checkout"}},
)
sys.exit(gpu.main())
"""
ANOMALY = """
import torch
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
for step in range(1_000_000):
    loss = model(torch.rand(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Command:
    """The command with the scripts of a folder, and where it writes."""

    def __init__(self, folder: Path) -> None:
        self.scripts, self.out = folder / "own", folder / "out"
        self.scripts.mkdir()
        self.log = self.out / "runs.jsonl"

    def start(self, *options: str) -> subprocess.Popen[str]:
        words = (
            "-c", RUNNER, self.scripts, "--device", "cpu", "--known", self.out, "--evidence",
            self.out, "--log", self.log, *options,
        )  # fmt: skip
        return subprocess.Popen(
            [sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, stdin=subprocess.DEVNULL,
            env={
                **os.environ, "TORCHLINT_TEST_MARK": str(self.out),
                "PYTHONPATH": eager_path(os.environ.get("PYTHONPATH", "")),
            },
        )  # fmt: skip

    def run(self, *options: str) -> tuple[int, str]:
        process = self.start(*options)
        told = process.communicate(timeout=240)[1]
        return process.returncode, told

    def entries(self) -> dict[str, Any]:
        scripts: dict[str, Any] = evidence.read(self.out)[0]["scripts"]
        return scripts

    def events(self) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.is_file() else ""
        return [json.loads(line) for line in text.splitlines()]

    def alive(self) -> list[Path]:
        """Return the processes that it started, or that these did."""
        mark = f"TORCHLINT_TEST_MARK={self.out}".encode()
        return [path for path in Path("/proc").glob("[0-9]*") if mark in _environment(path)]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it is gone, or another's
        return b""


@pytest.fixture
def command(tmp_path) -> Iterator[Command]:
    made = Command(tmp_path)
    yield made
    assert made.alive() == []


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigterm_leaves_every_pair_and_no_process_and_a_later_run_goes_on(command) -> None:
    (command.scripts / "train.py").write_text(ANOMALY)
    options = ("--steps", "16", "--mode", "lockstep", "--budget", "200s")
    process = command.start(*options)
    wait_for(lambda: any(event["what"] == "pair" for event in command.events()))
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 3, told
    assert command.alive() == []
    [entry] = command.entries().values()
    first = entry["rows"]["all proven fixes"]["samples"]
    pairs = [event for event in command.events() if event.get("before")]
    assert entry["status"] == "partial"
    assert [pair["before"] for pair in first] == [pair["before"] for pair in pairs]
    assert "pair: train: TL" in told  # in plain lines, as this is no terminal
    assert "run 1 of " in told

    code, told = command.run(*options, "--pairs", "3", "--time-budget", "200s")
    assert code == 0, told
    [entry] = command.entries().values()
    assert entry["status"] == "done"
    row = entry["rows"]["all proven fixes"]
    assert "TL901" in row["codes"]
    assert row["samples"][: len(first)] == first
    assert len(row["samples"]) >= 3

    before = (command.out / "cpu.json").read_bytes()
    code, told = command.run(*options)
    assert (code, told.count("run 1 of")) == (0, 0)  # it is done
    assert (command.out / "cpu.json").read_bytes() == before


def test_a_script_that_fails_hangs_or_ends_early_costs_only_itself(command) -> None:
    for name, text in {
        "a_fails": "raise SystemExit('no such data')",
        "b_hangs": "import time; time.sleep(600)",
        "c_ends": "print('nothing to train')",
    }.items():
        (command.scripts / f"{name}.py").write_text(text)
    code, told = command.run("--budget", "4s")
    assert code == 1
    assert "left out: absent: there is no checkout" in told
    entries = command.entries()
    assert {name: entry["status"] for name, entry in entries.items()} == {
        "a_fails": "failed", "b_hangs": "failed", "c_ends": "failed",
    }  # fmt: skip
    assert "no such data" in entries["a_fails"]["error"]
    assert "optimizer steps in" in entries["b_hangs"]["error"]
    assert {event["what"] for event in command.events()} >= {"script", "failed", "left out"}


def test_a_hanging_script_is_not_blamed_where_the_command_had_no_time_for_it(command) -> None:
    (command.scripts / "hangs.py").write_text("import time; time.sleep(600)")
    code, told = command.run("--budget", "300s", "--time-budget", "16s")
    assert code == 3
    assert "the command had no more time" in told
    assert not (command.out / "cpu.json").exists()


def test_a_disk_that_is_full_is_told_and_ends_nothing(command) -> None:
    (command.scripts / "fails.py").write_text("raise SystemExit(1)")
    command.out.write_text("a file where the folder should be")
    code, told = command.run("--budget", "10s")
    assert code == 1
    assert told.count("not written: ") == 1
    command.out.unlink()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--scripts", "nothing"), "no script is named nothing"),
        (("--pairs", "2"), "--pairs takes"),
        (("--time-budget", "soon"), "--time-budget takes"),
    ],
)
def test_wrong_use_is_said_at_once(command, options, problem) -> None:
    code, told = command.run(*options)
    assert code == 2
    assert problem in told


def test_without_a_gpu_there_is_no_evidence_of_one(command) -> None:
    (command.scripts / "x.py").write_text("")
    code, told = command.run("--device", "cuda")
    assert code == 2
    assert "no CUDA device" in told
    assert not command.out.exists()
