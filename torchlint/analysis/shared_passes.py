"""One function for training and evaluation: it runs backward only where a flag asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.asked import ASKING, differentiates
from torchlint.analysis.attached import Held, held
from torchlint.analysis.escapes import escapes
from torchlint.analysis.evaluations import asks_for_gradients, records_nothing
from torchlint.analysis.modes import only_in_training
from torchlint.analysis.reach import callee, callers
from torchlint.analysis.reached_returns import Way
from torchlint.analysis.recording import Recording
from torchlint.analysis.training_steps import is_loss
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_RECORDED = (Recording.ON, Recording.ASSUMED)


@dataclass(frozen=True, slots=True, eq=False)
class SharedPass:
    """A forward pass of such a function, and a call of the function that only evaluates."""

    forward: cst.Call
    home: Program
    site: cst.Call


def shared_passes(program: Program) -> Iterator[SharedPass]:
    """Find the functions that a call runs without backward, though with recording."""
    if "backward" not in program.text or asks_for_gradients(program):
        return
    seen: set[int] = set()
    for call, _ in program.method_calls("backward"):
        function = program.function(call)
        if function is None or id(function) in seen or not Way(program, function).comes_to(call):
            continue
        seen.add(id(function))
        found = next(_evaluating(program, function, call), None)
        if found is not None and not any(True for _ in escapes(program, function)):
            yield found


def _evaluating(
    program: Program, function: cst.FunctionDef, backward: cst.Call
) -> Iterator[SharedPass]:
    """Yield the calls of a function that pass by all that asks for gradients in it.

    Where something leaves the function with its graph, its caller may ask.
    """
    for home, site in callers(program, function):
        if any(arg.star for arg in site.args) or home.recordings.at(site) not in _RECORDED:
            continue
        way = Way(program, function, site)
        if way.comes_to(backward) or _asks(program, function, way):
            continue
        forward = _forward(program, function, backward, way)
        if forward is not None:
            yield SharedPass(forward, home, site)


def _asks(program: Program, function: cst.FunctionDef, way: Way) -> bool:
    """Whether a function, or one that it calls, asks for gradients on the way of a call."""
    index = program.index
    if any(one.value in ASKING and way.comes_to(one) for one in index.below(function, cst.Name)):
        return True
    for call in index.below(function, cst.Call):
        if not way.comes_to(call):
            continue
        found = callee(program, call)
        if found is None and way.is_chosen(call):
            if _may_go_back(program, call):
                return True
        elif found is not None and found[1] is not function and differentiates(*found):
            return True
    return False


def _may_go_back(program: Program, call: cst.Call) -> bool:
    """Whether what is not seen gets a tensor with its graph: ``engine.learn(loss)``."""
    if program.qualified(call.func).startswith("torch."):
        return False
    if isinstance(call.func, cst.Name) and program.is_builtin(call.func):
        return False
    return any(held(program, arg.value) is not Held.NO for arg in call.args)


def _forward(
    program: Program, function: cst.FunctionDef, backward: cst.Call, way: Way
) -> cst.Call | None:
    """Return the first call of a model, before what runs backward, on the way of a call."""
    for call in program.index.below(function, cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            func = func.value
        if (
            program.index.order(call) < program.index.order(backward)
            and program.value(func).kind is Kind.MODULE
            and not is_loss(program, func)
            and program.recordings.at(call) is Recording.ON
            and way.comes_to(call)
            and not only_in_training(program, call, dotted(func))
            and not records_nothing(program, call)
        ):
            return call
    return None
