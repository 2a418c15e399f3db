"""What lies between a node and something around it: conditions, loops, contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation

_LEAVES = (cst.Continue, cst.Return, cst.Break)  # what raises leaves nothing to go on


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A test, and what it has to give.

    ``left``: the other way leaves the block before: code after ``if x: continue``.
    """

    test: cst.BaseExpression
    truth: bool
    file: int
    left: bool = False

    @property
    def plain(self) -> tuple[cst.BaseExpression, bool]:
        """The test without ``not``, and what it has to give."""
        test, truth = self.test, self.truth
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, truth = test.expression, not truth
        return test, truth


def conditions(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> list[Condition]:
    """Return the conditions between a node and something around it, from the outside in."""
    found: list[Condition] = []
    for above, child in evaluation.index(file).climb(node, outer):
        match above:
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body):
                if child is not test:
                    found.append(Condition(test, child is body, file))
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                if child is right:
                    found.append(Condition(left, isinstance(operator, cst.And), file))
            case cst.IndentedBlock(body=statements) | cst.Module(body=statements):
                before = statements[: next(i for i, s in enumerate(statements) if s is child)]
                found += [
                    Condition(one.test, truth=False, file=file, left=True)
                    for one in reversed(before)
                    if isinstance(one, cst.If) and not one.orelse
                    if isinstance(last_of(one.body), _LEAVES)
                ]
    return found[::-1]


def last_of(body: cst.BaseSuite) -> cst.CSTNode | None:
    """Return the last small statement of a block, or its last statement."""
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) and last.body else last


def loops(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> tuple[cst.CSTNode, ...]:
    """Return the loops between a node and something around it, from the outside in."""
    _, found = evaluation.index(file).around(node)
    return found[found.index(outer) + 1 :] if outer in found else found
