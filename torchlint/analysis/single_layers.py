"""Training steps that run no more than one linear layer: most of their time goes into launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.kernels import same_either_way
from torchlint.analysis.model_runs import may_run_model
from torchlint.analysis.origins import origins
from torchlint.analysis.reach import class_of
from torchlint.analysis.training_steps import is_loss
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.training_steps import TrainingStep
    from torchlint.analysis.values import Value

_COPIES = ("copy.deepcopy", "copy.copy")
_AGAIN = (cst.For, cst.While, cst.ListComp, cst.GeneratorExp, cst.DictComp)
_DEPTH = 4  # models inside of models
_MOST = 20  # expressions that a model may come from


def runs_one_layer(program: Program, step: TrainingStep) -> bool:
    """Whether all models that a step runs are seen, and none has more than one linear layer."""
    return _is_single(program, step.forward.func) and all(
        _is_single(program, call.func)
        for call in program.index.below(step.place, cst.Call)
        if may_run_model(program, call) and not is_loss(program, call.func)
    )


def _is_single(program: Program, func: cst.BaseExpression) -> bool:
    made = [_layers(program, program.value(one), 0) for one in _makers(program, func)]
    return bool(made) and all(layers is not None and _is_little(layers) for layers in made)


def _is_little(layers: list[str]) -> bool:
    """Whether layers multiply once at most; behind an embedding, a product may be of all words."""
    if any(layer.startswith("torch.nn.Conv") for layer in layers):
        return False
    linear = layers.count("torch.nn.Linear")
    return linear == 0 or (linear == 1 and "torch.nn.Embedding" not in layers)


def _makers(program: Program, model: cst.BaseExpression) -> list[cst.CSTNode]:
    """Return the expressions that make a model, before it is moved or copied."""
    found: list[cst.CSTNode] = []
    seen: set[int] = set()
    todo: list[cst.CSTNode] = [model]
    while todo and len(seen) < _MOST:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for origin in origins(program, node):
            same = _same(program, origin)
            (found if same is None else todo).append(origin if same is None else same)
    return found


def _same(program: Program, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the model of ``model.cuda()`` or ``copy.deepcopy(model)``."""
    match node:
        case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=method))) if (
            method in torch_api.MODULE_SELF
        ):
            return receiver
        case cst.Call(func=func, args=[cst.Arg(value=copied), *_]) if (
            program.qualified(func) in _COPIES
        ):
            return copied
        case _:
            return None


def _layers(program: Program, model: Value, depth: int) -> list[str] | None:
    """Return the classes of the layers that a model is made of; None if not all are seen."""
    if depth > _DEPTH or not same_either_way(program, model):
        return None
    if model.type == "torch.nn.Sequential":
        assert isinstance(model.made, cst.Call)
        return _together(program, (program.value(arg.value) for arg in model.made.args), depth)
    found = class_of(program, model)
    return [model.type] if found is None else _of_class(*found, depth)


def _of_class(program: Program, owner: Class, depth: int) -> list[str] | None:
    """Return the layers that a class makes in its methods, none of which repeats anything."""
    if any(any(program.index.below(owner.node, kind)) for kind in _AGAIN):
        return None
    made = [program.value(call) for call in program.index.below(owner.node, cst.Call)]
    return _together(program, (one for one in made if one.kind is Kind.MODULE), depth)


def _together(program: Program, models: Iterable[Value], depth: int) -> list[str] | None:
    found: list[str] = []
    for model in models:
        layers = _layers(program, model, depth + 1)
        if layers is None:
            return None
        found += layers
    return found
