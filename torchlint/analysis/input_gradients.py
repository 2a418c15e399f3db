"""Where a turn asks for the gradient of its input, and not of what a model learns.

``x = Variable(x, requires_grad=True); loss(model(x), y).backward(); x.grad.sign()``: an attack, a
heat map, or a score that a change of the input makes clearer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


def reads_input_gradient(program: Program, turn: cst.CSTNode) -> bool:
    """Whether a loop or function reads the gradient of what it gives a model, and has just made.

    What is kept from turn to turn and gets a gradient is trained by hand: ``w -= lr * w.grad``.
    """
    return any(_is_own_input(program, name, turn) for name in program.index.named.get("grad", ()))


def _is_own_input(program: Program, grad: cst.Name, turn: cst.CSTNode) -> bool:
    match program.parent(grad):
        case cst.Attribute(value=cst.Name() as name, attr=attr) if attr is grad:
            return (
                program.index.inside(grad, turn)
                and _is_made_in(program, name, turn)
                and _is_leaf(program, name, turn)
                and _is_input(program, name, turn)
            )
        case _:
            return False


def _is_made_in(program: Program, name: cst.Name, turn: cst.CSTNode) -> bool:
    bindings = program.flow.reaching(name)
    return bool(bindings) and all(program.index.inside(one.node, turn) for one in bindings)


def _is_leaf(program: Program, name: cst.Name, turn: cst.CSTNode) -> bool:
    """``x.requires_grad_()``, ``x.requires_grad = True``, ``Variable(x, requires_grad=True)``."""
    return any(_asks(program, one) for one in _uses(program, name, turn)) or any(
        arg.keyword is not None and arg.keyword.value == "requires_grad"
        for binding in program.flow.reaching(name)
        if binding.is_plain and binding.value is not None
        for arg in program.index.below(binding.value, cst.Arg)
    )


def _asks(program: Program, use: cst.Name) -> bool:
    match program.parent(use):
        case cst.Attribute(attr=cst.Name("requires_grad_" | "retain_grad")):
            return True
        case cst.Attribute(attr=cst.Name("requires_grad")) as attribute:
            return isinstance(program.parent(attribute), cst.AssignTarget)
        case _:
            return False


def _is_input(program: Program, name: cst.Name, turn: cst.CSTNode) -> bool:
    """Whether what a name stands for is passed to something that is not a function of torch."""
    made = [one.value for one in program.flow.reaching(name) if one.value is not None]
    for use in _uses(program, name, turn):
        if any(program.index.inside(use, one) for one in made):
            continue  # `x = to_variable(x)`
        match program.parent(use):
            case cst.Arg() as arg:
                call = program.parent(arg)
            case _:
                continue
        if isinstance(call, cst.Call) and not program.qualified(call.func).startswith("torch."):
            return True
    return False


def _uses(program: Program, name: cst.Name, turn: cst.CSTNode) -> Iterator[cst.Name]:
    for use in program.index.named[name.value]:
        if program.index.inside(use, turn):
            yield use
