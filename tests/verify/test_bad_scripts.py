"""Scripts that behave badly, fixes that do harm: from the command line to words and exit code."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from bad_scripts_tools import Caller, Done, environment, own_process, stand_in
from executor_tools import MARK, Place, place, unchanged

from torchlint.verify import processes, record, sandbox
from torchlint.verify.plan import Fixer
from torchlint.verify.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MEASURED, FAULT, INTERRUPTED = 0, 2, 130  # exit codes

TRAINING = """
import json, os, signal, sys, time
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for step in range(steps):
        loss = model(torch.rand(8, 4)).square().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        yield step
"""
# What the rule finds, without the seconds that torch takes.
QUICK = """
import os, signal, sys
if os.path.exists("never"):
    import torch
    torch.autograd.set_detect_anomaly(True)
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(processes, "GRACE", 0.3)  # seconds: some of these scripts use all of it
    with place(monkeypatch) as made:
        monkeypatch.setenv(MARK, made.mark)
        monkeypatch.chdir(made.root)
        yield made


@pytest.fixture
def verify(here: Place, capfd: pytest.CaptureFixture[str]) -> Caller:
    return Caller(here, capfd)


@pytest.fixture
def quick(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scripts train with a stand-in for torch."""
    monkeypatch.setattr(record, "INJECT", stand_in(here))


def complains(done: Done, *said: str) -> None:
    """Look that it was an error in plain words."""
    assert (done.code, done.out) == (FAULT, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err.partition("it last said")[0]
    for part in said:
        assert done.says(part), done.err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            "raise SystemExit('no GPU, no fun')",
            ("the script fails as it is (exit code 1); mend it", "no GPU, no fun"),
            id="fails-at-once",
        ),
        pytest.param(
            "print('hello', file=sys.stderr)",
            ("ended without a single optimizer step or backward pass", "it last said: hello"),
            id="never-steps",
        ),
        pytest.param(
            "input('learning rate? ')",
            ("the script fails as it is (exit code 1)", "EOFError: EOF when reading a line"),
            id="waits-on-standard-input",
        ),
        pytest.param(
            """
            import argparse
            parser = argparse.ArgumentParser()
            parser.add_argument('--data', required=True)
            parser.parse_args()
            """,
            ("(exit code 2)", "train.py: error: the following arguments are required: --data"),
            id="needs-arguments",
        ),
        pytest.param(
            "os._exit(3)", ("the script fails as it is (exit code 3)",), id="exits-at-once"
        ),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGKILL)",
            ("killed by signal 9 (SIGKILL): perhaps out of memory",),
            id="killed",
        ),
        pytest.param(
            "all = [bytearray(1 << 60)]",
            ("the script fails as it is (exit code 1)", "MemoryError"),
            id="out-of-memory",
        ),
        pytest.param(
            """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for _ in range(9000): print("out" * 99); print("err" * 99, file=sys.stderr)
            os.fork() or os.setsid()
            while True: signal.pause()
            """,
            ("the script made no two optimizer steps in 1 s", "errerr"),
            id="never-ends",
        ),
    ],
)
def test_scripts_that_never_train(verify: Caller, code: str, said: tuple[str, ...]) -> None:
    budget = "1s" if "pause" in code else "60s"
    complains(verify(QUICK + textwrap.dedent(code), "--time-budget", budget), *said)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            "for step in train(30):\n    if step == 6: raise ValueError('step 7')",
            ("the script fails as it is (exit code 1)", "ValueError: step 7"),
            id="fails-in-step-7",
        ),
        pytest.param(
            "list(train(1))",
            ("ended after fewer than two optimizer steps", "trains for longer"),
            id="steps-once",
        ),
    ],
)
def test_scripts_that_hardly_train(verify: Caller, code: str, said: tuple[str, ...]) -> None:
    complains(verify(TRAINING + code), *said)


ALL_MANNERS = """
import tempfile, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    time.sleep(99)
here = os.path.dirname(os.path.abspath(__file__))
os.chdir(tempfile.mkdtemp())
torch.save(model.state_dict(), os.path.join(here, "first.pt"))
try:
    for step in train(999):
        try:
            torch.save(model.state_dict(), os.path.join(here, "last.pt"))
            print("out" * 9999)
            print("err" * 9999, file=sys.stderr)
        except:
            pass
finally:
    torch.save(model.state_dict(), os.path.join(here, "final.pt"))
    os._exit(7)
"""


def test_a_script_with_bad_manners_is_measured(
    verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "is_over", True)  # after the pilot: torch takes its seconds
    done = verify(TRAINING + ALL_MANNERS)
    assert done.code == MEASURED, done.err
    assert done.says("TL901 detect-anomaly-on"), done.out
    assert done.says("not measured"), done.out


def results(done: Done) -> dict[str, str]:
    """Return the verdict of each fix, as the JSON has it."""
    told = json.loads(Path("../told.json").read_text("utf-8"))
    return {one["codes"][0]: one["verdict"] for one in told["fixes"]}
