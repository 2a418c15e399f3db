"""What a file does with the optimizers that it makes: loads them, scales their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.index import Bind, dotted
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_MAY_BE_MODELS = (Kind.MODULE, Kind.UNKNOWN)


def is_made_by(program: Program, node: cst.BaseExpression, made: cst.Call) -> bool:
    """Whether an expression is the optimizer that a call makes."""
    value = program.value(node)
    return value.kind is Kind.OPTIMIZER and value.made is made


def loads(program: Program, made: cst.Call) -> list[cst.Call]:
    """Return the calls of ``load_state_dict`` on the optimizer that a call makes."""
    return [
        call
        for call, func in program.method_calls("load_state_dict")
        if call.args and is_made_by(program, func.value, made)
    ]


def saves(program: Program) -> bool:
    """Whether the file takes the ``state_dict()`` of an optimizer: its checkpoints are its own."""
    return any(
        program.value(func.value).kind is Kind.OPTIMIZER
        or "opt" in dotted(func.value).rpartition(".")[2].lower()
        for _, func in program.method_calls("state_dict")
    )


def scaled_steps(program: Program, made: cst.Call) -> Iterator[tuple[cst.Call, bool]]:
    """Find the calls ``scaler.step(optimizer)``, each with whether its scaler is surely enabled."""
    for call, func in program.method_calls("step"):
        if len(call.args) != 1 or not is_made_by(program, call.args[0].value, made):
            continue
        scaler = program.value(func.value)
        if scaler.kind is Kind.SCALER:
            enabled = _enabled(scaler.made)
            if enabled != "False":
                yield call, enabled == "True"


def _enabled(scaler: cst.CSTNode | None) -> str | None:
    """Return what the call that makes a gradient scaler passes for ``enabled``; None: unknown."""
    if not isinstance(scaler, cst.Call) or any(arg.star for arg in scaler.args):
        return None
    given = [arg.value for arg in scaler.args if arg.keyword and arg.keyword.value == "enabled"]
    return literal(given[0]) if given else "True"


def moved_later(program: Program, made: cst.Call) -> bool:
    """Whether the model whose parameters an optimizer gets is put on a device only afterwards.

    It may be moved as a part of another module, whose name is another.
    """
    if not made.args:
        return False
    if program.frameworks and any(program.method_calls("prepare", "setup")):
        return True  # a framework moves what it prepares
    if _is_in_constructor(program, made):
        return True
    index = program.index
    models = {dotted(node) for node in _models_of(program, made.args[0].value)} - {""}
    moves = [
        (call, func.value)
        for call, func in program.method_calls("to", "cuda")
        if program.function(call) is program.function(made)
    ]
    after = [node for call, node in moves if index.order(call) > index.order(made)]
    before = {dotted(node) for call, node in moves if index.order(call) < index.order(made)}
    if any(dotted(node) in models for node in after):
        return bool(models)
    return bool(models - before) and any(_holds_models(program, node) for node in after)


def _models_of(program: Program, given: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the models whose parameters an optimizer is given: by name, or by a helper function.

    ``decayed, others = split(model)`` are parameters of ``model``.
    """
    for call in program.index.below(given, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters"):
            yield call.func.value
    for name in program.index.below(given, cst.Name):
        for binding in program.flow.reaching(name):
            match binding.value:
                case cst.Call(func=cst.Name(), args=args) if binding.kind is Bind.ASSIGN:
                    kinds = ((arg.value, program.value(arg.value).kind) for arg in args)
                    yield from (node for node, kind in kinds if kind in _MAY_BE_MODELS)
                case _:
                    pass


def _is_in_constructor(program: Program, made: cst.Call) -> bool:
    """Whether a module makes the optimizer of its own parameters before anybody can move it."""
    owner, function = program.classes.around(made), program.function(made)
    if owner is None or not owner.is_module or function is not owner.methods.get("__init__"):
        return False
    calls = program.index.below(made.args[0].value, cst.Call)
    of_self = any(dotted(call.func) == "self.parameters" for call in calls)
    return of_self and not any(
        dotted(func.value) == "self" and program.function(call) is function
        for call, func in program.method_calls("to", "cuda")
    )


def _holds_models(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is a container of modules, by torch's name for it."""
    return program.value(node).type in ("torch.nn.ModuleList", "torch.nn.ModuleDict")


def sparse_gradients(program: Program) -> bool:
    """Whether a layer of the file asks for sparse gradients, or may."""
    return "sparse" in program.text and any(
        arg.keyword is not None and arg.keyword.value == "sparse" and literal(arg.value) != "False"
        for call in program.index.of(cst.Call)
        for arg in call.args
    )
