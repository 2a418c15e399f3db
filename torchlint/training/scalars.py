"""Tensors without dimensions, as a loss is, and what was computed from tensors by unknown code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Device, Library, Method, Number, Object, Tensor

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.scopes import Binding

REDUCES = frozenset("mean sum max min norm prod std var median".split())
DEEPEST = 6  # names and operations on the way


def is_scalar(
    evaluation: Evaluation, node: cst.BaseExpression, file: int, depth: int = DEEPEST
) -> bool:
    """Whether a tensor has no dimensions for certain: a reduction, or what goes back alone."""
    if not depth:
        return False
    match node:
        case cst.Name():
            bindings = evaluation.reaching.get(id(node), ())
            if _goes_back(evaluation, node, bindings, file):
                return True
            return bool(bindings) and all(
                one.is_plain
                and isinstance(one.value, cst.BaseExpression)
                and is_scalar(evaluation, one.value, file, depth - 1)
                for one in bindings
            )
        case cst.BinaryOperation(left=left, right=right):
            sides = [
                is_scalar(evaluation, side, file, depth - 1) or _is_number(evaluation, side)
                for side in (left, right)
            ]
            return all(sides)
        case cst.UnaryOperation(expression=inner):
            return is_scalar(evaluation, inner, file, depth - 1)
        case cst.Call(func=func, args=args):
            for one in evaluation.values.get(id(func), ()):
                match one:
                    case Object(kind=kind) if kind_of(kind) == "criterion":
                        return True
                    case Method(owner=Tensor(), name=name) if name in REDUCES and not args:
                        return True
                    case Library(name=name) if name.startswith("torch.nn.functional."):
                        return name.endswith(("_loss", "cross_entropy", "_with_logits"))
                    case Library(name=name) if name.startswith("torch.") and len(args) == 1:
                        reduces = name.rpartition(".")[2] in REDUCES
                        return reduces or is_scalar(evaluation, args[0].value, file, depth - 1)
    return False


def _is_number(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value = evaluation.values.get(id(node), ())
    return bool(value) and all(isinstance(one, Number) for one in value)


def _goes_back(
    evaluation: Evaluation, name: cst.Name, bindings: tuple[Binding, ...], file: int
) -> bool:
    """``loss.backward()`` without a gradient: autograd begins at a single number."""
    module = evaluation.files.modules[file]
    for other in module.index.named.get(name.value, ()):
        above = module.parent(other)
        if isinstance(above, cst.Attribute) and above.attr.value == "backward":
            call = module.parent(above)
            is_alone = isinstance(call, cst.Call) and not call.args
            if is_alone and evaluation.reaching.get(id(other), ()) == bindings != ():
                return True
    return False


def comes_from_tensor(
    evaluation: Evaluation, node: cst.BaseExpression, depth: int = DEEPEST
) -> bool:
    """Whether unknown code made something out of a tensor on a GPU: ``helper(out).loss``."""
    value = evaluation.values.get(id(node), ())
    if any(isinstance(one, Tensor) and one.device is Device.CUDA for one in value):
        return True
    if not depth:
        return False
    match node:
        case cst.Call(func=func, args=args):
            inner = [arg.value for arg in args]
            inner += [func.value] if isinstance(func, cst.Attribute) else []
            return any(comes_from_tensor(evaluation, one, depth - 1) for one in inner)
        case cst.Attribute(value=value_) | cst.Subscript(value=value_):
            return comes_from_tensor(evaluation, value_, depth - 1)
        case cst.Name():
            return any(
                one.value is not None
                and isinstance(one.value, cst.BaseExpression)
                and comes_from_tensor(evaluation, one.value, depth - 1)
                for one in evaluation.reaching.get(id(node), ())
            )
    return False
