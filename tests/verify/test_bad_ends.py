"""Verifications that end early: Ctrl-C, a full disk, no torch, a harness that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from bad_scripts_tools import Caller, environment, own_process
from executor_tools import MARK, Place, place, unchanged

from torchlint.verify import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULT, INTERRUPTED = 2, 130  # exit codes
TRAINING = """
import json, os, sys, time
import torch

torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(99):
    loss = model(torch.rand(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
# In one phase it says where it is, and goes on for ever, with a child of its own.
HANGING = """
    phase = json.load(open(os.environ["TORCHLINT_VERIFY"]))["phase"]
    if step == 7 and phase == os.environ["TEST_HANGS_IN"]:
        print("hangs in", phase, file=sys.stderr, flush=True)
        os.fork() or os.setsid()
        open(os.environ["TEST_REACHED"], "w").close()
        time.sleep(99)
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(processes, "GRACE", 0.3)
    with place(monkeypatch) as made:
        monkeypatch.setenv(MARK, made.mark)
        monkeypatch.chdir(made.root)
        yield made


@pytest.fixture
def verify(here: Place, capfd: pytest.CaptureFixture[str]) -> Caller:
    return Caller(here, capfd)


def begun(here: Place, phase: str) -> subprocess.Popen[str]:
    """Start a verification, and return it when the script hangs in a phase."""
    reached = here.root.parent / "reached"
    more = {"TEST_HANGS_IN": phase, "TEST_REACHED": str(reached)}
    harness = subprocess.Popen(
        own_process(here),
        cwd=here.root,
        env=environment(here) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not reached.exists():
        assert harness.poll() is None, harness.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return harness


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("pilot", signal.SIGINT),
        ("trace", signal.SIGINT),
        ("timing", signal.SIGINT),
        ("trace", signal.SIGTERM),
    ],
)
def test_an_interrupt_says_what_is_known(here: Place, phase: str, number: signal.Signals) -> None:
    here.write({"train.py": TRAINING + HANGING})
    with unchanged(here.root):
        harness = begun(here, phase)
        harness.send_signal(number)
        out, err = harness.communicate(timeout=60)
    assert harness.returncode == INTERRUPTED
    if phase == "pilot":
        assert (out, err) == ("", "interrupted in the first run: nothing is known yet\n")
    else:
        assert err == ""
        assert "TL901 detect-anomaly-on" in out
        assert "not measured" in out
        assert "interrupted" in out.lower()


def test_what_a_killed_harness_leaves_is_swept_by_the_next(here: Place, verify: Caller) -> None:
    here.write({"train.py": TRAINING + HANGING})
    harness = begun(here, "trace")
    harness.kill()
    harness.communicate(timeout=60)
    assert here.processes() != []
    assert list(here.temporary.iterdir()) != []
    done = verify("int('second')\n" + TRAINING)  # looks that nothing is left
    assert done.code == FAULT
    assert done.says("ValueError: invalid literal for int() with base 10: 'second'")


def test_no_torch(verify: Caller, here: Place) -> None:
    python = here.root / "bin" / "python"
    here.write({"bin/python": f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n'})
    python.chmod(0o755)
    done = verify(TRAINING, "--python", "bin/python")
    assert (done.code, done.out) == (FAULT, "")
    assert done.says("bin/python: torch is not installed for this Python; activate"), done.err


def on_a_disk_of(here: Place, kibibytes: int) -> subprocess.CompletedProcess[str]:
    """Verify where the temporary folder is a disk of its own; last is said what is left there."""
    mount = f"mount -t tmpfs -o size={kibibytes}k none {here.temporary} || exit 77"
    script = f'{mount}; "$@"; code=$?; ls -A {here.temporary}; exit $code'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *own_process(here)],
        cwd=here.root,
        env=environment(here),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this system allows no disk in a user namespace")
    return done


@pytest.mark.parametrize(
    "kibibytes",
    [
        pytest.param(4, id="for-the-copy"),
        pytest.param(8, id="for-the-plan"),
        pytest.param(12, id="for-the-record"),
        pytest.param(16, id="for-the-fix"),
    ],
)
def test_no_space(here: Place, kibibytes: int) -> None:
    here.write({"train.py": TRAINING})
    with unchanged(here.root):
        done = on_a_disk_of(here, kibibytes)
    assert (done.returncode, done.stdout) == (FAULT, ""), done.stdout
    assert done.stderr.startswith(f"error: {here.temporary}/torchlint-verify-")
    assert "no space is left on the disk" in done.stderr


def test_space_enough(here: Place) -> None:
    here.write({"train.py": TRAINING})
    assert on_a_disk_of(here, 9999).returncode == 0
