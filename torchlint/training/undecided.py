"""Whether something unknown decides if code runs, or whether it does so in every turn or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    RANK,
    Library,
    Method,
    Nothing,
    Number,
    Object,
    Place,
    Text,
    Truth,
)

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation


SETTLED = frozenset({
    "torch.distributed.is_initialized", "torch.distributed.is_available", "builtins.isinstance",
    "builtins.hasattr", "builtins.callable", "torch.is_tensor",
})  # fmt: skip
AVAILABLE = frozenset(
    f"torch.{device}.{asks}"
    for device in ("cuda", "xpu", "mps", "backends.mps", "accelerator")
    for asks in ("is_available", "device_count")
)
DEVICES = frozenset({"cuda", "cpu", "mps", "xpu"})


def undecided_between(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> bool:
    """Whether something unknown decides if a node runs each time what is around it does.

    Conditions on a device, None, a type, a number or the rank of a process are no such thing: they
    hold in every turn, or in none.
    """
    index = evaluation.index(file)
    child = node
    for above in index.ancestors(node):
        test = _decides(above, child)
        if test is not None and not _is_settled(evaluation, test):
            return True
        if above is outer:
            return False
        child = above
    return False


def left_before(evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int) -> bool:
    """Whether something unknown decides earlier in the blocks around a node to leave them."""
    index = evaluation.index(file)
    child = node
    for above in index.ancestors(node):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            for statement in above.body:
                if statement is child:
                    break
                if (
                    isinstance(statement, cst.If)
                    and _leaves(statement.body)
                    and not _is_settled(evaluation, statement.test)
                ):
                    return True
        if above is outer:
            return False
        child = above
    return False


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine) and last.body:
        last = last.body[-1]
    return isinstance(last, (cst.Return, cst.Raise, cst.Continue, cst.Break))


def _decides(above: cst.CSTNode, child: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition that decides whether a child of a node is evaluated."""
    match above:
        case cst.If(test=test) | cst.IfExp(test=test) if child is not test:
            return test
        case cst.BooleanOperation(left=left, right=right) if child is right:
            return left
    return None


def asks_for_device(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """Whether a condition only asks which device there is."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return asks_for_device(evaluation, inner)
        case cst.BooleanOperation(left=left, right=right):
            return asks_for_device(evaluation, left) and asks_for_device(evaluation, right)
        case cst.Comparison(left=left, comparisons=[target]):
            return any(is_device(evaluation, side) for side in (left, target.comparator))
        case cst.Call(func=func):
            asked = evaluation.value(func)
            return any(isinstance(one, Library) and one.name in AVAILABLE for one in asked)
    return False


def _is_settled(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """Whether a condition is the same in every turn, by what it asks."""
    match test:
        case cst.UnaryOperation(expression=inner):
            return _is_settled(evaluation, inner)
        case cst.BooleanOperation(left=left, right=right):
            return _is_settled(evaluation, left) and _is_settled(evaluation, right)
        case cst.Comparison(left=cst.Name(value="__name__")):
            return True
        case cst.Comparison(left=left, comparisons=[target]):
            if isinstance(target.operator, (cst.Is, cst.IsNot)):
                return True
            sides = (left, target.comparator)
            return any(is_device(evaluation, side) or _is_rank(evaluation, side) for side in sides)
        case cst.Call(func=func):
            asked = evaluation.value(func)
            return any(
                isinstance(one, Library) and one.name in SETTLED | AVAILABLE for one in asked
            )
    value = evaluation.value(test)
    return bool(value) and all(isinstance(one, (Truth, Number, Nothing)) for one in value)


def is_device(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``device``, ``device.type``, ``"cuda"``, ``str(device)``."""
    value = evaluation.value(node)
    if any(
        isinstance(one, Place) or (isinstance(one, Text) and one.value in DEVICES) for one in value
    ):
        return True
    return any(isinstance(one, Method) and isinstance(one.owner, Place) for one in value)


def _is_rank(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value = evaluation.value(node)
    return any(isinstance(one, Object) and one.kind == RANK for one in value)
