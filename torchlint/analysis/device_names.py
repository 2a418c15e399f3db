"""Whether the file itself says which devices it can run on, or leaves that to somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.options import option_default
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_DEPTH = 8


def is_open(program: Program, node: cst.CSTNode | None, depth: int = 0) -> bool:
    """Whether a device is not among those that the file names: a parameter, ``model.device``.

    A command-line option counts as what its default says; a forward pass goes where its input is.
    """
    if node is None or depth > _DEPTH:
        return True
    match node:
        case cst.SimpleString() | cst.FormattedString() | cst.Integer():
            return False
        case cst.IfExp():
            sides = (node.body, node.orelse)
            return any(is_open(program, side, depth + 1) for side in sides)
        case cst.Call():
            named = program.qualified(node.func) == "torch.device" and node.args
            return not named or is_open(program, node.args[0].value, depth + 1)
        case cst.Name(value="None"):
            return False
        case cst.Name():
            return _open_name(program, node, depth)
        case cst.Attribute(value=cst.Name() as source, attr=cst.Name(value="device")) if _is_input(
            program, source
        ):
            return False
        case cst.Attribute():
            return _open_attribute(program, node, depth)
        case _:
            return True


def _open_name(program: Program, node: cst.Name, depth: int) -> bool:
    bindings = program.flow.reaching(node)
    return not bindings or any(
        binding.kind is not Bind.ASSIGN
        or bool(binding.path)
        or is_open(program, binding.value, depth + 1)
        for binding in bindings
        if not (binding.kind is Bind.PARAMETER and _named_by_callers(program, binding.value, depth))
    )


def _named_by_callers(program: Program, param: cst.CSTNode | None, depth: int) -> bool:
    """Whether every call in this file passes a device that the file names."""
    function = None if param is None else program.function(param)
    if function is None or not isinstance(param, cst.Param):
        return False
    given = program.calls.arguments(function, param)
    return bool(given) and not any(is_open(program, one, depth + 1) for one in given)


def _open_attribute(program: Program, node: cst.Attribute, depth: int) -> bool:
    owner = program.classes.around(node) if dotted(node.value) == "self" else None
    if owner is not None:
        stores = program.classes.stores(owner, node.attr.value)
        return not stores or any(is_open(program, store.value, depth + 1) for store in stores)
    default = option_default(program, node)
    return default is None or is_open(*default, depth + 1)


def _is_input(program: Program, name: cst.Name) -> bool:
    """Whether a name is what a forward pass is given."""
    function = program.function(name)
    return (
        function is not None
        and function.name.value == "forward"
        and any(binding.kind is Bind.PARAMETER for binding in program.flow.reaching(name))
    )


def moved_openly(program: Program) -> bool:
    """Whether anything in the file is put on a device that the file does not name."""
    for call in program.index.of(cst.Call):
        moves = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
        for place, arg in enumerate(call.args):
            first = moves and place == 0 and arg.keyword is None
            keyword = arg.keyword is not None and arg.keyword.value == "device"
            if not (first or keyword) or arg.star:
                continue
            if program.values.device(arg.value) is None and not keyword:
                continue  # a dtype, or something else that is no device
            if program.value(arg.value).kind is Kind.TENSOR:
                continue  # to where another tensor is
            if is_open(program, arg.value):
                return True
    return False
