"""Functions and classes that put what they are given on a device: a trainer moves its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.reach import class_of
from torchlint.analysis.targets import Target
from torchlint.analysis.values import Device
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

_Owners: TypeAlias = tuple[tuple["Program", "Class"], ...]

_DEPTH = 3  # functions that hand on what they are given


def moves_argument(program: Program, call: cst.Call, given: cst.BaseExpression) -> bool:
    """Whether a function of the project puts what a call passes it on a device.

    Or the object that is made of it does, in one of its methods, or a function that gets it there.
    """
    made = class_of(program, program.value(call))
    return any(
        _moves(target, call, given, () if made is None else (made,), 0)
        for target in _targets(program, call)
    )


def to_host(program: Program, call: cst.Call) -> bool:
    """``model.to("cpu")``, before it is saved."""
    return bool(call.args) and program.values.moved_to(call, Device.UNKNOWN) is Device.CPU


def _moves(
    target: Target, call: cst.Call, given: cst.BaseExpression, owners: _Owners, depth: int
) -> bool:
    home, function = target.program, target.function
    params = (*function.params.params, *function.params.kwonly_params)
    names = {one.name.value for one in params if home.calls.passed(function, one, call) is given}
    around = home.classes.around(function)
    if around is not None:
        owners = (*owners, (home, around))
    kept = set(_kept(home, function, names))
    if _moved_in(home, function, names) or any(_moved_by(*one, kept) for one in owners):
        return True
    return depth < _DEPTH and any(
        _moves(other, inner, arg.value, owners, depth + 1)
        for inner in home.index.below(function.body, cst.Call)
        for arg in inner.args
        if not arg.star and dotted(arg.value) in names | kept
        for other in _targets(home, inner)
    )


def _moved_in(home: Program, function: cst.FunctionDef, names: set[str]) -> bool:
    """Whether a function moves what it knows by some names."""
    return any(
        dotted(func.value) in names and home.function(move) is function and not to_host(home, move)
        for move, func in home.method_calls("to", "cuda")
    )


def _moved_by(program: Program, owner: Class, kept: set[str]) -> bool:
    """Whether a method of a class, or of one above it, moves what an object keeps."""
    project = program.project
    above = [(program, owner)] if project is None else project.lineage(program, owner)
    return bool(kept) and any(
        dotted(func.value) in kept
        and home.classes.around(move) in home.classes.lineage(one)
        and not to_host(home, move)
        for home, one in above
        for move, func in home.method_calls("to", "cuda")
    )


def _kept(home: Program, function: cst.FunctionDef, names: set[str]) -> Iterator[str]:
    """Yield the attributes in which a function keeps what it knows by some names."""
    for node in home.index.below(function.body, cst.Assign):
        if dotted(node.value) in names:
            targets = (dotted(one.target) for one in node.targets)
            yield from (target for target in targets if target.startswith("self."))


def _targets(program: Program, call: cst.Call) -> Iterator[Target]:
    """Yield the functions that a call may run: one by its name, or what classes above have."""
    target = program.calls.target(call)
    elsewhere = program.calls.elsewhere(call) if target is None else None
    if target is not None:
        yield Target(program, target)
    elif elsewhere is not None:
        yield elsewhere
    elif isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call):
        owner = program.classes.around(call)
        bases = owner.bases if owner and dotted(call.func.value.func) == "super" else ()
        found = [_method(program, one, call.func.attr.value) for one in bases]
        yield from (one for one in found if one is not None)


def _method(program: Program, base: str, name: str) -> Target | None:
    """Return the method that instances of a class of the project have, by the class's name."""
    owner, project = program.classes.named(base), program.project
    found = None if owner is None else (program, owner)
    if found is None and project is not None:
        found = project.defined_class(program, base)
    if found is None:
        return None
    home, owner = found
    method = home.classes.method(owner, name)
    if method is not None:
        return Target(home, method)
    return None if project is None else project.inherited(home, owner, name)
