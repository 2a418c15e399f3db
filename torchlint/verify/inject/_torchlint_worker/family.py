"""Ends a process that only waits for its children, once they were ended at their bound."""

from __future__ import annotations

import json
import multiprocessing
import os
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from . import record

if TYPE_CHECKING:
    from .ending import Ending
    from .state import State


def end_with_children(state: State, ending: Ending) -> None:
    """Watch the joins: what a script does after its ranks would fail without their results."""
    join = BaseProcess.join
    bounded = False

    def joined(self: Any, timeout: float | None = None) -> None:
        nonlocal bounded
        join(self, timeout)
        if self.exitcode == 0 and not state.trained():
            bounded = bounded or _was_ended(state.plan.records, self.pid)
        if bounded and not any(not child.daemon for child in multiprocessing.active_children()):
            ending.out(0)

    BaseProcess.join = joined  # type: ignore[method-assign]


def _was_ended(folder: str, pid: int) -> bool:
    for name in record.names(folder):
        if name.endswith(f"-{pid}.json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return bool(json.load(file)["ended"] == "bound")
    return False
