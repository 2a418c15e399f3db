"""Guards: conditions under which code does not run each time."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    Library,
    Nothing,
    Number,
    Text,
    Truth,
)
from torchlint.syntax.chains import dotted
from torchlint.training.undecided import is_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value


class Guard(enum.Enum):
    """What it depends on whether code runs in a turn of its loop."""

    PERIODIC = enum.auto()  # every so many turns
    EQUAL = enum.auto()  # a counter is a number
    CLOCK = enum.auto()  # so many seconds have passed
    OFF = enum.auto()  # an option that is off by default
    ABORT = enum.auto()  # it ends the loop, or the script
    EXCEPTION = enum.auto()  # something failed
    NO_GPU = enum.auto()  # it is for machines without one
    KEPT = enum.auto()  # an object does not have it yet, and keeps it


def guard_between(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> Guard | None:
    """Return the first guard between a node and something around it, from the inside out."""
    for above, child in _around(evaluation, node, outer, file):
        found = _guard(evaluation, above, child)
        if found is not None:
            return found
    return None


def misses_turns(evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int) -> bool:
    """Whether every so many turns do without a node: the others run it."""
    return any(
        _of_test(evaluation, test, truth=not truth) is Guard.PERIODIC
        for above, child in _around(evaluation, node, outer, file)
        for test, truth in _conditions(above, child)
    )


def _around(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield what is around a node up to something, each with its child that holds the node."""
    child = node
    for above in evaluation.index(file).ancestors(node):
        yield above, child
        if above is outer:
            return
        child = above


def _conditions(
    above: cst.CSTNode, child: cst.CSTNode
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions that have to hold, or not to hold, for a child to be reached."""
    match above:
        case (
            cst.If(test=test, body=body, orelse=orelse)
            | cst.IfExp(test=test, body=body, orelse=orelse)
        ) if child is body or child is orelse:
            yield test, child is body
        case cst.BooleanOperation(left=left, operator=operator, right=right) if child is right:
            yield left, isinstance(operator, cst.And)
        case cst.IndentedBlock(body=statements):
            for statement in statements:
                if statement is child:
                    return
                match statement:
                    case cst.If(test=test, body=body, orelse=None) if isinstance(
                        _last(body), (cst.Continue, cst.Return)
                    ):
                        yield test, False


def _guard(evaluation: Evaluation, above: cst.CSTNode, child: cst.CSTNode) -> Guard | None:
    for test, truth in _conditions(above, child):
        found = _of_test(evaluation, test, truth=truth)
        if found is not None:
            return found
    match above:
        case cst.If(test=test, body=body) if child is body:
            ends = isinstance(_last(body), (cst.Raise, cst.Break))  # it runs once at most
            return Guard.ABORT if ends else _kept(test, body)
        case cst.Raise():
            return Guard.ABORT
        case cst.Assert(msg=message) if child is message:
            return Guard.ABORT
        case cst.ExceptHandler() | cst.ExceptStarHandler():
            return Guard.EXCEPTION
    return None


def _last(body: cst.BaseSuite) -> cst.CSTNode | None:
    """Return the last small statement of a block, or its last statement."""
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) and last.body else last


def _kept(test: cst.BaseExpression, body: cst.BaseSuite) -> Guard | None:
    """``if self.mask is None: self.mask = ...``: the first turn makes it for all."""
    asked = _asked_for(test)
    lines = [line.body for line in body.body if isinstance(line, cst.SimpleStatementLine)]
    assigned = {
        dotted(target.target)
        for small in (small for line in lines for small in line)
        if isinstance(small, cst.Assign)
        for target in small.targets
    }
    return Guard.KEPT if "." in asked and asked in assigned else None


def _asked_for(test: cst.BaseExpression) -> str:
    """Return the attribute that a condition asks for, which holds as long as it is not there."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
        ):
            return dotted(left)
        case cst.UnaryOperation(
            operator=cst.Not(),
            expression=cst.Call(
                func=cst.Name("hasattr"), args=[cst.Arg(owner), cst.Arg(cst.SimpleString() as name)]
            ),
        ):
            return f"{dotted(owner)}.{name.evaluated_value!s}"
        case cst.UnaryOperation(
            operator=cst.Not(), expression=cst.Call(func=cst.Name("len"), args=[cst.Arg(inner)])
        ):
            return dotted(inner)
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return dotted(inner)
    return ""


def _of_test(evaluation: Evaluation, test: cst.BaseExpression, *, truth: bool) -> Guard | None:
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _of_test(evaluation, inner, truth=not truth)
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right) if truth:
            return _of_test(evaluation, left, truth=True) or _of_test(evaluation, right, truth=True)
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
            first = _of_test(evaluation, left, truth=truth)
            return first and _of_test(evaluation, right, truth=truth)
        case cst.Comparison():
            return _of_comparison(evaluation, test, truth=truth)
        case cst.BinaryOperation(operator=cst.Modulo()) if not truth:
            return Guard.PERIODIC if _counts(evaluation, test.left) else None
    value = evaluation.value(test)
    if not truth and _asks_for_gpu(evaluation, test):
        return Guard.NO_GPU
    return Guard.OFF if _is_off(value, truth=truth) or _is_never(value, truth=truth) else None


def _is_never(value: Value, *, truth: bool) -> bool:
    """Whether a constant keeps a branch from running."""
    return (
        bool(value)
        and all(
            isinstance(one, Nothing)
            or (isinstance(one, (Truth, Number, Text)) and one.value is not None)
            for one in value
        )
        and all(bool(getattr(one, "value", None)) is not truth for one in value)
    )


def _asks_for_gpu(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """``torch.cuda.is_available()``, ``x.is_cuda``."""
    asked = evaluation.value(test.func) if isinstance(test, cst.Call) else ()
    return any(isinstance(one, Library) and one.name == "torch.cuda.is_available" for one in asked)


def _is_off(value: Value, *, truth: bool) -> bool:
    """Whether an option's default keeps a branch from running."""
    found = [
        one for one in value if isinstance(one, (Truth, Number, Text)) and one.option is not None
    ]
    return bool(found) and all(
        isinstance(one, Nothing) or bool(getattr(one, "value", None)) is not truth
        for one in value
        if isinstance(one, (Truth, Number, Text, Nothing))
    )


def _of_comparison(evaluation: Evaluation, test: cst.Comparison, *, truth: bool) -> Guard | None:
    if len(test.comparisons) != 1:
        return None
    left, target = test.left, test.comparisons[0]
    right, operator = target.comparator, target.operator
    is_equal = isinstance(operator, cst.Equal)
    if is_equal or isinstance(operator, cst.NotEqual):
        if any(_is_modulo(side) for side in (left, right)):
            return Guard.PERIODIC if is_equal is truth else None
        if is_equal is truth and all(_counts(evaluation, side) for side in (left, right)):
            return Guard.EQUAL
    if is_equal or isinstance(operator, cst.NotEqual):
        names = {"cpu": True, "cuda": False}
        for one, other in ((left, right), (right, left)):
            match evaluation.value(other):
                case (Text(value=str(word)),) if word in names and is_device(evaluation, one):
                    return Guard.NO_GPU if (names[word] is is_equal) is truth else None
    if isinstance(operator, (cst.Is, cst.IsNot)):
        value = evaluation.value(left)
        is_none = isinstance(operator, cst.Is)
        is_asked = isinstance(right, cst.Name) and right.value == "None"
        if is_asked and value and all(isinstance(one, Nothing) for one in value):
            return None if is_none is truth else Guard.OFF
    if any(_is_clock(evaluation, side) for side in (left, right)) and truth:
        return Guard.CLOCK
    return None


def _is_modulo(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)


def _counts(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number that no read of a tensor gave."""
    value = evaluation.value(node)
    return bool(value) and all(isinstance(one, Number) and one.read is None for one in value)


def _is_clock(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``time.time() - start``."""
    parts = [node]
    if isinstance(node, cst.BinaryOperation):
        parts += [node.left, node.right]
    for part in parts:
        if isinstance(part, cst.Call):
            value = evaluation.value(part.func)
            if any(isinstance(one, Library) and one.name.startswith("time.") for one in value):
                return True
    return False
