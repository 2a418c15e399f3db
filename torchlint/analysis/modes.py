"""The two modes of a model: which calls put it into evaluation, and what is passed by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.index import dotted
from torchlint.analysis.narrowing import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


def evaluation_switches(program: Program) -> Iterator[cst.Call]:
    """Yield the calls of a file that put a model into evaluation."""
    for call, _ in program.method_calls("eval", "train"):
        if puts_into_evaluation(call):
            yield call


def puts_into_evaluation(call: cst.Call) -> bool:
    """``model.eval()``, and ``model.train(False)``, which is the same."""
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("eval")), args=[]):
            return True
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("train")), args=[cst.Arg(value=mode, star="")]
        ):
            return literal(mode) == "False"
        case _:
            return False


def only_in_training(program: Program, node: cst.CSTNode, name: str) -> bool:
    """Whether a node is never come to while a model is evaluated: ``if model.training: ...``.

    Also what stands after ``if not model.training: return ...``.
    """
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.FunctionDef():
                return False
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body):
                if child is not test and _in_evaluation(test, name) is (child is not body):
                    return True
            case cst.IndentedBlock() if _is_left_before(above, child, name):
                return True
            case _:
                pass
        child = above
    return False


def _in_evaluation(test: cst.BaseExpression, name: str) -> bool | None:
    """What a condition comes to of a model in evaluation; None where other things decide."""
    match test:
        case cst.Attribute(value=model, attr=cst.Name("training")) if dotted(model) == name:
            return False
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = _in_evaluation(inner, name)
            return None if found is None else not found
        case cst.BooleanOperation(left=left, right=right):
            decides = isinstance(test.operator, cst.Or)
            sides = (_in_evaluation(left, name), _in_evaluation(right, name))
            return decides if decides in sides else None
        case _:
            return None


def _is_left_before(block: cst.IndentedBlock, child: cst.CSTNode, name: str) -> bool:
    for statement in block.body:
        if statement is child:
            return False
        if (
            isinstance(statement, cst.If)
            and _in_evaluation(statement.test, name)
            and leaves(statement.body)
        ):
            return True
    return False
