"""What a number is for that the host reads: it is shown, kept, added up, decided by, handed on.

Names are followed to where they are read, within their function.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import is_known
from torchlint.syntax.calls import last_name
from torchlint.training.host_reads import CONVERSIONS, COUNTS, HostRead, How, is_text, shows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation


class Use(enum.Enum):
    """What a number is for."""

    TOTAL = enum.auto()  # total += n
    SHOWN = enum.auto()  # printed, made text of, given to a logger
    KEPT = enum.auto()  # put into a list, an entry or an attribute
    HANDED = enum.auto()  # given to a function, or to a method of an object
    DECIDES = enum.auto()  # asked by a condition
    COUNTED = enum.auto()  # how many, or which
    RETURNED = enum.auto()
    COMPUTED = enum.auto()  # anything else


READS = {How.SHOWN: Use.SHOWN, How.COUNT: Use.COUNTED, How.TRUTH: Use.DECIDES}
ENDS = {
    cst.FormattedStringExpression: Use.SHOWN,
    **dict.fromkeys((cst.Return, cst.Yield, cst.Lambda), Use.RETURNED),
    **dict.fromkeys((cst.If, cst.While, cst.Assert, cst.CompIf), Use.DECIDES),
    **dict.fromkeys((cst.Index, cst.Slice), Use.COUNTED),
}
# What gives back a number that it was given.
PASSES_ON = CONVERSIONS | {
    f"builtins.{name}" for name in "bool round abs min max sum pow list tuple dict".split()
}
LOGS = frozenset("debug info warning error critical log".split())
PUTS = frozenset(
    """append appendleft add insert extend put setdefault push write writelines writerow
    writerows""".split()
)


def uses(evaluation: Evaluation, read: HostRead) -> tuple[Use, ...]:
    """Return what a read is for, each once; nothing where nobody uses it."""
    if read.how in READS:
        return (READS[read.how],)
    found = {use for use, _ in places(evaluation, read.node, read.file)}
    return tuple(use for use in Use if use in found)


def places(
    evaluation: Evaluation, node: cst.BaseExpression, file: int
) -> Iterator[tuple[Use, cst.CSTNode]]:
    """Yield the places where a number, or what is computed of it, is used, and what for."""
    waiting: list[cst.CSTNode] = [node]
    for one in waiting:  # it grows
        for use, place in _upwards(evaluation, one, file):
            if use is not None:
                yield use, place
            else:
                new = readers(evaluation, place, file)
                waiting += [name for name in new if name not in waiting]


def _upwards(
    evaluation: Evaluation, node: cst.CSTNode, file: int
) -> Iterator[tuple[Use | None, cst.CSTNode]]:
    """Yield the use that an expression has, with None the names that it is given."""
    for above, child in evaluation.index(file).climb(node):
        use = ENDS.get(type(above))
        match above:
            case cst.Call() if child is not above.func:
                use = argument_use(evaluation, above)
            case cst.BinaryOperation(operator=cst.Modulo(), left=left) if left is not child:
                use = Use.SHOWN if is_text(evaluation, left) else None
            case cst.IfExp(test=test) if test is child:
                use = Use.DECIDES
            case cst.Assign() | cst.AugAssign() if grown(evaluation, above, file) is not None:
                use = Use.TOTAL
            case cst.Assign() | cst.AnnAssign():
                for target in targets_of(above):
                    yield None if isinstance(target, cst.Name) else Use.KEPT, target
                return
            case cst.Expr():
                return
            case cst.BaseSmallStatement() | cst.BaseStatement():
                use = use or Use.COMPUTED
        if use is not None:
            yield use, above
            return


def targets_of(statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield what a statement assigns to, the parts of tuples one by one."""
    waiting: list[cst.BaseExpression] = []
    match statement:
        case cst.Assign(targets=targets):
            waiting += [one.target for one in targets]
        case cst.AnnAssign(target=target):
            waiting.append(target)
    while waiting:
        match waiting.pop():
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                waiting += [element.value for element in elements]
            case one:
                yield one


def readers(evaluation: Evaluation, name: cst.CSTNode, file: int) -> Iterator[cst.Name]:
    """Yield where a name is read that has its value from here."""
    for other in evaluation.index(file).named.get(getattr(name, "value", ""), ()):
        if any(one.node is name for one in evaluation.bindings(other)):
            yield other


def argument_use(evaluation: Evaluation, call: cst.Call) -> Use | None:
    """Return what a call does with a number that it gets, None where it gives it back."""
    word = last_name(call.func)
    is_logger = word in LOGS and not is_known(evaluation.value(call.func))
    if is_logger or shows(evaluation, call):
        return Use.SHOWN
    name = evaluation.library(call.func)
    if name in COUNTS:
        return Use.COUNTED
    if name in PASSES_ON or name.startswith(("math.", "numpy.")):
        return None
    return Use.KEPT if word in PUTS else Use.HANDED


def grown(
    evaluation: Evaluation, statement: cst.CSTNode, file: int
) -> cst.BaseAssignTargetExpression | None:
    """Return ``x`` of ``x += ...`` and ``x = x + ...``."""
    match statement:
        case cst.AugAssign(target=target, operator=cst.AddAssign()):
            return target
        case cst.Assign(
            targets=[cst.AssignTarget(target=target)],
            value=cst.BinaryOperation(left=left, operator=cst.Add()),
        ) if evaluation.module(file).same(left, target):
            return target
    return None
