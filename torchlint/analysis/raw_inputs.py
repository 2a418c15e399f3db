"""Tensors of which no gradient is asked on their way into a model: batches, as they are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.attached import Held, held
from torchlint.analysis.loops import Role
from torchlint.analysis.reach import forward_of
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_KEEPS = frozenset("to cuda cpu float half view reshape flatten contiguous permute".split())
_ASKS = ("requires_grad_(", "requires_grad =", "requires_grad=True", "require_grads")
_TENSORS = (Kind.TENSOR, Kind.BATCH)


def is_raw(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a tensor is a batch as it came from its loader, in every training step.

    The input of a module is one where a training step of the project calls the module with one.
    """
    if any(word in program.text for word in _ASKS):
        return False
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))) if name in _KEEPS:
            return is_raw(program, inner)
        case cst.Name():
            bindings = program.flow.reaching(node)
            if bindings and all(one.kind is Bind.PARAMETER for one in bindings):
                return any(_is_called_raw(program, one.value) for one in bindings)
        case _:
            pass
    return _is_loaded(program, node)


def _is_loaded(program: Program, node: cst.CSTNode) -> bool:
    return program.value(node).kind in _TENSORS and held(program, node) is Held.NO


def _is_called_raw(program: Program, param: cst.CSTNode | None) -> bool:
    """Whether a parameter is that of a ``forward`` which training steps call with batches."""
    function = None if param is None else program.function(param)
    if not isinstance(param, cst.Param) or function is None or function.name.value != "forward":
        return False
    calls = list(_calls_of(program, function))
    passed = [(other, program.calls.passed(function, param, call)) for other, call in calls]
    return bool(passed) and all(
        node is not None
        and not any(word in other.text for word in _ASKS)
        and _is_loaded(other, node)
        for other, node in passed
    )


def _calls_of(program: Program, forward: cst.FunctionDef) -> Iterator[tuple[Program, cst.Call]]:
    """Yield the calls of a module in training steps, here and in files that import this one."""
    project = program.project
    others = [] if project is None else list(project.related(program, ("backward",)))
    for other in (program, *(one for one in others if one is not program)):
        for call in other.index.of(cst.Call):
            value = other.value(call.func)
            found = forward_of(other, value) if value.kind is Kind.MODULE else None
            runs = found is not None and found[1] is forward
            if runs and other.context(call).role is Role.TRAIN:
                yield other, call
