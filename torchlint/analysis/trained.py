"""The models that a file trains: those whose parameters it gives to an optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.index import Bind
from torchlint.analysis.values import Kind, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_MOVES = torch_api.MODULE_SELF | {"requires_grad_", "compile"}
_WRAPPERS = ("DataParallel", "DistributedDataParallel")


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A model that an optimizer updates.

    ``node`` is how the file names it where the optimizer is made, ``value`` what it is, without
    the wrappers of distributed training.
    """

    node: cst.BaseExpression
    value: Value
    optimizer: cst.Call


def trained_models(program: Program) -> Iterator[Trained]:
    """Yield what the optimizers of torch that this file makes are given the parameters of."""
    for optimizer in program.calls_of(*torch_api.OPTIMIZERS):
        for arg in optimizer.args[:1]:
            for call in program.index.below(arg, cst.Call):
                match call.func:
                    case cst.Attribute(value=node, attr=cst.Name("parameters")):
                        yield Trained(node, unwrapped(program, program.value(node)), optimizer)
                    case _:
                        pass


def unwrapped(program: Program, value: Value) -> Value:
    """Return the model inside of the wrappers of distributed training."""
    while value.type.endswith(_WRAPPERS) and (inner := _wrapped(value.made)) is not None:
        value = program.value(inner)
    return value


def _wrapped(call: cst.CSTNode | None) -> cst.BaseExpression | None:
    match call:
        case cst.Call(args=[cst.Arg(value=inner, star=""), *_]):
            return inner
        case _:
            return None


def built_by(program: Program, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call that builds the model a name stands for, without what moves it."""
    for _ in range(8):
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
                method in _MOVES and program.value(inner).kind is Kind.MODULE
            ):
                node = inner
            case cst.Call():
                inside = _wrapped(node) if program.value(node).type.endswith(_WRAPPERS) else None
                if inside is None:
                    return node
                node = inside
            case cst.Name():
                bindings = [b for b in program.flow.reaching(node) if b.kind is Bind.ASSIGN]
                if not bindings or bindings[0].path or bindings[0].value is None:
                    return None
                made = bindings[0].value
                assert isinstance(made, cst.BaseExpression)
                node = made
            case _:
                return None
    return None
