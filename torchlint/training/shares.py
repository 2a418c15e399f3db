"""What share of the loss of several batches each of them gives, where gradients are accumulated."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Guess, Library, Object, Tensor, Text
from torchlint.syntax.calls import has_keyword, keywords
from torchlint.syntax.scopes import Bind
from torchlint.training.optimizers import made

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.syntax.module import Module
    from torchlint.training.accumulation import Accumulation

_DEPTH = 6
_LOSSES = ("_loss", "cross_entropy", "kl_div")
_SCALES = (cst.Divide, cst.Multiply, cst.DivideAssign, cst.MultiplyAssign)


class Share(enum.Enum):
    """How the loss of one backward pass stands to the loss of all; weaker ones come first."""

    DIVIDED = enum.auto()  # by something, or summed: it may be right
    UNKNOWN = enum.auto()
    LIKELY = enum.auto()  # a mean, by what it seems to be
    WHOLE = enum.auto()  # the mean of its own batch


def share(found: Accumulation) -> Share:
    """Return what share the loss of a backward pass is."""
    evaluation, call = found.region.evaluation, found.backward.node
    if found.every is not None and _is_factor(evaluation, found):
        return Share.DIVIDED
    loss = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    match loss:
        case cst.Call(func=cst.Attribute(attr=cst.Name("scale")), args=[cst.Arg(value=inner)]):
            loss = inner
    return _share(evaluation, loss, 0)


def _is_factor(evaluation: Evaluation, found: Accumulation) -> bool:
    """Whether a file that the step runs code of multiplies or divides by the number of batches."""
    every = found.every
    assert every is not None
    code = evaluation.module(found.file).code(every).rpartition(".")[2]
    for file in dict.fromkeys(file for file, _ in found.region.scopes):
        module = evaluation.module(file)
        scaled: list[cst.BinaryOperation | cst.AugAssign] = [
            *module.index.of(cst.BinaryOperation), *module.index.of(cst.AugAssign)
        ]  # fmt: skip
        for node in scaled:
            if isinstance(node.operator, _SCALES) and not _is_shown(module, node):
                names: list[cst.Name | cst.Integer] = [
                    *module.index.below(node, cst.Name), *module.index.below(node, cst.Integer)
                ]  # fmt: skip
                if any(one.value == code for one in names):
                    return True
    return False


def _is_shown(module: Module, node: cst.CSTNode) -> bool:
    """Whether an expression is only printed."""
    return any(
        isinstance(above, (cst.FormattedStringExpression, cst.Expr))
        for above in module.index.ancestors(node)
    )


def _share(evaluation: Evaluation, node: cst.CSTNode | None, depth: int) -> Share:
    """Return what a loss is: the weakest of what its parts are."""
    if depth > _DEPTH:
        return Share.UNKNOWN
    match node:
        case cst.Name():
            found = evaluation.bindings(node)
            if any(one.kind is Bind.AUGMENT and _scales(one.value) for one in found):
                return Share.DIVIDED
            if not found or not all(one.is_plain for one in found):
                return Share.UNKNOWN
            return _weakest(_share(evaluation, one.value, depth + 1) for one in found)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract(), left=left, right=right):
            return _weakest(_share(evaluation, side, depth + 1) for side in (left, right))
        case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
            return _weakest(
                _share(evaluation, side, depth + 1) for side in (left, right) if not _is_large(side)
            )
        case cst.BinaryOperation(operator=cst.Divide()):
            return Share.DIVIDED
        case cst.Call():
            return _of_call(evaluation, node)
        case cst.Attribute(value=inner):
            value = evaluation.value(inner)
            graph = any(isinstance(one, Tensor) and one.graph for one in value)
            return Share.LIKELY if graph else Share.UNKNOWN
    return Share.UNKNOWN


def _scales(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.AugAssign) and isinstance(node.operator, _SCALES)


def _is_large(node: cst.BaseExpression) -> bool:
    """Whether it is a number that does not make a loss smaller."""
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.evaluated_value) >= 1


def _weakest(shares: Iterable[Share]) -> Share:
    return min(shares, key=lambda one: one.value, default=Share.UNKNOWN)


def _of_call(evaluation: Evaluation, call: cst.Call) -> Share:
    """Return what a loss function gives."""
    func = call.func
    if isinstance(func, cst.Attribute):
        owner = evaluation.value(func.value)
        if any(isinstance(one, Tensor) for one in owner):
            method = func.attr.value
            return {"mean": Share.WHOLE, "sum": Share.DIVIDED}.get(method, Share.UNKNOWN)
    value = evaluation.value(func)
    found: list[Share] = []
    for one in value:
        match one:
            case Library(name="torch.mean"):
                found.append(Share.WHOLE)
            case Library(name=name) if name.startswith("torch.nn.functional.") and name.endswith(
                _LOSSES
            ):
                arg = keywords(call).get("reduction")
                old = has_keyword(call, ("reduce", "size_average"))
                given = evaluation.value(arg) if arg else None
                found.append(Share.UNKNOWN if old else _reduced(given))
            case Object(kind=kind) if kind_of(kind) == "criterion":
                arguments = made(evaluation, one)
                old = any(name in arguments for name in ("reduce", "size_average"))
                reduction = arguments.get("reduction")
                found.append(
                    Share.UNKNOWN if old else _reduced(reduction.value if reduction else None)
                )
            case Guess(what="criterion"):
                found.append(Share.LIKELY)
            case _:
                found.append(Share.UNKNOWN)
    return _weakest(found)


def _reduced(reduction: Value | None) -> Share:
    if reduction is None:
        return Share.WHOLE
    words = {one.value if isinstance(one, Text) else None for one in reduction}
    if words == {"mean"}:
        return Share.WHOLE
    return Share.DIVIDED if words and words <= {"sum", "none"} else Share.UNKNOWN
