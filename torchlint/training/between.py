"""What lies between a node and something around it: conditions, loops, contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.frequency import loop_of

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation

_ENDS = (cst.Continue, cst.Return, cst.Raise, cst.Break)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A test, and what it has to give."""

    test: cst.BaseExpression
    truth: bool
    file: int


def conditions(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> list[Condition]:
    """Return the conditions between a node and something around it, from the outside in.

    What comes after ``if x: continue`` is under ``not x``.
    """
    index = evaluation.index(file)
    found: list[Condition] = []
    child = node
    for above in index.ancestors(node):
        match above:
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body):
                if child is not test:
                    found.append(Condition(test, child is body, file))
            case cst.IndentedBlock(body=statements):
                before = statements[: next(i for i, s in enumerate(statements) if s is child)]
                found += [
                    Condition(one.test, False, file)
                    for one in reversed(before)
                    if isinstance(one, cst.If) and one.orelse is None and _leaves(one.body)
                ]
        if above is outer:
            break
        child = above
    return found[::-1]


def loops(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> list[cst.CSTNode]:
    """Return the loops between a node and something around it, from the outside in."""
    index = evaluation.index(file)
    found: list[cst.CSTNode] = []
    child = node
    for above in index.ancestors(node):
        if above is outer:
            break
        loop = loop_of(above, child)
        if loop is not None and loop is not outer:
            found.append(loop)
        child = above
    return found[::-1]


def enclosing(
    evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int
) -> list[cst.With]:
    """Return the ``with`` blocks between a node and something around it, from the inside out."""
    found: list[cst.With] = []
    child = node
    for above in evaluation.index(file).ancestors(node):
        if above is outer:
            break
        if isinstance(above, cst.With) and child is above.body:
            found.append(above)
        child = above
    return found


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine) and last.body:
        last = last.body[-1]
    return isinstance(last, _ENDS)
