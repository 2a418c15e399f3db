"""The models that a file trains: those whose parameters it gives to an optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.importing import is_imported
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind, Value
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_MOVES = torch_api.MODULE_SELF | {"requires_grad_", "compile"}
_PLACES = torch_api.MODULE_SELF - {"train"}
_DEPTH = 4  # calls that hand a model on
_WRAPPERS = ("DataParallel", "DistributedDataParallel")


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A model that an optimizer updates.

    ``node`` is how the file names it where the optimizer is made, ``value`` what it is, without
    the wrappers of distributed training.
    """

    node: cst.BaseExpression
    value: Value
    optimizer: cst.Call


def trained_models(program: Program) -> Iterator[Trained]:
    """Yield what the optimizers of torch that this file makes are given the parameters of."""
    for optimizer in program.calls_of(*torch_api.OPTIMIZERS):
        for arg in optimizer.args[:1]:
            for call in program.index.below(arg, cst.Call):
                match call.func:
                    case cst.Attribute(value=node, attr=cst.Name("parameters")):
                        yield Trained(node, model_of(program, node), optimizer)
                    case _:
                        pass


def is_untrained(program: Program, func: cst.BaseExpression) -> bool:
    """Whether nobody trains what is called: its name is never used but to call it.

    What trains a model asks it for its parameters, is given it, or puts it into another one.
    """
    bindings = program.flow.reaching(func) if isinstance(func, cst.Name) else ()
    return bool(bindings) and all(
        one.is_plain
        and isinstance(one.value, cst.Call)
        and not is_imported(program, one)
        and all(_only_runs(program, use) for use in uses_of(program, one))
        for one in bindings
    )


def _only_runs(program: Program, use: cst.Name) -> bool:
    """``blur(x)``, ``blur.eval()``, ``blur.cuda()`` and ``global blur``."""
    match program.parent(use):
        case cst.Call(func=func):
            return func is use
        case cst.Attribute(value=value, attr=cst.Name(value=name)):
            return value is use and name in _PLACES
        case above:
            return isinstance(above, cst.NameItem)


def is_trained(program: Program, func: cst.BaseExpression) -> bool:
    """Whether what is called is put into training, or asked for its parameters."""
    bindings = program.flow.reaching(func) if isinstance(func, cst.Name) else ()
    return any(_trains(program, use) for one in bindings for use in uses_of(program, one))


def _trains(program: Program, use: cst.Name) -> bool:
    above = program.parent(use)
    call = None if above is None else program.parent(above)
    match above:
        case cst.Attribute(attr=cst.Name("parameters")):
            return True
        case cst.Attribute(attr=cst.Name("train")) if isinstance(call, cst.Call):
            return all(literal(arg.value) == "True" for arg in call.args)
        case _:
            return False


def model_of(program: Program, node: cst.BaseExpression) -> Value:
    """Return the model that an expression gives, without the wrappers of distributed training.

    A name may stand for the model and for the wrapped model: then it is the model.
    """
    return _model(program, node, 0)


def _model(program: Program, node: cst.BaseExpression, depth: int) -> Value:
    found = list(_meant(program, node, depth)) if isinstance(node, cst.Name) else []
    if found and len({(value.kind, value.type) for value in found}) == 1:
        return found[0]
    return _unwrapped(program, program.value(node), depth)


def _meant(program: Program, name: cst.Name, depth: int) -> Iterator[Value]:
    """Yield the models that a name may stand for, through the calls of its function."""
    for binding in program.flow.reaching(name):
        function = program.function(binding.node)
        param = binding.value
        if isinstance(param, cst.Param) and function is not None and depth < _DEPTH:
            for given in program.calls.arguments(function, param):
                if isinstance(given, cst.Name):
                    yield from _meant(program, given, depth + 1)
                else:
                    yield _unwrapped(program, program.value(given), depth)
        else:
            yield _unwrapped(program, program.values.binding(binding), depth)


def _unwrapped(program: Program, value: Value, depth: int) -> Value:
    """Return what is wrapped, if it is; of a global name that wraps itself, not for ever."""
    inner = _wrapped(value.made) if value.type.endswith(_WRAPPERS) and depth < _DEPTH else None
    return value if inner is None else _model(program, inner, depth + 1)


def _wrapped(call: cst.CSTNode | None) -> cst.BaseExpression | None:
    match call:
        case cst.Call(args=[cst.Arg(value=inner, star=""), *_]):
            return inner
        case _:
            return None


def built_by(program: Program, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call that builds the model a name stands for, without what moves it."""
    for _ in range(8):
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
                method in _MOVES and program.value(inner).kind is Kind.MODULE
            ):
                node = inner
            case cst.Call():
                inside = _wrapped(node) if program.value(node).type.endswith(_WRAPPERS) else None
                if inside is None:
                    return node
                node = inside
            case cst.Name():
                bindings = [b for b in program.flow.reaching(node) if b.kind is Bind.ASSIGN]
                if not bindings or bindings[0].path or bindings[0].value is None:
                    return None
                made = bindings[0].value
                assert isinstance(made, cst.BaseExpression)
                node = made
            case _:
                return None
    return None
