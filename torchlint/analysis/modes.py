"""The two modes of a model: which calls put it into evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal

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
