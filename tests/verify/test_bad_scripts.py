"""Scripts that behave badly, fixes that do harm: from the command line to words and exit code."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from bad_scripts_tools import Caller, Done, stand_in
from executor_tools import MARK, Place, place

from torchlint import cli
from torchlint.verify import executor, launches, pilot, processes, record
from torchlint.verify.plan import Fixer
from torchlint.verify.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.run import Checked
    from torchlint.verify.model import Configuration

MEASURED, FAULT, INTERRUPTED = 0, 2, 130  # exit codes

TRAINING = """
import json, os, signal, sys, time
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(4, 20_000)
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
if __name__ == "never":
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
            ("give the script its own arguments after `--`", "are required: --data"),
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
            ("the script made no optimizer steps in 1 s; at least 4 are needed", "errerr"),
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
            ("made 1 optimizer step; at least 4 are needed", "longer, such as --epochs"),
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


QUICK_MANNERS = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    time.sleep(99)
here = os.path.dirname(os.path.abspath(__file__))
os.chdir("/")
try:
    for step in train(999):
        try:
            open(os.path.join(here, f"{step}.pt"), "w").close()
            print("out" * 9999)
            print("err" * 9999, file=sys.stderr)
        except:
            pass
finally:
    os._exit(7)
"""


@pytest.mark.usefixtures("quick")
def test_bad_manners_in_every_phase(
    here: Place, verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LINGER", 0.1)  # seconds, which the child uses up each time
    done = verify(TRAINING + QUICK_MANNERS, *TOLD)
    assert done.code == MEASURED, done.err
    told = results(here)
    assert (told["TL901"]["verdict"], told["TL901"]["keep"]) == ("faster", True)
    phases = [run["phase"] for run in told["TL901"]["runs"]]
    assert phases == ["trace", "timing", "timing", "timing"]


def plant(monkeypatch: pytest.MonkeyPatch, code: str, old: bytes, new: bytes) -> None:
    """Let the fix of a rule write something else."""
    usual = Fixer._configuration

    def planted(self: Fixer, codes: tuple[str, ...], changed: list[Checked]) -> Configuration:
        made = usual(self, codes, changed)
        if code not in codes:
            return made
        assert all(old in data for data in made.files.values())
        return replace(made, files={n: data.replace(old, new) for n, data in made.files.items()})

    monkeypatch.setattr(Fixer, "_configuration", planted)


def results(here: Place) -> dict[str, dict[str, Any]]:
    """Return what the report says of each configuration, by its name."""
    told = json.loads((here.root.parent / "told.json").read_text("utf-8"))
    return {one["name"]: one for one in told["configurations"]}


TOLD = ("--json", "../told.json")
LOOP = "for step in train(99): pass"
ANOMALY = b"set_detect_anomaly(False)"


@pytest.mark.usefixtures("quick")
def test_a_fix_that_breaks_the_script(
    here: Place, verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "TL901", ANOMALY, b"no_such_thing()")
    done = verify(TRAINING + LOOP, *TOLD)
    assert done.code == MEASURED, done.err
    result = results(here)["TL901"]
    assert (result["verdict"], result["keep"]) == ("failed", False)
    assert "fails (exit code 1): AttributeError" in result["why"]
    assert "no_such_thing" in result["why"]
    assert done.says(result["why"]), done.out


@pytest.mark.usefixtures("quick")
def test_a_fix_with_which_the_script_never_ends(
    here: Place, verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "COMPILING", 0.0)
    monkeypatch.setattr(pilot, "START", 4.0)  # seconds
    monkeypatch.setattr(pilot, "SLACK", 1.0)
    plant(monkeypatch, "TL901", ANOMALY, b"is_anomaly_enabled() or time.sleep(99)")
    plant(monkeypatch, "TL901", b"torch.autograd.is_", b"torch.is_")
    done = verify(TRAINING + LOOP, *TOLD)
    assert done.code == MEASURED, done.err
    result = results(here)["TL901"]
    assert (result["verdict"], result["keep"]) == ("failed", False)
    assert done.says("the script with it did not come to an end in"), done.out


@pytest.mark.usefixtures("quick")
def test_two_fixes_that_only_fail_together(here: Place, verify: Caller) -> None:
    code = TRAINING + textwrap.dedent("""
        for step in train(99):
            if model.weight.grad is None and not torch.is_anomaly_enabled():
                raise ValueError("not both")
    """)
    done = verify(code, "--select", "TL901,TL602", *TOLD)
    assert done.code == MEASURED, done.err
    told = results(here)
    assert {told[code]["verdict"] for code in ("TL901", "TL602")} == {"faster"}
    assert "ValueError: not both" in told["all"]["why"]
    assert sum(told[code]["keep"] for code in ("TL901", "TL602")) == 1
    assert done.says("left out: fails or changes results together with TL"), done.out


def test_a_safe_fix_that_is_not(
    here: Place, verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With torch itself: what another start of the random numbers changes has to be seen."""
    plant(monkeypatch, "TL901", ANOMALY, ANOMALY + b"; torch.manual_seed(7)")
    done = verify(TRAINING + LOOP, *TOLD)
    assert done.code == MEASURED, done.err
    result = results(here)["TL901"]
    assert (result["verdict"], result["keep"]) == ("changes-results", False)
    assert done.says("a bug of torchlint, please report it"), done.out
    assert {run["phase"] for run in result["runs"]} == {"trace"}


TEN = """
import numpy as np
import torch
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

torch.autograd.set_detect_anomaly(True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Linear(4, 128), torch.nn.Linear(128, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler()
loader = DataLoader(TensorDataset(torch.rand(512, 4)), batch_size=8, num_workers=2)


def train():
    total, history = 0.0, []
    for (x,) in loader:
        x = x.to(device)
        noise = torch.randn(8, 4).to(device)
        weights = torch.tensor(np.ones(4) / 4)
        rows = torch.tensor([np.ones(4), np.zeros(4)])
        with autocast():
            loss = (model(x + noise) * weights.to(device)).square().mean()
        optimizer.zero_grad(set_to_none=False)
        scaler.scale(loss).backward()
        torch.cuda.synchronize()
        optimizer.step()
        torch.cuda.empty_cache()
        total += loss.item()
        history.append(loss)
    return total


for epoch in range(99):
    train()
"""
TEN_CODES = "TL102 TL201 TL208 TL209 TL301 TL302 TL303 TL402 TL602 TL901".split()


@pytest.mark.usefixtures("quick")
def test_of_ten_fixes_the_harmful_one_is_left_out(
    here: Place, verify: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [code for code in TEN_CODES if code != "TL302"]
    verify.write(TEN)
    fix = ("--fix-only", "--unsafe-fixes", "--select", ",".join(others))
    assert cli.main(["check", "--isolated", *fix, "train.py"]) == 0
    expected = (here.root / "train.py").read_text("utf-8")
    verify.write(TEN)
    old = b"weights = torch.as_tensor(np.ones(4) / 4)"
    plant(monkeypatch, "TL302", old, old + b"  # SLOW")
    done = verify.changing("--select", ",".join(TEN_CODES), "--apply", *TOLD)
    assert done.code == MEASURED, done.err
    told = results(here)
    assert [code for code in TEN_CODES if told[code]["keep"]] == others
    assert told["TL302"]["verdict"] == "slower"
    assert done.says(f"Applied {', '.join(others)} to train.py."), done.out
    assert (here.root / "train.py").read_text("utf-8") == expected
