"""What a number is for that the host reads: it is shown, kept, added up, decided by, handed on.

Names are followed to where they are read, within their function.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import is_known
from torchlint.semantics.values import Library, Method, Object, Text, Unknown
from torchlint.syntax.calls import last_name
from torchlint.training.host_reads import HostRead, How
from torchlint.training.read_names import CONVERSIONS, COUNTS, LOGGERS, LOGGING, LOGS, SHOWS, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation

PASSED_ON = CONVERSIONS | {"round", "abs", "min", "max", "sum", "pow", "list", "tuple", "dict"}
PUTS = frozenset("append appendleft add insert extend put setdefault push".split())
FILES = frozenset("write writelines writerow writerows".split())


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


def uses(evaluation: Evaluation, read: HostRead) -> tuple[Use, ...]:
    """Return what a read is for, each once; nothing where nobody uses it."""
    if read.how is How.SHOWN:
        return (Use.SHOWN,)
    if read.how is How.COUNT:
        return (Use.COUNTED,)
    if read.how is How.TRUTH:
        return (Use.DECIDES,)
    found = {use for use, _ in places(evaluation, read.node, read.file)}
    return tuple(use for use in Use if use in found)


def places(
    evaluation: Evaluation, node: cst.BaseExpression, file: int
) -> Iterator[tuple[Use, cst.CSTNode]]:
    """Yield the places where a number, or what is computed of it, is used, and what for."""
    seen: set[int] = set()
    waiting: list[cst.CSTNode] = [node]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            yield from _upwards(evaluation, one, file, waiting)


def _upwards(
    evaluation: Evaluation, node: cst.CSTNode, file: int, waiting: list[cst.CSTNode]
) -> Iterator[tuple[Use, cst.CSTNode]]:
    """Yield the use that an expression has; names that it is given go on to be looked at."""
    index = evaluation.index(file)
    child = node
    for above in index.ancestors(node):
        match above:
            case cst.Call() if child is not above.func:
                use = argument_use(evaluation, above)
                if use is not None:
                    yield use, above
                    return
            case cst.FormattedStringExpression():
                yield Use.SHOWN, above
                return
            case cst.BinaryOperation(operator=cst.Modulo(), left=left) if left is not child:
                if any(isinstance(one, Text) for one in evaluation.value(left)):
                    yield Use.SHOWN, above
                    return
            case cst.Return() | cst.Yield() | cst.Lambda():
                yield Use.RETURNED, above
                return
            case cst.If() | cst.While() | cst.Assert() | cst.CompIf():
                yield Use.DECIDES, above
                return
            case cst.IfExp(test=test) if test is child:
                yield Use.DECIDES, above
                return
            case cst.Index() | cst.Slice():
                yield Use.COUNTED, above
                return
            case cst.NamedExpr(target=cst.Name() as name):
                waiting += _readers(evaluation, name, file)
            case cst.AugAssign(operator=cst.AddAssign()):
                yield Use.TOTAL, above
                return
            case cst.AugAssign():
                yield Use.COMPUTED, above
                return
            case cst.Assign() if grown(evaluation, above, file) is not None:
                yield Use.TOTAL, above
                return
            case cst.Assign() | cst.AnnAssign():
                yield from _assigned(evaluation, above, file, waiting)
                return
            case cst.BaseSmallStatement() | cst.BaseStatement():
                if not isinstance(above, cst.Expr):
                    yield Use.COMPUTED, above
                return
        child = above


def _assigned(
    evaluation: Evaluation,
    statement: cst.Assign | cst.AnnAssign,
    file: int,
    waiting: list[cst.CSTNode],
) -> Iterator[tuple[Use, cst.CSTNode]]:
    targets: list[cst.BaseExpression] = (
        [target.target for target in statement.targets]
        if isinstance(statement, cst.Assign)
        else [statement.target]
    )
    while targets:
        match targets.pop():
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                targets += [element.value for element in elements]
            case cst.Name() as name:
                waiting += _readers(evaluation, name, file)
            case _:
                yield Use.KEPT, statement


def _readers(evaluation: Evaluation, name: cst.Name, file: int) -> Iterator[cst.Name]:
    """Yield where a name is read that has its value from here."""
    index = evaluation.index(file)
    for other in index.named.get(name.value, ()):
        if any(one.node is name for one in evaluation.bindings(other)):
            yield other


def argument_use(evaluation: Evaluation, call: cst.Call) -> Use | None:
    """Return what a call does with a number that it gets, None where it gives it back."""
    functions = evaluation.value(call.func)
    word = last_name(call.func)
    for one in functions:
        match one:
            case Library(name=name):
                package, _, rest = name.partition(".")
                if name.startswith(LOGGERS) or (package == "builtins" and rest in SHOWS):
                    return Use.SHOWN
                if name in COUNTS:
                    return Use.COUNTED
                if package in ("math", "numpy") or (package == "builtins" and rest in PASSED_ON):
                    return None
            case Method(owner=Text(), name="format"):
                return Use.SHOWN
            case Method(owner=Object(kind=kind)):
                if kind.startswith(LOGGING):
                    return Use.SHOWN
                if kind == "builtins.open":
                    return Use.KEPT
    if word in WRITES or (word in LOGS and not is_known(functions)):
        return Use.SHOWN
    is_method = all(isinstance(one, (Method, Unknown)) for one in functions)
    return Use.KEPT if is_method and word in PUTS | FILES else Use.HANDED


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
