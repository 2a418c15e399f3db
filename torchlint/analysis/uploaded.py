"""Data that the same step has just copied to the GPU: the host still had it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.loops import Role
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_DEPTH = 4  # copies of copies
_STEPS = (Role.TRAIN, Role.EVAL, Role.FORWARD)
_VIEWS = frozenset({"detach", "view", "reshape", "squeeze", "flatten", "sum", "max", "min"})


def was_uploaded(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a read gets back what the step itself copied to the GPU: ``sizes.cuda()[0]``.

    It could be read before it is copied, for nothing.
    """
    return _is_uploaded(program, _part_of(program, node), 0)


def _part_of(program: Program, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``x`` of ``x[-1]``, ``x.sum()`` and ``sum(x)``."""
    while True:
        match node:
            case cst.Subscript(value=inner):
                node = inner
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name)), args=[]):
                if name not in _VIEWS:
                    return node
                node = inner
            case cst.Call(func=cst.Name(value="sum" | "max" | "min") as func, args=[arg]):
                if arg.star or not program.is_builtin(func):
                    return node
                node = arg.value
            case _:
                return node


def _is_uploaded(program: Program, node: cst.BaseExpression, depth: int) -> bool:
    match node:
        case cst.Name() if depth < _DEPTH:
            bindings = program.flow.reaching(node)
            return bool(bindings) and all(
                one.is_plain
                and isinstance(one.value, cst.Call)
                and _uploads(program, one.value, depth + 1)
                for one in bindings
            )
        case cst.Call():
            return _uploads(program, node, depth + 1)
        case _:
            return False


def _uploads(program: Program, call: cst.Call, depth: int) -> bool:
    """Whether a step copies something of the host to the GPU."""
    if not isinstance(call.func, cst.Attribute) or program.context(call).role not in _STEPS:
        return False
    match call.func.attr.value:
        case "cuda":
            moved = True
        case "to":
            moved = program.values.moved_to(call, Device.UNKNOWN).gpu
        case _:
            moved = False
    source = call.func.value
    if not moved or not dotted(source) or program.value(source).kind is Kind.MODULE:
        return False
    return not program.value(source).device.gpu or _is_uploaded(program, source, depth)
