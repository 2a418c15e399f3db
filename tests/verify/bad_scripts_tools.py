"""Calls `torchlint verify` from a test, with torch itself or with a quick stand-in for it."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from executor_tools import MARK, Place, unchanged

from torchlint import cli

if TYPE_CHECKING:
    import pytest

PROJECT = Path(__file__).parents[2]

# Stands for torch and for the worker in it: so many steps, then a record and out.  What a step
# takes and computes follows from the script's text: some habits cost a fifth of the time; SLOW and
# OTHER are planted there by tests.
STAND_IN = """
import json, os, sys

plan = json.load(open(os.environ["TORCHLINT_VERIFY"]))
text = open(sys.argv[0]).read()
costly = (
    "anomaly(True)", "none=False", "8, 4).to", "empty_cache", "synchronize", "cuda.amp", "item()"
)
state = {"anomaly": False, "steps": 0}

class Anything:
    grad = 0.0
    def __init__(self, *_, **__): pass
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    def __call__(self, *_, **__): return self
    def __iter__(self): return iter((self,))
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def __iadd__(self, _): return self
    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __iadd__
    def __float__(self): return 1.0
    def __format__(self, _): return "1"
    def __bool__(self): return False

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()

for name in ("cuda", "cuda.amp", "utils", "utils.data"):
    sys.modules["torch." + name] = Anything()

class autograd:
    @staticmethod
    def set_detect_anomaly(mode): state["anomaly"] = mode

def is_anomaly_enabled(): return state["anomaly"]

class optim:
    class SGD:
        def __init__(self, *_, **__): pass
        def zero_grad(self, set_to_none=True): Anything.grad = None if set_to_none else 0.0
        def step(self):
            state["steps"] += 1
            if state["steps"] >= plan["steps"]:
                end()

def end():
    step = 0.01 * 1.2 ** sum(habit in text for habit in costly) * (1.5 if "SLOW" in text else 1.0)
    times = [1 + step * k for k in range(state["steps"])]
    losses = [2.0 if "OTHER" in text else 1.0] * len(times)
    told = dict(
        version=1, rank=0, world=1, ended="bound", device="cpu", torch="2.9", steps=[times],
        optimizers=["SGD"], backwards=times, waits=[], start=0.0, workers=0, turns=[],
        reached={file: dict.fromkeys(lines, 9) for file, lines in plan["lines"].items()},
        modules=[os.path.abspath(sys.argv[0])], writes=[], trace=None, python="3", cuda=None,
        gpus=1, driver=None, threads=1, libraries={}, memory={}, busy=None,
    )
    if plan["phase"] == "trace":
        told["trace"] = dict(
            losses=losses, batches=[], initial="i", parameters=str(losses[0]), norms=losses[:1],
            random="r", reads=[],
        )
    path = os.path.join(plan["records"], "0-1.json")
    with open(path + ".part", "w") as file:
        file.write(json.dumps(told))
    os.rename(path + ".part", path)
    os._exit(0)
"""

# The same call in a process of its own, which can be sent signals.
CALL = """
import sys
from pathlib import Path
from torchlint import cli
from torchlint.verify import record
record.INJECT = Path(sys.argv[1])
sys.exit(cli.main(sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a call of the command."""

    code: int
    out: str
    err: str

    def says(self, words: str) -> bool:
        """Whether the words were said, wherever lines were broken."""
        return " ".join(words.split()) in " ".join((self.out + self.err).split())


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls `torchlint verify train.py`, and looks that nothing is left and nothing changed."""

    here: Place
    capfd: pytest.CaptureFixture[str]

    def __call__(self, code: str, *options: str) -> Done:
        self.write(code)
        with unchanged(self.here.root):
            return self.changing(*options)

    def write(self, code: str) -> None:
        self.here.write({"train.py": textwrap.dedent(code)})

    def changing(self, *options: str) -> Done:
        """Call it where the project may change."""
        self.capfd.readouterr()
        code = cli.main(words(*options))
        assert self.here.processes() == []
        assert list(self.here.temporary.iterdir()) == []
        return Done(code, *self.capfd.readouterr())


def words(*options: str) -> list[str]:
    """Return the arguments of a call; options that are given come last, and count."""
    usual = ("--quiet", "--isolated", "--root", ".", "--select", "TL901", "--pairs", "3")
    return ["verify", *usual, "--steps", "20", "--mode", "sequential", *options, "train.py"]


def stand_in(here: Place) -> Path:
    """Write the stand-in, and return the folder that goes first in Python's path."""
    folder = here.root.parent / "inject"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(STAND_IN, "utf-8")
    return folder


def own_process(here: Place, *options: str) -> list[str]:
    """Return the command that makes the call with the stand-in, in a process of its own."""
    return [sys.executable, "-c", CALL, str(stand_in(here)), *words(*options)]


def environment(here: Place) -> dict[str, str]:
    """Return what such a process needs to know."""
    paths = os.pathsep.join((str(PROJECT), str(PROJECT / "rules")))
    return {**os.environ, MARK: here.mark, "TMPDIR": str(here.temporary), "PYTHONPATH": paths}
