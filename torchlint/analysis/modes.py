"""The two modes of a model: which calls put it into evaluation, and what is passed by then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.decisions import may_come_to
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.index import dotted

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
    return not may_come_to(program, node, partial(_in_evaluation, name))


def _in_evaluation(name: str, test: cst.BaseExpression) -> bool | None:
    """What a condition comes to of a model in evaluation; None where other things decide."""
    match test:
        case cst.Attribute(value=model, attr=cst.Name("training")) if dotted(model) == name:
            return False
        case _:
            return None
