"""Callers, callees and classes, in this file or in another one of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.syntax.scopes import Binding


def callers(program: Program, function: cst.FunctionDef) -> Iterator[tuple[Program, cst.Call]]:
    """Yield the calls of a function, each with the file that it stands in."""
    for site in program.calls.sites(function):
        yield program, site
    if program.project is not None:
        yield from program.project.callers(program, function)


def callee(program: Program, call: cst.Call) -> tuple[Program, cst.FunctionDef] | None:
    """Return the function that a call runs, with its file; of a module its ``forward``."""
    target = program.calls.target(call)
    if target is not None:
        return program, target
    found = program.calls.elsewhere(call)
    if found is not None:
        return found.program, found.function
    return forward_of(program, program.value(call.func))


def received(
    program: Program, call: cst.Call, given: cst.BaseExpression
) -> tuple[Program, Binding] | None:
    """Return the one parameter that gets an argument in the function that a call runs."""
    found = callee(program, call)
    if found is None:
        return None
    home, function = found
    taken = [
        home.index.bound(param)
        for param in (*function.params.params, *function.params.kwonly_params)
        if home.calls.passed(function, param, call) is given
    ]
    return (home, taken[0]) if len(taken) == 1 and taken[0] is not None else None


def class_of(program: Program, value: Value) -> tuple[Program, Class] | None:
    """Return the class of an instance, with its file."""
    owner = program.classes.named(value.type) or program.classes.get(value.made)
    if owner is not None:
        return program, owner
    project = program.project
    return project.class_of(value.type) if project is not None and ":" in value.type else None


def forward_of(program: Program, model: Value) -> tuple[Program, cst.FunctionDef] | None:
    """Return the ``forward`` of a module, with its file; its own ``__call__``, if it has one."""
    found = class_of(program, model) if model.kind is Kind.MODULE else None
    if found is None:
        return None
    home, owner = found
    for name in ("__call__", "forward"):
        method = home.classes.method(owner, name)
        if method is not None:
            return home, method
        above = None if home.project is None else home.project.inherited(home, owner, name)
        if above is not None:
            return above.program, above.function
    return None


def passed(
    program: Program, function: cst.FunctionDef, param: cst.Param
) -> Iterator[tuple[Program, cst.BaseExpression]]:
    """Yield what the calls of a function pass for a parameter, each with its file."""
    for node in program.calls.arguments(function, param):
        yield program, node
    if program.project is not None:
        yield from program.project.passed(program, function, param)
