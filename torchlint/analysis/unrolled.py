"""Trainings that go back through steps of training: meta-learning, distilled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.hoisting import loops_around
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_GRAD = "torch.autograd.grad"


def is_unrolled(program: Program, wrapper: cst.Call) -> bool:
    """Whether each turn runs a wrapped model, and asks for gradients of weights to go back through.

    ``grads = torch.autograd.grad(model(x), weights, create_graph=True)``.  A penalty asks for those
    of the input.
    """
    names = _names(program, wrapper)
    return any(
        _runs(program, names, call)
        and _keeps_graph(program, call)
        and _is_of_weights(program, call)
        for call in program.calls_of(_GRAD)
    )


def _names(program: Program, wrapper: cst.Call) -> set[str]:
    """Return the names that a wrapped model is given."""
    line = program.smallest_statement(wrapper)
    targets = [one.target for one in line.targets] if isinstance(line, cst.Assign) else []
    return {name for target in targets if (name := dotted(target))}


def _runs(program: Program, names: set[str], call: cst.Call) -> bool:
    """Whether the turn or the function around a call runs what has one of some names."""
    turn = next(loops_around(program, call), None) or program.function(call) or program.module
    return any(dotted(one.func) in names for one in program.index.below(turn, cst.Call))


def _keeps_graph(program: Program, call: cst.Call) -> bool:
    return program.argument(call, "create_graph", _GRAD).literal() == "True"


def _is_of_weights(program: Program, call: cst.Call) -> bool:
    """Whether gradients are for ``model.parameters()``, or for what they are subtracted from."""
    function = program.function(call) or program.module
    for inputs in program.argument(call, "inputs", _GRAD).values:
        code = program.code(inputs)
        if "parameters()" in code or _is_stepped(program, code, function):
            return True
    return False


def _is_stepped(program: Program, weights: str, function: cst.CSTNode) -> bool:
    """``w - lr * g``, and ``zip(weights, grads)`` for it."""
    lefts = [
        one.left
        for one in program.index.below(function, cst.BinaryOperation)
        if isinstance(one.operator, cst.Subtract)
    ]
    paired = [
        arg.value
        for one in program.index.below(function, cst.Call)
        if isinstance(one.func, cst.Name) and one.func.value == "zip"
        for arg in one.args
    ]
    return any(program.code(one) == weights for one in (*lefts, *paired))
