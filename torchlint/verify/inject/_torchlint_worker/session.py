"""Puts the parts together when torch has come in."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

from . import family, hooks
from .bound import bound_for
from .device import Device
from .ending import Ending
from .finder import after_import
from .hold import hold
from .seeds import seed_torch
from .state import State
from .writes import guard_torch

if TYPE_CHECKING:
    from .early import Early


def begin(torch: Any, early: Early) -> None:
    """Install all hooks that the plan's phase needs, and the ways out."""
    state = State(early, torch, Device(torch))
    if state.trace is not None:
        seed_torch(torch, state.plan.reseed)
        after_import("torch._inductor.config", _draw_as_eager_does)
    after_import("torch._dynamo.trace_rules", _do_not_compile)
    if state.lines is not None:
        after_import("torch._guards", state.lines.count_compiled)
    ending = Ending(state)
    hooks.install(torch, state, bound_for(state, ending.end))
    guard_torch(torch, early.guard)
    family.end_with_children(state, ending)
    atexit.register(ending.exits)
    os._exit = ending.exits_at_once
    os.register_at_fork(after_in_child=state.clear)  # a child's record is of its own steps
    hold(state.plan)


def _do_not_compile(rules: Any) -> None:
    """Let the compiler leave the hooks alone; it would make graphs of them, and of what they do."""
    if hasattr(rules, "add"):
        rules.add(__name__.partition(".")[0])


def _draw_as_eager_does(config: Any) -> None:
    """Let compiled code draw the random numbers that eager code would: else dropout differs."""
    config.fallback_random = True
