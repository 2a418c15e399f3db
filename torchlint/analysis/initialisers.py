"""Where each layer of a model is set up, by a function that counts on its bias to be there.

``model.apply(init)``, and ``for m in model.modules(): ...``: a layer that is built without a bias
fails there, unless the function looks for None first.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.held import may_hold
from torchlint.analysis.importing import programs_importing_by_name
from torchlint.analysis.module_uses import bias_reads
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from torchlint.analysis.program import Program

    _Place: TypeAlias = tuple[Program, cst.BaseExpression]

_WALKS = frozenset({"modules", "named_modules", "children", "named_children"})
_DEPTH = 4  # functions that pass on what they are given


def needs_bias(program: Program, layer: cst.Call, kind: str) -> str:
    """Return which code sets up each layer of a model with this one, and fails without its bias.

    A clause that says so, to tell where a check for None is missing; "" where there is no such.
    """
    for home in _homes(program):
        for read in bias_reads(home):
            name = read.node.value
            if not isinstance(name, cst.Name) or not read.concerns(layer, kind, ""):
                continue
            if any(may_hold(*one, program, layer) for one in _walked(home, name)):
                return _where(program, home, read.node)
    return ""


def _where(program: Program, home: Program, read: cst.Attribute) -> str:
    """Say which function uses a bias, or which file where none does."""
    function = home.function(read)
    file = "this file" if home is program or home.path is None else home.path.name
    place = file if function is None else f"`{function.name.value}`"
    if function is not None and home is not program:
        place += f" in {file}"
    return f"{place} uses `{home.brief(read)}` without a check for None"


def _homes(program: Program) -> Iterator[Program]:
    """Yield the file, and those that speak of biases: beside it, and those that may import it."""
    yield program
    if program.project is not None:
        beside = list(program.project.related(program, (".bias",)))
        yield from beside
        for home in programs_importing_by_name(program, ".bias"):
            if home not in beside:
                yield home


def _walked(program: Program, name: cst.Name, depth: int = 0) -> Iterator[_Place]:
    """Yield the models of which a name stands for each module in turn, with their files."""
    for binding in program.flow.reaching(name) if depth < _DEPTH else ():
        match binding.value:
            case cst.Call(func=cst.Attribute(value=model, attr=walk)) if binding.kind is Bind.FOR:
                if walk.value in _WALKS:
                    yield from _given(program, model)
            case cst.Param() as param:
                yield from _applied(program, program.function(param))
                for home, node in _passed(program, param):
                    if isinstance(node, cst.Name):
                        yield from _walked(home, node, depth + 1)
            case _:
                pass


def _given(program: Program, model: cst.BaseExpression, depth: int = 0) -> Iterator[_Place]:
    """Yield an expression, or what the calls of its function pass where it is a parameter."""
    passed: list[_Place] = []
    if isinstance(model, cst.Name) and model.value != "self" and depth < _DEPTH:
        for binding in program.flow.reaching(model):
            if isinstance(binding.value, cst.Param):
                passed += _passed(program, binding.value)
    if passed:
        yield from chain.from_iterable(_given(*one, depth + 1) for one in passed)
    else:
        yield program, model


def _passed(program: Program, param: cst.Param) -> Iterator[_Place]:
    """Yield what calls in the project pass for a parameter."""
    function = program.function(param)
    if function is None:
        return
    for home, call in program.sites_everywhere(function):
        node = program.calls.passed(function, param, call)
        if node is not None:
            yield home, node


def _applied(program: Program, function: cst.FunctionDef | None) -> Iterator[_Place]:
    """Yield the models on which ``apply`` runs a function, or one that another returns."""
    if function is None:
        return
    outer = program.function(function)
    names = {one.name.value for one in (function, outer) if one is not None}
    homes = [program]
    if program.project is not None:
        homes += program.project.related(program, (".apply(",))
    for home in homes:
        for call, func in home.method_calls("apply"):
            if call.args and not names.isdisjoint(_names(call.args[0].value)):
                yield from _given(home, func.value)


def _names(function: cst.BaseExpression) -> Iterator[str]:
    """Yield the names of a function, of one that makes it, and of the first that makes it of."""
    yield dotted(function).rpartition(".")[2]
    if isinstance(function, cst.Call):
        yield from _names(function.func)
        if function.args:
            yield dotted(function.args[0].value).rpartition(".")[2]
