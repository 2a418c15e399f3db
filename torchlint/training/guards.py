"""Guards: conditions under which code does not run each time."""

from __future__ import annotations

import enum
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
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value


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
    index = evaluation.files.modules[file].index
    child = node
    for above in index.ancestors(node):
        found = _guard(evaluation, above, child)
        if found is None and isinstance(above, cst.IndentedBlock):
            found = _skipped(evaluation, above, child)
        if found is not None:
            return found
        if above is outer:
            return None
        child = above
    return None


def _skipped(evaluation: Evaluation, block: cst.IndentedBlock, child: cst.CSTNode) -> Guard | None:
    """``if step % 10: continue``: what comes after it in the block runs every so many turns."""
    for statement in block.body:
        if statement is child:
            return None
        if isinstance(statement, cst.If) and statement.orelse is None and statement.body.body:
            last = statement.body.body[-1]
            if isinstance(last, cst.SimpleStatementLine) and last.body:
                last = last.body[-1]
            if isinstance(last, (cst.Continue, cst.Return)):
                found = _of_test(evaluation, statement.test, truth=False)
                if found is not None:
                    return found
    return None


def undecided_between(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> bool:
    """Whether something unknown decides if a node runs each time what is around it does.

    Conditions on a device, None, a type, a number or the rank of a process are no such thing: they
    hold in every turn, or in none.
    """
    index = evaluation.files.modules[file].index
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
    index = evaluation.files.modules[file].index
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
            return any(_is_device(evaluation, side) for side in (left, target.comparator))
        case cst.Call(func=func):
            asked = evaluation.values.get(id(func), ())
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
            return any(_is_device(evaluation, side) or _is_rank(evaluation, side) for side in sides)
        case cst.Call(func=func):
            asked = evaluation.values.get(id(func), ())
            return any(
                isinstance(one, Library) and one.name in SETTLED | AVAILABLE for one in asked
            )
    value = evaluation.values.get(id(test), ())
    return bool(value) and all(isinstance(one, (Truth, Number, Nothing)) for one in value)


def _is_device(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``device``, ``device.type``, ``"cuda"``, ``str(device)``."""
    value = evaluation.values.get(id(node), ())
    if any(
        isinstance(one, Place) or (isinstance(one, Text) and one.value in DEVICES) for one in value
    ):
        return True
    return any(isinstance(one, Method) and isinstance(one.owner, Place) for one in value)


def _is_rank(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value = evaluation.values.get(id(node), ())
    return any(isinstance(one, Object) and one.kind == RANK for one in value)


def _guard(evaluation: Evaluation, above: cst.CSTNode, child: cst.CSTNode) -> Guard | None:
    match above:
        case cst.If(test=test, body=body, orelse=orelse):
            if child is body:
                return _of_test(evaluation, test, truth=True) or _ending(body) or _kept(test, body)
            if child is orelse:
                return _of_test(evaluation, test, truth=False)
        case cst.IfExp(test=test, body=body, orelse=orelse):
            if child is body or child is orelse:
                return _of_test(evaluation, test, truth=child is body)
        case cst.BooleanOperation(left=left, operator=operator, right=right) if child is right:
            return _of_test(evaluation, left, truth=isinstance(operator, cst.And))
        case cst.Raise():
            return Guard.ABORT
        case cst.Assert(msg=message) if child is message:
            return Guard.ABORT
        case cst.ExceptHandler() | cst.ExceptStarHandler():
            return Guard.EXCEPTION
    return None


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


def _ending(body: cst.BaseSuite) -> Guard | None:
    """A branch that ends the loop or raises runs once at most."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine) and last.body:
        last = last.body[-1]
    return Guard.ABORT if isinstance(last, (cst.Raise, cst.Break)) else None


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
    value = evaluation.values.get(id(test), ())
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
    asked = evaluation.values.get(id(test.func), ()) if isinstance(test, cst.Call) else ()
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
            match evaluation.values.get(id(other), ()):
                case (Text(value=str(word)),) if word in names and _is_device(evaluation, one):
                    return Guard.NO_GPU if (names[word] is is_equal) is truth else None
    if isinstance(operator, (cst.Is, cst.IsNot)):
        value = evaluation.values.get(id(left), ())
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
    value = evaluation.values.get(id(node), ())
    return bool(value) and all(isinstance(one, Number) and one.read is None for one in value)


def _is_clock(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``time.time() - start``."""
    parts = [node]
    if isinstance(node, cst.BinaryOperation):
        parts += [node.left, node.right]
    for part in parts:
        if isinstance(part, cst.Call):
            value = evaluation.values.get(id(part.func), ())
            if any(isinstance(one, Library) and one.name.startswith("time.") for one in value):
                return True
    return False
