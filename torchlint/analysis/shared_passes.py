"""One function for training and evaluation: it runs backward only where a flag asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.asked import ASKING, differentiates
from torchlint.analysis.attached import Held, held
from torchlint.analysis.escapes import escapes
from torchlint.analysis.evaluations import asks_for_gradients, records_nothing
from torchlint.analysis.reach import callee, callers
from torchlint.analysis.recording import Recording
from torchlint.analysis.training_steps import is_loss
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_RECORDED = (Recording.ON, Recording.ASSUMED)
_OFF = frozenset({"False", "None", "0"})
_ON = frozenset({"True", "1"})


@dataclass(frozen=True, slots=True, eq=False)
class _Flag:
    """A parameter by which a branch is taken, and what it is where the branch is left out."""

    param: cst.Param
    leaves_out: frozenset[str]


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
        branch = program.index.nearest(call, cst.If)
        if function is None or branch is None or id(function) in seen:
            continue
        seen.add(id(function))
        flag = _flag(program, function, branch)
        forward = None if flag is None else _forward(program, function, branch)
        if flag is not None and forward is not None:
            found = next(_evaluating(program, function, flag), None)
            if found is not None:
                yield SharedPass(forward, *found)


def _flag(program: Program, function: cst.FunctionDef, branch: cst.If) -> _Flag | None:
    """Return the parameter by which a branch is taken, if all that asks for gradients is there.

    None as well where something leaves the function with its graph: its caller may ask.
    """
    leaves_out = _OFF
    match branch.test:
        case cst.Name() as test:
            pass
        case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name() as test):
            leaves_out = _ON
        case cst.Comparison(
            left=cst.Name() as test,
            comparisons=[cst.ComparisonTarget(operator=cst.IsNot(), comparator=cst.Name("None"))],
        ):
            pass
        case _:
            return None
    if _asks_beside(program, function, branch) or any(True for _ in escapes(program, function)):
        return None
    match program.flow.reaching(test):
        case (binding,) if isinstance(binding.value, cst.Param):
            own = program.function(binding.value) is function
            return _Flag(binding.value, leaves_out) if own else None
        case _:
            return None


def _asks_beside(program: Program, function: cst.FunctionDef, branch: cst.If) -> bool:
    """Whether a function, or one that it calls, asks for gradients outside of a branch."""
    index = program.index
    for name in index.below(function, cst.Name):
        if name.value in ASKING and not index.inside(name, branch.body):
            return True
    for call in index.below(function, cst.Call):
        if index.inside(call, branch.body):
            continue
        found = callee(program, call)
        if found is None and branch.orelse is not None and index.inside(call, branch.orelse):
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


def _forward(program: Program, function: cst.FunctionDef, branch: cst.If) -> cst.Call | None:
    """Return the first call of a model before the branch that runs backward."""
    for call in program.index.below(function, cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            func = func.value
        if (
            program.index.order(call) < program.index.order(branch)
            and program.value(func).kind is Kind.MODULE
            and not is_loss(program, func)
            and program.recordings.at(call) is Recording.ON
            and not records_nothing(program, call)
        ):
            return call
    return None


def _evaluating(
    program: Program, function: cst.FunctionDef, flag: _Flag
) -> Iterator[tuple[Program, cst.Call]]:
    """Yield the calls that leave the branch out, with the files they stand in."""
    for home, site in callers(program, function):
        if any(arg.star for arg in site.args):
            continue
        given = program.calls.passed(function, flag.param, site) or flag.param.default
        if literal(given) in flag.leaves_out and home.recordings.at(site) in _RECORDED:
            yield home, site
