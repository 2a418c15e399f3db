"""Whether anything adds to gradients that a loop has just cleared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.queued import target_of

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# What may go back where its code is not seen, by its name or by what it is given.
_MAY = re.compile(r"back|step|train|learn|updat|optim|fit|closure|minimi", re.IGNORECASE)
_GIVEN = re.compile(r"optim|\bopt\b|closure", re.IGNORECASE)
_DEPTH = 4


def may_be_filled(program: Program, node: cst.CSTNode) -> bool:
    """Whether the turn of the loop around a node may go back through a model.

    ``torch.autograd.grad`` returns gradients, and adds nothing to those that parameters keep.
    Without a loop the caller may do so.
    """
    loop = next(loops_around(program, node), None)
    return loop is None or _goes_back(program, loop.body, 0)


def may_go_back(program: Program, call: cst.Call) -> bool:
    """Whether a call may go back through a model."""
    return _may_go_back(program, call, 0)


def _goes_back(program: Program, place: cst.CSTNode, depth: int) -> bool:
    return depth == _DEPTH or any(
        _may_go_back(program, call, depth) for call in program.index.below(place, cst.Call)
    )


def _may_go_back(program: Program, call: cst.Call, depth: int) -> bool:
    name = _name(call.func)
    if name == "backward":
        return True
    target = target_of(program, call)
    if target is not None:
        home, function = target
        return _goes_back(home, function.body, depth + 1)
    if program.qualified(call.func).startswith("torch."):
        return False
    given = " ".join(program.code(arg) for arg in call.args)
    return not name or _MAY.search(name) is not None or _GIVEN.search(given) is not None


def _name(func: cst.BaseExpression) -> str:
    match func:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
        case _:
            return ""
