"""Tensors without dimensions, as a loss is, and what was computed from tensors by unknown code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Device, Library, Method, Number, Object, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            bindings = evaluation.bindings(node)
            if _begins(evaluation, bindings, file):
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
            for one in evaluation.value(func):
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
    value = evaluation.value(node)
    return bool(value) and all(isinstance(one, Number) for one in value)


def goes_back(evaluation: Evaluation, node: cst.BaseExpression, file: int) -> bool:
    """Whether a name is a term of what `backward()` is called on: a tensor, whoever made it."""
    bindings = evaluation.bindings(node)
    return bool(bindings) and any(
        term == bindings
        for receiver, _ in _backwards(evaluation, file)
        for term in _terms(evaluation, receiver, DEEPEST)
    )


def _begins(evaluation: Evaluation, bindings: tuple[Binding, ...], file: int) -> bool:
    """``loss.backward()`` without a gradient: autograd begins at a single number."""
    return bool(bindings) and any(
        not call.args and evaluation.bindings(receiver) == bindings
        for receiver, call in _backwards(evaluation, file)
    )


def _backwards(evaluation: Evaluation, file: int) -> Iterator[tuple[cst.BaseExpression, cst.Call]]:
    module = evaluation.module(file)
    for name in module.index.named.get("backward", ()):
        func = module.parent(name)
        call = func and module.parent(func)
        if isinstance(func, cst.Attribute) and isinstance(call, cst.Call) and call.func is func:
            yield func.value, call


def _terms(
    evaluation: Evaluation, node: cst.CSTNode | None, depth: int
) -> Iterator[tuple[Binding, ...]]:
    """Yield where the names have their values from that are terms of a sum, with their factors."""
    match node:
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract(), left=left, right=right):
            yield from _terms(evaluation, left, depth)
            yield from _terms(evaluation, right, depth)
        case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
            for side in (left, right):
                if not isinstance(side, (cst.Float, cst.Integer)):
                    yield from _terms(evaluation, side, depth)
        case cst.UnaryOperation(expression=inner):
            yield from _terms(evaluation, inner, depth)
        case cst.Name():
            bindings = evaluation.bindings(node)
            yield bindings
            for one in bindings if depth else ():
                if one.is_plain:
                    yield from _terms(evaluation, one.value, depth - 1)


def comes_from_tensor(
    evaluation: Evaluation, node: cst.BaseExpression, depth: int = DEEPEST
) -> bool:
    """Whether unknown code made something out of a tensor on a GPU: ``helper(out).loss``."""
    value = evaluation.value(node)
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
                for one in evaluation.bindings(node)
            )
    return False
