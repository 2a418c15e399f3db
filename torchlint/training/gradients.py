"""Gradients by hand: loops that zero them one by one, and other code that writes into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Nothing
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.module import Module

GRADIENTS = ("grad", "_grad")
ZEROES = frozenset({"zero_", "detach_", "requires_grad_"})


def are_written(evaluation: Evaluation) -> bool:
    """Whether gradients are written into or shared, other than by loops that zero them."""
    for file, module in enumerate(evaluation.files.modules):
        named = (name for word in GRADIENTS for name in module.index.named.get(word, ()))
        written = [name for name in named if _is_written(evaluation, module, name)]
        loops = list(zeroing(evaluation, file)) if written else []
        if any(not any(module.index.inside(one, loop) for loop in loops) for one in written):
            return True
    return False


def zeroing(evaluation: Evaluation, file: int) -> Iterator[cst.For]:
    """Yield loops such as ``for p in model.parameters(): p.grad.zero_()``."""
    module = evaluation.module(file)
    for loop in module.index.of(cst.For) if "grad" in module.index.named else ():
        if isinstance(loop.target, cst.Name) and loop.orelse is None:
            grad = f"{loop.target.value}.grad"
            lines = list(_statements(module, loop.body, grad))
            if lines and all(_zeroes(evaluation, line, grad) for line in lines):
                yield loop


def _is_written(evaluation: Evaluation, module: Module, name: cst.Name) -> bool:
    node = module.parent(name)
    if node is None or last_name(node) != name.value:
        return False
    above = module.parent(node)
    while isinstance(above, cst.Subscript) or (above and last_name(above) == "data"):
        node, above = above, module.parent(above)
    match above:
        case cst.AugAssign(target=target):
            return target is node
        case cst.AssignTarget():
            assign = module.parent(above)
            value = evaluation.value(assign.value) if isinstance(assign, cst.Assign) else ()
            return not all(isinstance(one, Nothing) for one in value)
    method = last_name(above)
    return method.endswith("_") and method not in ZEROES


def _statements(module: Module, body: cst.BaseSuite, grad: str) -> Iterator[cst.CSTNode]:
    """Yield the statements of a block; of a condition on a gradient, what it guards."""
    for statement in body.body:
        match statement:
            case cst.SimpleStatementLine(body=lines):
                yield from lines
            case cst.If(test=test, body=inner, orelse=None) if any(
                dotted(one) == grad for one in module.index.below(test, cst.Attribute)
            ):
                yield from _statements(module, inner, grad)
            case _:
                yield statement


def _zeroes(evaluation: Evaluation, line: cst.CSTNode, grad: str) -> bool:
    """Whether a statement zeroes the gradient and does nothing else."""
    match line:
        case cst.Expr(cst.Call(func=cst.Attribute(value=target, attr=attr))):
            return attr.value in ZEROES and dotted(target) in (grad, f"{grad}.data")
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Call(func=func)):
            made = evaluation.value(func)
            return dotted(target) == grad and made == (Library("torch.zeros_like"),)
    return False
