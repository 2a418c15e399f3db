"""Whether the methods of a dataset put its samples on a GPU, or only compute something there.

A dataset may have a method that others call between epochs, which runs a model over its images to
choose the next pairs.  What that leaves behind is numbers and lists: the samples are on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

_ON_HOST = frozenset({Kind.NUMBER, Kind.BOOL, Kind.STRING, Kind.NONE, Kind.NDARRAY, Kind.NPSCALAR})
_HOLDS = frozenset({Kind.LIST, Kind.TUPLE})


def moves_inside(program: Program, function: cst.CSTNode) -> bool:
    """Whether a function makes something on a GPU, or moves it there."""
    return any(_moves(program, call) for call in program.index.below(function, cst.Call))


def gives_from_gpu(program: Program, owner: Class) -> bool:
    """Whether what the methods of a dataset (or a `collate_fn`) put on a GPU may be in samples."""
    methods = [m for one in program.classes.lineage(owner) for m in one.methods.values()]
    return any(
        moves_inside(program, one)
        and (_is_used_within(program, one, methods) or _leaves_behind(program, one))
        for one in methods
    )


def _moves(program: Program, call: cst.Call) -> bool:
    values = program.values
    if isinstance(call.func, cst.Attribute):
        if call.func.attr.value == "cuda":
            return True
        if call.func.attr.value == "to" and values.moved_to(call, Device.UNKNOWN).gpu:
            return True
    named = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "device"]
    return any((values.device(node) or Device.UNKNOWN).gpu for node in named)


def _is_used_within(
    program: Program, method: cst.FunctionDef, methods: list[cst.FunctionDef]
) -> bool:
    """Whether Python, a decorator or another method of the class may run a method."""
    name = method.name.value
    return (
        name.startswith("__")
        or bool(method.decorators)
        or any(
            node.attr.value == name
            for other in methods
            if other is not method
            for node in program.index.below(other, cst.Attribute)
        )
    )


def _leaves_behind(program: Program, method: cst.FunctionDef) -> bool:
    """Whether a method keeps or gives back what may be on a GPU."""
    if program.yields(method):
        return True
    given = [node.value for node in program.index.below(method.body, cst.Return)]
    return any(
        node is not None and not _is_on_host(program, node)
        for node in (*given, *_kept(program, method))
    )


def _kept(program: Program, method: cst.FunctionDef) -> Iterator[cst.BaseExpression | None]:
    """Yield what a method stores in its object, or hands to something that the object holds."""
    for targets, value in _assignments(program, method):
        if any(_is_elsewhere(program, target) for target in targets):
            yield value
    for call in program.index.below(method.body, cst.Call):
        if dotted(call.func).startswith("self.") or dotted(call.func) == "setattr":
            yield from (arg.value for arg in call.args)


def _assignments(
    program: Program, method: cst.FunctionDef
) -> Iterator[tuple[list[cst.BaseExpression], cst.BaseExpression | None]]:
    for statement in program.index.below(method.body, cst.Assign):
        yield [one.target for one in statement.targets], statement.value
    for added in program.index.below(method.body, cst.AugAssign):
        yield [added.target], added.value
    for typed in program.index.below(method.body, cst.AnnAssign):
        yield [typed.target], typed.value


def _is_elsewhere(program: Program, target: cst.BaseExpression) -> bool:
    """Whether something is put into an object or a container: a tensor stays where it is."""
    match target:
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return any(_is_elsewhere(program, one.value) for one in elements)
        case cst.Subscript(value=holder):
            return program.value(holder).kind is not Kind.TENSOR
        case _:
            return isinstance(target, cst.Attribute)


def _is_on_host(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a value is on the host, or a list of what is not seen to be on a GPU."""
    value = program.value(node)
    if value.kind in _HOLDS:
        each = value.each()
        return not each.device.gpu and not each.each().device.gpu
    return value.kind in _ON_HOST or (
        value.kind in (Kind.TENSOR, Kind.BATCH) and value.device is Device.CPU
    )
