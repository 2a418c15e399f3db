"""Runs, configurations and results that tests of verify make up."""

from __future__ import annotations

from itertools import accumulate

from torchlint.rule import Level
from torchlint.verify.model import (
    Agreement,
    Configuration,
    Ending,
    Judgement,
    Phase,
    Record,
    Run,
    Same,
    Sample,
)
from torchlint.verify.statistics import judge


def record(*lengths: float, rank: int = 0, **known) -> Record:
    """Return a process whose first step ended at 100 s and whose others took ``lengths``."""
    ends = tuple(accumulate(lengths, initial=100.0))
    values = {
        "rank": rank, "world": 1, "ended": "bound", "device": "cpu", "torch": "2.13",
        "steps": (ends,), "optimizers": ("SGD",), "backwards": ends, "waits": (), "start": 0.0,
        "workers": 0,
    }  # fmt: skip
    return Record(**(values | known))


def run(*records: Record, phase: Phase = Phase.TIMING, ending=Ending.BOUND, **known) -> Run:
    values = {"configuration": "x", "code": 0, "stderr": "", "seconds": 1.0, "rss": 0}
    return Run(**(values | known), phase=phase, ending=ending, records=records)


def configuration(*codes: str, level: Level = Level.E1, safety=None, **known) -> Configuration:
    values = {"files": {"train.py": b""}, "lines": {"train.py": frozenset({3})}}
    name = "+".join(codes) or "before"
    return Configuration(name=name, codes=codes, safety=safety, level=level, **(values | known))


def agreement(same: Same = Same.BITWISE, *, allowed: bool = True) -> Agreement:
    return Agreement(same, allowed, None, 0.0, "evidence")


def judged(ratio: float, spread: float = 0.002, count: int = 5, *, last: bool = False) -> Judgement:
    """Return what pairs say that lie evenly around a ratio."""
    steps = [ratio * (1 + spread * (k - (count - 1) / 2)) for k in range(count)]
    return judge([Sample(each, 1.0, "sequential") for each in steps], last=last)
