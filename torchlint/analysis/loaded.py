"""What a DataLoader gives: tensors that are on a GPU already, batches that can be pinned or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.loaders import LOADER
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.targets import Target
    from torchlint.analysis.values import Value


def class_of(program: Program, value: Value) -> tuple[Program, Class | None]:
    """Return the class of a value, with the program of the file that defines it."""
    found = None
    if program.project is not None and ":" in value.type:
        found = program.project.class_of(value.type)
    return (program, program.classes.named(value.type)) if found is None else found


def _function_elsewhere(program: Program, node: cst.BaseExpression) -> Target | None:
    """Return the function of another file that an expression names."""
    if program.project is None:
        return None
    return program.project.function(program, program.qualified(node))


def _called_elsewhere(program: Program, node: cst.BaseExpression) -> Target | None:
    """Return the ``__call__`` of an object of a class of another file."""
    value = program.value(node)
    if program.project is None or value.kind is not Kind.INSTANCE or ":" not in value.type:
        return None
    return program.project.method(value.type, "__call__")


def _function_of(program: Program, node: cst.BaseExpression) -> cst.FunctionDef | cst.Lambda | None:
    """Return the function of this file that an expression stands for."""
    value = program.value(node)
    if isinstance(value.made, cst.FunctionDef | cst.Lambda):
        return value.made
    if isinstance(node, cst.Attribute):
        owner = program.classes.named(program.value(node.value).type)
        return None if owner is None else program.classes.method(owner, node.attr.value)
    owner = program.classes.named(value.type)
    return None if owner is None else program.classes.method(owner, "__call__")


def functions_given(
    program: Program, loader: cst.Call, argument: str
) -> Iterator[tuple[Program, cst.FunctionDef | cst.Lambda]]:
    """Yield the functions that an argument of a loader may be, each with the file it stands in."""
    for node in program.argument(loader, argument, LOADER).values:
        found = [_function_given(program, arm) for arm in _arms(program, node)]
        if None not in found:  # else one of two functions is not seen
            yield from filter(None, found)


def _function_given(
    program: Program, node: cst.BaseExpression
) -> tuple[Program, cst.FunctionDef | cst.Lambda] | None:
    function = _function_of(program, node)
    if function is not None:
        return program, function
    target = _function_elsewhere(program, node) or _called_elsewhere(program, node)
    return None if target is None else (target.program, target.function)


def _arms(program: Program, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return both sides of ``a if x else b``, also by a name; else the expression itself.

    Of ``functools.partial(function, flag=True)`` the function.
    """
    made = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    match made[0].value if len(made) == 1 and not made[0].path else node:
        case cst.IfExp(body=body, orelse=other):
            return [body, other]
        case cst.Call(func=func, args=[cst.Arg(value=inner, keyword=None, star=""), *_]) if (
            program.qualified(func) == "functools.partial"
        ):
            return [inner]
        case _:
            return [node]
