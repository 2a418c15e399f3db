"""Writes the record of this process; `torchlint.verify.record` reads it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import places
from .versions import versions

if TYPE_CHECKING:
    from .state import State

VERSION = 1
_WRITES = 100  # paths that are named at most


def names(folder: str) -> list[str]:
    """Return the names of the records that are there."""
    return [name for name in os.listdir(folder) if name.endswith(".json")]


def write(state: State, ended: str) -> None:
    """Write `<rank>-<process id>.json`, which is there whole or not at all; may raise OSError."""
    content = json.dumps(_content(state, ended))
    name = f"{state.ranks()[0]}-{os.getpid()}.json"
    path = os.path.join(state.plan.records, name)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(content)
    os.replace(path + ".part", path)


def _content(state: State, ended: str) -> dict[str, Any]:
    rank, world = state.ranks()
    optimizers = [stepper.optimizer() for stepper in state.steppers]
    device = state.device
    return {
        "version": VERSION,
        "rank": rank,
        "world": world,
        "ended": ended,
        "device": device.name([each for each in optimizers if each is not None]),
        **versions(state.torch, cuda=device.is_cuda(), ask=state.plan.phase == "pilot"),
        "steps": [_seconds(stepper.times) for stepper in state.steppers],
        "optimizers": [stepper.name for stepper in state.steppers],
        "backwards": _seconds(state.backwards),
        "waits": [(end / 1e9, length / 1e9) for end, length in state.waits],
        "start": state.start / 1e9,
        "workers": state.workers,
        "turns": state.turns,
        "reached": state.lines.reached() if state.lines else {},
        "modules": places.imported_files(state.plan, state.main),
        "writes": list(dict.fromkeys(state.writes))[:_WRITES],
        "trace": state.trace.content(state) if state.trace else None,
        "memory": device.memory(),
        "busy": state.trace.busy.share if state.trace else None,
    }


def _seconds(times: list[int]) -> list[float]:
    return [time / 1e9 for time in times]
