"""Layers that an argument of a function adds: ``if norm: layers.append(nn.BatchNorm2d(n))``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# A condition, and what the parameter is where it holds.
_Test: TypeAlias = "tuple[cst.If | cst.IfExp, bool]"


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A parameter of a function that decides whether there is a norm.

    ``wanted``: what it is where there is one.  ``branches``: whether each condition on it holds
    then, by the identity of the node.
    """

    function: cst.FunctionDef
    param: cst.Param
    wanted: bool
    branches: dict[int, bool]


def choices(program: Program) -> list[Choice]:
    """Return the parameters by which calls in the project add norms to the layers of functions."""
    if not _any_depends(program):
        return []
    tests: dict[cst.Param, list[_Test]] = defaultdict(list)
    nodes: list[cst.If | cst.IfExp] = [*program.index.of(cst.If), *program.index.of(cst.IfExp)]
    for node in nodes:
        name, truth = _asked(node.test)
        param = None if name is None else _parameter(program, name)
        if param is not None:
            tests[param].append((node, truth))
    found = (_choice(program, param, on) for param, on in tests.items())
    return [one for one in found if one is not None and _is_taken(program, one)]


def _any_depends(program: Program) -> bool:
    """Whether a norm stands under a condition at all."""
    return any(
        isinstance(above, cst.If | cst.IfExp)
        for call in program.index.of(cst.Call)
        if _is_norm(program, call)
        for above in program.index.ancestors(call)
    )


def _choice(program: Program, param: cst.Param, tests: list[_Test]) -> Choice | None:
    wanted: set[bool] = set()
    for node, truth in tests:
        if _has_norm(program, node.body):
            wanted.add(truth)
        if _has_norm(program, node.orelse):
            wanted.add(not truth)
    function = program.parent(program.parent(param) or param)
    if len(wanted) != 1 or not isinstance(function, cst.FunctionDef):
        return None
    (value,) = wanted
    branches = {id(node): truth is value for node, truth in tests}
    return Choice(function, param, value, branches)


def _asked(test: cst.BaseExpression) -> tuple[cst.Name | None, bool]:
    """Return the name of ``if name`` or ``if not name``, and what it is where that holds."""
    match test:
        case cst.Name():
            return test, True
        case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name() as name):
            return name, False
        case _:
            return None, True


def _parameter(program: Program, name: cst.Name) -> cst.Param | None:
    """Return the parameter that a name is in all of its function, which never binds it again."""
    bindings = program.flow.reaching(name)
    if len(bindings) != 1:
        return None
    (binding,) = bindings
    param, function = binding.value, program.function(name)
    if binding.kind is not Bind.PARAMETER or not isinstance(param, cst.Param):
        return None
    if function is None or program.parent(program.parent(param) or param) is not function:
        return None
    again = [one for one in binding.scope.bindings.get(binding.name, ()) if one is not binding]
    return None if again else param


def _has_norm(program: Program, node: cst.CSTNode | None) -> bool:
    calls = () if node is None else program.index.below(node, cst.Call)
    return any(_is_norm(program, call) for call in calls)


def _is_norm(program: Program, call: cst.Call) -> bool:
    name = program.qualified(call.func)
    return name.startswith("torch.nn.") and "Norm" in name


def _is_taken(program: Program, choice: Choice) -> bool:
    """Whether a call is seen that asks for the norm, in words or by the default."""
    word = str(choice.wanted)
    for _, site in program.sites_everywhere(choice.function):
        given = program.calls.passed(choice.function, choice.param, site)
        if given is None and not any(arg.star for arg in site.args):
            given = choice.param.default
        if given is not None and literal(given) == word:
            return True
    return False
