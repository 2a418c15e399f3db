"""Whether the input of a layer is proved to have two dimensions: one row for each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.reach import class_of
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program

_NN = "torch.nn."
# Layers that give as many dimensions as they take.
_KEEPS = frozenset(
    f"{_NN}{name}"
    for name in ("Linear", "BatchNorm1d", "Dropout", "ReLU", "LeakyReLU", "PReLU", "GELU", "ELU",
                 "SELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "LayerNorm", "Identity")
)  # fmt: skip
_DROPS = (f"{_NN}functional.dropout", f"{_NN}functional.relu", "torch.relu")
_STEPS = 8  # names, layers and functions on the way to what flattens


def takes_rows(program: Program, layer: cst.Call) -> bool:
    """Whether a layer follows what flattens its input, in a Sequential or in a forward pass."""
    arg = program.parent(layer)
    around = None if arg is None else program.parent(arg)
    if isinstance(arg, cst.Arg) and isinstance(around, cst.Call):
        before = around.args[: around.args.index(arg)]
        return _flattens_before(program, [one.value for one in before])
    match arg:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)]):
            return _given_rows(program, layer, dotted(target))
        case _:
            return False


def _flattens_before(program: Program, layers: list[cst.BaseExpression]) -> bool:
    for layer in reversed(layers):
        if not isinstance(layer, cst.Call):
            return False
        name = program.qualified(layer.func)
        if name == f"{_NN}Flatten":
            return not layer.args
        if name not in _KEEPS:
            return _is_flatten(program, layer)
    return False


def _is_flatten(program: Program, made: cst.Call) -> bool:
    """Whether a layer is of a class whose forward pass flattens, and does nothing else."""
    found = class_of(program, program.value(made))
    forward = None if found is None else found[1].methods.get("forward")
    if found is None or forward is None:
        return False
    returned = [one.value for one in found[0].returns(forward)]
    return len(returned) == 1 and returned[0] is not None and _is_flat(found[0], returned[0], 0)


def _given_rows(program: Program, layer: cst.Call, attribute: str) -> bool:
    """Whether each call of ``self.fc`` in its class is given what was flattened."""
    owner = program.classes.around(layer)
    if owner is None:
        return False
    calls = [
        call for call in program.index.below(owner.node, cst.Call) if dotted(call.func) == attribute
    ]
    given = [call.args[0].value for call in calls if len(call.args) == 1]
    return (
        bool(calls) and len(given) == len(calls) and all(_is_flat(program, one, 0) for one in given)
    )


def _is_flat(program: Program, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression has two dimensions, by the call that gave it its shape."""
    if depth > _STEPS:
        return False
    match node:
        case cst.Name():
            made = program.flow.reaching(node)
            values = [one.value for one in made if not one.path]
            return len(values) == len(made) > 0 and all(
                isinstance(one, cst.BaseExpression) and _is_flat(program, one, depth + 1)
                for one in values
            )
        case cst.Call():
            return _gives_rows(program, node, depth)
        case _:
            return False


def _gives_rows(program: Program, call: cst.Call, depth: int) -> bool:
    name = program.qualified(call.func)
    if name == "torch.flatten":
        return _from_first(call.args[1:])
    if call.args and (name in _DROPS or _layer_of(program, call) in _KEEPS):
        return _is_flat(program, call.args[0].value, depth + 1)
    match call.func:
        case cst.Attribute(attr=cst.Name(value="view" | "reshape")):
            return len(call.args) == 2 and not any(arg.star or arg.keyword for arg in call.args)
        case cst.Attribute(attr=cst.Name(value="flatten")):
            return _from_first(call.args)
        case _:
            return False


def _layer_of(program: Program, call: cst.Call) -> str:
    return program.value(call.func).type


def _from_first(args: Sequence[cst.Arg]) -> bool:
    """``flatten(1)``, ``flatten(start_dim=1)``: of all dimensions but the first."""
    match list(args):
        case [cst.Arg(keyword=None | cst.Name(value="start_dim"), value=value)]:
            return literal(value) == "1"
        case _:
            return False
