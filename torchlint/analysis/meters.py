"""Objects that add up what a method is given: ``meter.update(loss, n)`` of an ``AverageMeter``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import callee
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

_SCALES = (cst.Multiply, cst.Divide)


@dataclass(frozen=True, slots=True, eq=False)
class Metered:
    """A call that adds an argument to what an object keeps under ``attribute``.

    ``empties`` are the methods of the object that start it anew.
    """

    call: cst.Call
    keeper: cst.BaseExpression
    term: cst.BaseExpression
    attribute: str
    empties: frozenset[str]


def metered(program: Program) -> Iterator[Metered]:
    """Find the calls by the usual names whose result is dropped, and that add to an object."""
    for call, func in program.method_calls("update", "add"):
        alone = isinstance(program.parent(call), cst.Expr) and bool(call.args)
        if alone and dotted(func.value) != "self" and not program.qualified(func):
            yield from _added(program, call, func.value)


def _added(program: Program, call: cst.Call, keeper: cst.BaseExpression) -> Iterator[Metered]:
    if program.value(keeper).kind not in (Kind.INSTANCE, Kind.MODULE):
        return
    found = callee(program, call)
    if found is None:
        return
    home, function = found
    owner = home.classes.around(function)
    if owner is None or function.decorators or "backward" in home.code(owner.node):
        return  # an object that asks gradients of what it keeps
    for attribute, param in _sums(home, function):
        given = home.calls.passed(function, param, call)
        if given is not None:
            yield Metered(call, keeper, given, attribute, _empties(home, owner, attribute))
            return


def _sums(program: Program, function: cst.FunctionDef) -> Iterator[tuple[str, cst.Param]]:
    """Yield what a method adds in every call: a parameter, to the ``self.x`` of a name."""
    for line in function.body.body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match statement:
                case cst.AugAssign(
                    target=cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)),
                    operator=cst.AddAssign(),
                    value=term,
                ):
                    pass
                case cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)) as target
                        )
                    ],
                    value=cst.BinaryOperation(left=before, operator=cst.Add(), right=term),
                ) if dotted(before) == dotted(target):
                    pass
                case _:
                    continue
            for param in function.params.params[1:]:
                if _is_scaled(program, term, param):
                    yield name, param


def _is_scaled(program: Program, term: cst.BaseExpression, param: cst.Param) -> bool:
    """Whether a term is a parameter as it was passed, or that times something: ``value * n``."""
    match term:
        case cst.Name():
            bindings = program.flow.reaching(term)
            return [one.value for one in bindings if one.kind is Bind.PARAMETER] == [param] and (
                len(bindings) == 1
            )
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            sides = (left, right)
            scales = isinstance(operator, _SCALES)
            return scales and any(_is_scaled(program, side, param) for side in sides)
        case _:
            return False


def _empties(program: Program, owner: Class, attribute: str) -> frozenset[str]:
    """Return the names of the methods that give an attribute a new value, or call such a one."""
    methods = {
        name: one for each in program.classes.lineage(owner) for name, one in each.methods.items()
    }
    found = {
        store.method.name.value
        for store in program.classes.stores(owner, attribute)
        if not _grows(store.value, attribute)
    }
    for _ in methods:
        more = {name for name, one in methods.items() if _calls_one_of(program, one, found)}
        if more <= found:
            break
        found |= more
    return frozenset(found)


def _grows(value: cst.CSTNode | None, attribute: str) -> bool:
    match value:
        case cst.AugAssign():
            return True
        case cst.BinaryOperation(left=before):
            return dotted(before) == f"self.{attribute}"
        case _:
            return False


def _calls_one_of(program: Program, function: cst.FunctionDef, names: set[str]) -> bool:
    calls = (dotted(call.func) for call in program.index.below(function.body, cst.Call))
    return any(name.startswith("self.") and name[5:] in names for name in calls)
