"""What is run where some conditions are known: ``if model.training: ... else: ...``."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.analysis.narrowing import leaves

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from torchlint.analysis.program import Program

    # what a condition without `not`, `and` and `or` comes to; None where that is open
    Known: TypeAlias = Callable[[cst.BaseExpression], bool | None]


# What compares two constants, by the operator that stands between them.
COMPARED: dict[type[cst.BaseCompOp], Callable[[Any, Any], bool]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}


def truth(test: cst.BaseExpression, known: Known) -> bool | None:
    """Whether a condition holds, by what is known of its parts; None where that is open."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = truth(inner, known)
            return None if found is None else not found
        case cst.BooleanOperation(left=left, right=right):
            decides = isinstance(test.operator, cst.Or)
            sides = [truth(left, known), truth(right, known)]
            return decides if decides in sides else None if None in sides else not decides
        case _:
            return known(test)


def may_come_to(program: Program, node: cst.CSTNode, known: Known) -> bool:
    """Whether what stands at a node of a function may be run in a call of it.

    It is not in a branch that is never taken, nor after one that is and does not run to its end.
    """
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body) if (
                child is not test and truth(test, known) is (child is not body)
            ):
                return False
            case cst.IndentedBlock() if _is_left_before(above, child, known):
                return False
            case cst.FunctionDef():
                return True
            case _:
                child = above
    return True


def _is_left_before(block: cst.IndentedBlock, child: cst.CSTNode, known: Known) -> bool:
    for statement in block.body:
        if statement is child:
            return False
        if isinstance(statement, cst.If) and _is_left_in(statement, known):
            return True
    return False


def _is_left_in(statement: cst.If, known: Known) -> bool:
    """Whether the branch that is taken never runs to its end."""
    part: cst.If | cst.Else | None = statement
    while isinstance(part, cst.If):
        holds = truth(part.test, known)
        if holds is None:
            return False
        if holds:
            break
        part = part.orelse
    return part is not None and leaves(part.body)
