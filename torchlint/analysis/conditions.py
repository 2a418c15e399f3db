"""Conditions that count turns or ask which device there is, and what stands under nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchlint.analysis.program import Program

_DEVICE_WORDS = re.compile(r"cuda|gpu|mps|xpu|device|accelerator", re.IGNORECASE)


def is_statement(program: Program, call: cst.Call) -> bool:
    """Whether a call is a statement of its own."""
    return isinstance(program.parent(call), cst.Expr)


def counts_off(program: Program, test: cst.BaseExpression) -> bool:
    """``step % n``, ``step % n != 0``; not ``step % 1``, which is 0 in each turn."""
    return any(
        isinstance(one.operator, cst.Modulo) and not is_zero(one)
        for one in program.index.below(test, cst.BinaryOperation)
    )


def is_zero(node: cst.BaseExpression) -> bool:
    """``step % 1``."""
    match node:
        case cst.BinaryOperation(operator=cst.Modulo(), right=cst.Integer("1")):
            return True
        case _:
            return False


def asks_for_device(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition only asks which device there is, the same one in every step."""
    if counts_off(program, test):
        return False
    match test:
        case cst.Name() | cst.Attribute():
            return bool(_DEVICE_WORDS.search(dotted(test)))
        case cst.UnaryOperation(operator=cst.Not()):
            return asks_for_device(program, test.expression)
        case cst.BooleanOperation():
            return asks_for_device(program, test.left) and asks_for_device(program, test.right)
        case cst.Call():
            return bool(_DEVICE_WORDS.search(dotted(test.func)))
        case cst.Comparison(comparisons=[only]):
            return any(map(_is_device, (test.left, only.comparator)))
        case _:
            return False


def _is_device(side: cst.BaseExpression) -> bool:
    """``device.type``, ``str(device)``, ``"cuda"``."""
    match side:
        case cst.Call(func=cst.Name("str"), args=[cst.Arg(value=inner)]):
            side = inner
        case _:
            pass
    return _DEVICE_WORDS.search(literal(side) or dotted(side)) is not None


def past_device_checks(program: Program, node: cst.CSTNode) -> cst.CSTNode:
    """Return the outermost ``if`` around a statement that only asks for the device, or the node."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.If):
            if not asks_for_device(program, above.test):
                break
            node = above
        elif not isinstance(above, cst.Expr | cst.SimpleStatementLine | cst.BaseSuite | cst.Else):
            break
    return node


def whole_statement(
    program: Program, calls: Collection[cst.Call], call: cst.Call
) -> cst.BaseStatement | cst.BaseSmallStatement:
    """Return the statement that does nothing but make one of some calls, device checks included."""
    statement: cst.CSTNode | None = program.parent(call)
    while (above := _holder(program, statement)) is not None and all(
        _only_calls(program, branch, calls) for branch in _branches(above)
    ):
        statement = above
    assert isinstance(statement, cst.BaseStatement | cst.BaseSmallStatement)
    return statement


def _holder(program: Program, statement: cst.CSTNode | None) -> cst.If | None:
    """Return the ``if`` ... ``else`` that a statement is directly in."""
    child = statement
    assert child is not None
    for above in program.index.ancestors(child):
        if isinstance(above, cst.If) and not isinstance(program.parent(above), cst.If):
            return above if all(asks_for_device(program, test) for test in _tests(above)) else None
        if not isinstance(above, cst.If | cst.Else | cst.BaseSuite | cst.SimpleStatementLine):
            return None
    return None


def _tests(statement: cst.If) -> Iterator[cst.BaseExpression]:
    """Yield the conditions of an ``if`` statement and its ``elif``s."""
    part: cst.If | cst.Else | None = statement
    while isinstance(part, cst.If):
        yield part.test
        part = part.orelse


def _branches(statement: cst.If) -> Iterator[cst.BaseSuite]:
    """Yield the blocks of an ``if`` statement with its ``elif`` and ``else``."""
    part: cst.If | cst.Else | None = statement
    while part is not None:
        yield part.body
        part = part.orelse if isinstance(part, cst.If) else None


def _only_calls(program: Program, branch: cst.BaseSuite, calls: Collection[cst.Call]) -> bool:
    """Whether a block does nothing but make some of the calls."""
    inside = [call for call in calls if program.index.inside(call, branch)]
    lines = [
        line.body if isinstance(line, cst.SimpleStatementLine) else [line] for line in branch.body
    ]
    statements = [small for line in lines for small in line]
    return bool(inside) and all(
        isinstance(small, cst.Expr) and any(small.value is call for call in inside)
        for small in statements
    )
