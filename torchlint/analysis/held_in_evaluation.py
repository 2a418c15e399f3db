"""Models that are never in training mode: ``train`` of their class puts them into evaluation mode.

Their norms do not compute the mean of a batch: they subtract one that is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.held import is_heir, is_made_only_in, outermost
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


def stays_in_evaluation(program: Program, layer: cst.Call) -> bool:
    """Whether each model that holds a layer of the file refuses to be put into training mode."""
    outer = outermost(program, layer)
    for home in _homes(program) if outer is not None else ():
        for owner in home.classes:
            train = owner.methods.get("train")
            if train is None or not _refuses(train, home):
                continue
            if is_heir(home, owner, program, outer):
                return True
            if home is program and outer is not None and is_made_only_in(program, owner, outer):
                return True
    return False


def _homes(program: Program) -> Iterator[Program]:
    yield program
    if program.project is not None:
        yield from program.project.related(program, ("def train(self",))


def _refuses(train: cst.FunctionDef, program: Program) -> bool:
    """Whether a ``train`` hands ``False`` to that of its base, whatever mode it is given."""
    modes = [param.name.value for param in train.params.params[1:]]
    names = program.index.below(train.body, cst.Name)
    if not modes or any(name.value in modes and not _is_keyword(program, name) for name in names):
        return False
    calls = program.index.below(train.body, cst.Call)
    return any(_evaluates(call) and _is_always_run(program, call, train) for call in calls)


def _is_keyword(program: Program, name: cst.Name) -> bool:
    above = program.parent(name)
    return isinstance(above, cst.Arg) and above.keyword is name


def _evaluates(call: cst.Call) -> bool:
    """``super().train(False)``, ``super().eval()``."""
    match call:
        case cst.Call(
            func=cst.Attribute(value=cst.Call(func=cst.Name("super")), attr=cst.Name(name))
        ):
            given = [dotted(arg.value) for arg in call.args]
            return (name == "train" and given == ["False"]) or (name == "eval" and not given)
        case _:
            return False


def _is_always_run(program: Program, call: cst.Call, train: cst.FunctionDef) -> bool:
    line = program.statement(call)
    above = program.parent(line)
    return above is train.body
