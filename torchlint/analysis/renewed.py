"""Gradients that are cleared where an optimizer, or the model itself, has just been made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.filled import may_go_back
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 4  # names of one model: as it is made, moved, wrapped


def clears_renewed(program: Program, call: cst.Call) -> bool:
    """Whether the block around ``optimizer.zero_grad()`` has made the optimizer just before."""
    made = _made(program, call)
    if made is None or not isinstance(made.value, cst.Call):
        return False
    block = program.parent(program.statement(call))
    return (
        block is not None
        and program.parent(program.statement(made.value)) is block
        and not _may_have_gone_back(program, made.value, call, block)
    )


def has_no_gradients(program: Program, call: cst.Call) -> bool:
    """Whether each turn makes the model anew, and nothing has gone back through it so far."""
    optimizer = _made(program, call)
    if optimizer is None or not isinstance(optimizer.value, cst.Call):
        return False
    models = _models(program, optimizer.value)
    return bool(models) and all(_is_new(program, model, call) for model in models)


def _made(program: Program, call: cst.Call) -> Binding | None:
    """Return what makes the optimizer on which ``zero_grad()`` is called, if that is one place."""
    match call.func:
        case cst.Attribute(value=cst.Name() as name):
            found = program.flow.reaching(name)
        case _:
            return None
    if len(found) != 1 or not found[0].is_plain:
        return None
    made = found[0].value
    optimizer = isinstance(made, cst.Call) and program.value(made).kind is Kind.OPTIMIZER
    return found[0] if optimizer else None


def _models(program: Program, optimizer: cst.Call) -> list[cst.Name]:
    """Return the models of ``SGD(model.parameters())``; none if it is given anything else."""
    match program.argument(optimizer, "params").values:
        case (cst.Call(func=cst.Attribute(value=cst.Name() as model, attr=attr), args=[]),):
            return [model] if attr.value == "parameters" else []
        case _:
            return []


def _is_new(program: Program, model: cst.Name, call: cst.Call, depth: int = 0) -> bool:
    """Whether the turn around a call makes the model, and has not gone back by then."""
    turn = next(loops_around(program, call), None) or program.function(call)
    found = program.flow.reaching(model)
    return (
        turn is not None
        and bool(found)
        and depth < _DEPTH
        and all(
            one.is_plain
            and isinstance(one.value, cst.Call)
            and program.index.inside(one.value, turn)
            and _makes_model(program, one.value, call, depth)
            and not _may_have_gone_back(program, one.value, call, turn)
            for one in found
        )
    )


def _makes_model(program: Program, made: cst.Call, call: cst.Call, depth: int) -> bool:
    """Whether a call makes a model, if of another then of one that is new as well."""
    return program.value(made).kind is Kind.MODULE and all(
        _is_new(program, name, call, depth + 1)
        for name in program.index.below(made, cst.Name)
        if program.value(name).kind is Kind.MODULE
    )


def _may_have_gone_back(
    program: Program, made: cst.Call, call: cst.Call, turn: cst.CSTNode
) -> bool:
    """Whether anything between the model and a call may have added to gradients."""
    start, end = program.index.end(made), program.index.order(call)
    return any(
        start <= program.index.order(one) < end
        and not _only_switches(program, one)
        and may_go_back(program, one)
        for one in program.index.below(turn, cst.Call)
    )


def _only_switches(program: Program, call: cst.Call) -> bool:
    """``model.train()``."""
    match call.func:
        case cst.Attribute(value=model, attr=cst.Name(value="train")):
            return program.value(model).kind is Kind.MODULE
        case _:
            return False
