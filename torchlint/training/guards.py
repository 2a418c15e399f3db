"""What decides whether code runs in a turn of its loop, and how often it then does.

A condition is a guard where it is known to hold seldom.  It is settled where it holds in every turn
or in none: it asks for a device, None, a type, a number or the rank of a process.  Else it is open.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.narrowing import is_true
from torchlint.semantics.values import RANK, Method, Nothing, Number, Object, Place, Text, Truth
from torchlint.syntax.chains import dotted
from torchlint.training.between import conditions, last_of
from torchlint.training.effects import is_unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.between import Condition

SETTLED = frozenset(
    """torch.distributed.is_initialized torch.distributed.is_available torch.is_tensor
    builtins.isinstance builtins.hasattr builtins.callable""".split()
)
AVAILABLE = frozenset(
    f"torch.{device}.{asks}"
    for device in ("cuda", "xpu", "mps", "backends.mps", "accelerator")
    for asks in ("is_available", "device_count")
)
DEVICES = frozenset({"cuda", "cpu", "mps", "xpu"})
_DEPTH = 4  # names that stand for a test


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


@dataclass(frozen=True, slots=True)
class Decision:
    """What decides whether a node runs each time what is around it does.

    ``decided`` is False where a condition between is open, ``holds`` where one is not known to
    hold, ``misses`` True where every so many turns do without the node, and the others run it.
    ``evaluates`` is True where only a module that does not train gets there.
    """

    guard: Guard | None
    decided: bool
    holds: bool
    misses: bool
    evaluates: bool


def decision(evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int) -> Decision:
    """Return what decides between a node and something around it."""
    found = conditions(evaluation, node, outer, file)
    guards = [guard_of(evaluation, one.test, truth=one.truth) for one in found]
    contrary = (guard_of(evaluation, one.test, truth=not one.truth) for one in found)
    return Decision(
        next((one for one in reversed(guards) if one is not None), None)
        or _around(evaluation, node, outer, file),
        all(one.left or _is_settled(evaluation, one.test) for one in found),
        all(one.left or _holds(evaluation, one.test, truth=one.truth) for one in found),
        any(one is Guard.PERIODIC for one in contrary),
        any(_is_training(test) and not truth for test, truth in (one.plain for one in found)),
    )


def _is_training(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Attribute) and test.attr.value == "training"


def _around(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> Guard | None:
    """Return the guard that statements around a node are, whatever their conditions ask."""
    for above, child in evaluation.index(file).climb(node, outer):
        match above:
            case cst.If(test=test, body=body) if child is body:
                if isinstance(last_of(body), (cst.Raise, cst.Break)):
                    return Guard.ABORT  # it runs once at most
                if _is_kept(evaluation, test, body, file):
                    return Guard.KEPT
            case cst.Raise():
                return Guard.ABORT
            case cst.Assert(msg=message) if child is message:
                return Guard.ABORT
            case cst.ExceptHandler() | cst.ExceptStarHandler():
                return Guard.EXCEPTION
    return None


def is_open(evaluation: Evaluation, one: Condition) -> bool:
    """Whether a condition may hold in some turns and in others not, or is known to hold seldom."""
    guard = guard_of(evaluation, one.test, truth=one.truth)
    is_flag = isinstance(one.test, (cst.Name, cst.Attribute)) and any(
        isinstance(each, (Truth, Number)) and each.value is None and not each.option
        for each in evaluation.value(one.test)
    )
    return guard is not None or is_flag or not _is_settled(evaluation, one.test)


def _is_kept(
    evaluation: Evaluation, test: cst.BaseExpression, body: cst.BaseSuite, file: int
) -> bool:
    """``if self.mask is None: self.mask = ...``: the first turn makes it for all."""
    match test:
        case (
            cst.UnaryOperation(operator=cst.Not(), expression=asks)
            | cst.Comparison(
                left=asks,
                comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
            )
        ):
            index = evaluation.index(file)
        case _:
            return False
    asked = {dotted(one) for one in index.below(asks, cst.Attribute)}
    match asks:
        case cst.Call(func=cst.Name("hasattr"), args=[owner, cst.Arg(cst.SimpleString() as name)]):
            asked.add(f"{dotted(owner.value)}.{name.evaluated_value!s}")
    return not asked.isdisjoint(dotted(one.target) for one in index.below(body, cst.AssignTarget))


def guard_of(
    evaluation: Evaluation, test: cst.BaseExpression, depth: int = 0, *, truth: bool
) -> Guard | None:
    """Return what a test that has to come out so, or not so, is as a guard."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return guard_of(evaluation, inner, depth, truth=not truth)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            first = guard_of(evaluation, left, depth, truth=truth)
            second = guard_of(evaluation, right, depth, truth=truth)
            is_both = isinstance(operator, cst.And) is truth
            return first or second if is_both else first and second
        case cst.Comparison(left=left, comparisons=[target]):
            return _of_comparison(evaluation, left, target, truth=truth)
        case cst.BinaryOperation(operator=cst.Modulo()) if not truth:
            return Guard.PERIODIC if _counts(evaluation, test.left) else None
        case cst.Call(func=func) if not truth:
            if evaluation.library(func) == "torch.cuda.is_available":
                return Guard.NO_GPU
    constants = (Truth, Number, Text, Nothing)
    value = evaluation.value(test)
    known = [one for one in value if isinstance(one, constants)]
    is_option = any(getattr(one, "option", None) for one in known)
    is_constant = len(known) == len(value) and all(
        isinstance(one, Nothing) or one.value is not None for one in known
    )
    is_never = all(bool(getattr(one, "value", None)) is not truth for one in known)
    return Guard.OFF if known and is_never and (is_option or is_constant) else None


def _of_comparison(
    evaluation: Evaluation, left: cst.BaseExpression, target: cst.ComparisonTarget, *, truth: bool
) -> Guard | None:
    right, operator = target.comparator, target.operator
    if isinstance(operator, (cst.Equal, cst.NotEqual)):
        is_equal = isinstance(operator, cst.Equal) is truth
        sides = (getattr(side, "operator", None) for side in (left, right))
        if any(isinstance(one, cst.Modulo) for one in sides):
            return Guard.PERIODIC if is_equal else None
        if is_equal and _counts(evaluation, left) and _counts(evaluation, right):
            return Guard.EQUAL
        for one, other in ((left, right), (right, left)):
            match evaluation.value(other):
                case (Text(value="cpu" | "cuda" as word),) if is_device(evaluation, one):
                    return Guard.NO_GPU if (word == "cpu") is is_equal else None
    if isinstance(operator, (cst.Is, cst.IsNot)):
        value = evaluation.value(left)
        is_asked = isinstance(right, cst.Name) and right.value == "None"
        if is_asked and value and all(isinstance(one, Nothing) for one in value):
            return None if isinstance(operator, cst.Is) is truth else Guard.OFF
    is_clock = any(_is_clock(evaluation, side) for side in (left, right))
    return Guard.CLOCK if is_clock and truth else None


def _counts(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number that no read of a tensor gave."""
    value = evaluation.value(node)
    return bool(value) and all(isinstance(one, Number) and one.read is None for one in value)


def _is_clock(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``time.time() - start``."""
    match node:
        case cst.BinaryOperation(left=left, right=right):
            return _is_clock(evaluation, left) or _is_clock(evaluation, right)
        case cst.Call(func=func):
            return evaluation.library(func).startswith("time.")
    return False


def _asks(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what a condition asks: the parts of ``not a and b or c``."""
    match test:
        case cst.UnaryOperation(expression=inner):
            yield from _asks(inner)
        case cst.BooleanOperation(left=left, right=right):
            yield from _asks(left)
            yield from _asks(right)
        case _:
            yield test


def asks_for_device(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """Whether a condition only asks which device there is."""
    return all(
        is_device(evaluation, one.left) or is_device(evaluation, one.comparisons[0].comparator)
        if isinstance(one, cst.Comparison)
        else isinstance(one, cst.Call) and evaluation.library(one.func) in AVAILABLE
        for one in _asks(test)
    )


def _is_settled(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """Whether a condition is the same in every turn, by what it asks."""
    for one in _asks(test):
        value = evaluation.value(one)
        match one:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                is_settled = (
                    isinstance(operator, (cst.Is, cst.IsNot))
                    or (isinstance(left, cst.Name) and left.value == "__name__")
                    or any(is_device(evaluation, side) for side in (left, right))
                    or any(_is_rank(evaluation, side) for side in (left, right))
                )
            case cst.Call(func=func):
                is_settled = evaluation.library(func) in SETTLED | AVAILABLE
            case _:
                constants = (Truth, Number, Nothing)
                is_settled = bool(value) and all(isinstance(each, constants) for each in value)
        if not is_settled:
            return False
    return True


def _holds(evaluation: Evaluation, test: cst.BaseExpression, *, truth: bool) -> bool:
    """Whether a test is known to come out so, on a GPU and in the first of several processes."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _holds(evaluation, inner, truth=not truth)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            both = [_holds(evaluation, one, truth=truth) for one in (left, right)]
            return all(both) if isinstance(operator, cst.And) is truth else any(both)
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(cst.Is() | cst.IsNot() as operator, cst.Name("None"))
            ],
        ):
            is_none = isinstance(operator, cst.Is) is truth
            value = evaluation.value(left)
            is_seen = not is_unseen(value)
            return is_seen and all(isinstance(one, Nothing) is is_none for one in value)
        case cst.Comparison():
            return _is_settled(evaluation, test)
    if _is_training(test):
        return truth
    value = evaluation.value(test)
    is_seen = not is_unseen(value) and is_true(value) is truth
    return is_seen or asks_for_device(evaluation, test)


def is_device(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """``device``, ``device.type``, ``"cuda"``, ``str(device)``."""
    return any(
        isinstance(one.owner if isinstance(one, Method) else one, Place)
        or (isinstance(one, Text) and one.value in DEVICES)
        for one in evaluation.value(node)
    )


def _is_rank(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    value = evaluation.value(node)
    return any(isinstance(one, Object) and one.kind == RANK for one in value)
