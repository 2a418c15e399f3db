"""What the harness told this process to do: the file that `TORCHLINT_VERIFY` names."""

from __future__ import annotations

import json
import os
from typing import NamedTuple


class Anchor(NamedTuple):
    """What counts as a step: the optimizer with this index, or an outermost backward."""

    kind: str
    which: int


class Turns(NamedTuple):
    """Lockstep: this process and another take turns, told through two FIFOs.

    A turn is ``warm`` steps and then the ``size`` steps that are timed.  Before the first step it
    says by the file ``held`` that it waits for a byte in the FIFO ``hold``.
    """

    size: int
    go: str
    done: str
    warm: int = 0
    hold: str = ""
    held: str = ""


class Plan(NamedTuple):
    """The keys are those of `torchlint.verify.record.write_plan`; paths are absolute and real."""

    phase: str
    steps: int
    warmup: int
    anchor: Anchor | None
    reseed: int
    seconds: float
    records: str
    root: str
    original: str
    lines: dict[str, list[int]]
    turns: Turns | None


def read(path: str) -> Plan:
    """Read a plan; raises what `open`, `json` and a missing key raise."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    anchor, turns = told["anchor"], told["turns"]
    return Plan(
        phase=told["phase"],
        steps=told["steps"],
        warmup=told["warmup"],
        anchor=Anchor(anchor["kind"], anchor["index"]) if anchor else None,
        reseed=told["reseed"],
        seconds=told["seconds"],
        records=os.path.realpath(told["records"]),
        root=os.path.realpath(told["root"]),
        original=os.path.realpath(told["original"]),
        lines=told["lines"],
        turns=Turns(**turns) if turns else None,
    )
