"""Forward passes of what ``volatile=True`` keeps from being recorded, up to torch 0.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.evaluations import records_nothing
from torchlint.analysis.reach import callee
from torchlint.analysis.reached_returns import Way
from torchlint.analysis.recording import Recording
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


_CALLS = 2  # functions that call functions


def asks_for_volatile(program: Program, place: cst.CSTNode) -> bool:
    """Whether what stands at a place, or a function called there, makes variables volatile."""
    return "volatile" in program.code(place) or any(
        makes_volatile(*found, call)
        for call in program.index.below(place, cst.Call)
        if (found := callee(program, call)) is not None
    )


def is_given_volatile(program: Program, forward: cst.Call) -> bool:
    """Whether a model is given a volatile variable: made for it, or by a name."""
    names = (name for arg in forward.args for name in program.index.below(arg.value, cst.Name))
    given = (name for name in names if not is_label(program, name))
    bound = (one for name in given for one in program.flow.reaching(name))
    made = (one.value for one in bound if isinstance(one.value, cst.BaseExpression))
    return any(asks_for_volatile(program, one) for one in (forward, *made))


def makes_volatile(
    program: Program, function: cst.FunctionDef, site: cst.Call, depth: int = 0
) -> bool:
    """Whether a call of a function has it make volatile variables, or may by what it passes.

    ``Variable(x, volatile=mode != "train")``: not where the call passes ``mode="train"``.
    """
    way = Way(program, function, site)
    for call in program.index.below(function, cst.Call):
        if not way.comes_to(call):
            continue
        asked = (one.value for one in call.args if one.keyword and one.keyword.value == "volatile")
        if any(way.truth(one) is not False for one in asked):
            return True
        found = callee(program, call) if depth < _CALLS else None
        if found is not None and makes_volatile(*found, call, depth + 1):
            return True
    return False


def volatile_passes(program: Program) -> Iterator[cst.Call]:
    """Find the calls of modules that are given ``Variable(x, volatile=True)``, and are recorded."""
    if "volatile" not in program.text:
        return
    seen: set[int] = set()
    for made in program.calls_of("torch.autograd.Variable"):
        if _is_volatile(made):
            for forward in _forwards(program, made):
                if id(forward) not in seen and _is_recorded(program, forward):
                    seen.add(id(forward))
                    yield forward


def _is_volatile(made: cst.Call) -> bool:
    return any(
        arg.keyword is not None and arg.keyword.value == "volatile" and literal(arg.value) == "True"
        for arg in made.args
    )


def _forwards(program: Program, made: cst.Call) -> Iterator[cst.Call]:
    """Yield the calls that are given a variable where it is made, or by its name after that."""
    index = program.index
    match program.parent(made):
        case cst.Arg() as arg:
            call = program.parent(arg)
            if isinstance(call, cst.Call):
                yield call
        case cst.Assign(targets=[cst.AssignTarget(target=target)]) if dotted(target):
            name, place = dotted(target), program.function(made) or program.module
            others = [
                one for one in index.below(place, cst.AssignTarget) if one.target is not target
            ]
            if any(dotted(one.target) == name for one in others):
                return
            for call in index.below(place, cst.Call):
                given = any(dotted(arg.value) == name for arg in call.args)
                if given and index.order(call) > index.order(made):
                    yield call
        case _:
            pass


def _is_recorded(program: Program, call: cst.Call) -> bool:
    func = call.func
    runs = program.value(func).kind is Kind.MODULE or (
        isinstance(func, cst.Attribute) and func.attr.value == "forward"
    )
    recorded = runs and program.recordings.at(call) in (Recording.ON, Recording.ASSUMED)
    return recorded and not records_nothing(program, call)
