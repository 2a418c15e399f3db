"""Loops over parameters that do nothing but zero their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.none_checks import implies
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class ZeroingLoop:
    """One such loop; ``optimizer`` is the name of one over exactly these parameters, if any."""

    node: cst.For
    optimizer: str | None


def zeroing_loops(program: Program) -> Iterator[ZeroingLoop]:
    """Loops such as ``for p in model.parameters(): p.grad.zero_()``."""
    for loop in program.index.of(cst.For):
        if not isinstance(loop.target, cst.Name) or not isinstance(loop.body, cst.BaseSuite):
            continue
        function = program.function(loop)
        own = function is not None and function.name.value == "zero_grad"
        if own or loop.orelse is not None or not _over_parameters(program, loop.iter):
            continue
        if _zeroes(program, loop.body.body, f"{loop.target.value}.grad"):
            yield ZeroingLoop(loop, _optimizer(program, loop))


def _over_parameters(program: Program, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="parameters"))):
            return True
        case cst.Call(func=cst.Name(value="list" | "filter"), args=[*_, cst.Arg(value=inner)]):
            return _over_parameters(program, inner)
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(cst.SimpleString() as key))]
        ):
            return key.evaluated_value == "params"
        case cst.Name():
            found = program.flow.reaching(node)
            return bool(found) and all(
                binding.is_plain
                and isinstance(binding.value, cst.Call)
                and _over_parameters(program, binding.value)
                for binding in found
            )
        case _:
            return False


def _zeroes(program: Program, body: Sequence[cst.CSTNode], grad: str) -> bool:
    """Whether a block zeroes the gradient, at least once, and does nothing else."""
    zeroed = False
    for statement in body:
        match statement:
            case cst.If(test=test, body=cst.BaseSuite() as block, orelse=None):
                if not implies(program, test, grad, truth=True):
                    return False
                if not _zeroes(program, block.body, grad):
                    return False
                zeroed = True
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                if not _zeroes(program, statement.body, grad):
                    return False
                zeroed = True
            case cst.BaseSmallStatement():
                if not _is_zeroing(program, statement, grad):
                    return False
                zeroed = True
            case _:
                return False
    return zeroed


def _is_zeroing(program: Program, statement: cst.BaseSmallStatement, grad: str) -> bool:
    match statement:
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=target, attr=attr), args=args)):
            if attr.value in ("detach_", "requires_grad_"):
                return dotted(target) == grad
            zero = attr.value == "zero_" or (
                attr.value == "fill_" and len(args) == 1 and _is_zero(args[0].value)
            )
            return zero and dotted(target) in (grad, f"{grad}.data")
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Call() as call):
            return dotted(target) == grad and program.qualified(call.func) == "torch.zeros_like"
        case _:
            return False


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.evaluated_value) == 0


def _optimizer(program: Program, loop: cst.For) -> str | None:
    """Return the name of the optimizer that was given just what the loop runs over."""
    wanted = program.code(loop.iter)
    scope = program.index.scope(loop).function()
    for name in scope.bindings:
        found = program.flow.before(loop, name)
        if len(found) != 1 or not found[0].is_plain:
            continue
        made = found[0].value
        if (
            isinstance(made, cst.Call)
            and made.args
            and program.qualified(made.func) in torch_api.OPTIMIZERS
            and program.code(made.args[0].value) == wanted
        ):
            return name
    return None
