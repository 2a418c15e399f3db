"""Sequences of numbers that never change, and loops over constants that stand in the file."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.scopes import Bind, ScopeKind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

# Functions that make a tensor of a sequence of numbers or an array.
MAKERS = tuple(f"torch.{name}" for name in ("tensor", "as_tensor", "from_numpy"))
_LOOKS = frozenset({"shape", "size", "dtype", "ndim"})
_OF_DICTIONARIES = frozenset({"items", "keys", "values"})


class Constant(enum.Enum):
    """How it is known that a name is that of a constant sequence of numbers."""

    SEEN = enum.auto()  # the numbers stand in the project
    NAMED = enum.auto()  # by its name: a constant of a library


def constant(program: Program, node: cst.BaseExpression) -> Constant | None:
    """Return how an expression is known to be such a sequence, or a name; None where it is not."""
    if not isinstance(node, cst.Name):
        return Constant.SEEN if _is_literal(node) else None
    match program.flow.reaching(node):
        case (binding,) if binding.kind is Bind.ASSIGN:
            return Constant.SEEN if _is_fixed(binding) else None
        case (binding,) if binding.kind is Bind.FROM and node.value.isupper():
            return _imported(program, node)
        case _:
            return None


def _is_own(binding: Binding) -> bool:
    """Whether a name is that of an argument, or of what a call or a display makes."""
    made = isinstance(binding.value, cst.Call | cst.List | cst.Tuple | cst.ListComp)
    return binding.kind is Bind.PARAMETER or (binding.is_plain and made)


def _is_looked_at(program: Program, use: cst.CSTNode) -> bool:
    """Whether a use makes a tensor of a sequence or an array, or asks for its size."""
    above = program.parent(use)
    call = program.parent(above) if isinstance(above, cst.Arg) else None
    if isinstance(call, cst.Call):
        func = call.func
        counted = isinstance(func, cst.Name) and func.value == "len" and program.is_builtin(func)
        return counted or program.qualified(func) in MAKERS
    return isinstance(above, cst.Attribute) and above.attr.value in _LOOKS


def goes_through_constants(program: Program, loop: cst.For) -> bool:
    """``for limit in (100, 1000)``: a loop has as many turns as a file says, and takes no data."""
    node: cst.CSTNode | None = loop.iter
    match node:
        case cst.Call(func=cst.Attribute(value=table, attr=cst.Name(value=method)), args=[]) if (
            method in _OF_DICTIONARIES
        ):
            node = table
        case _:
            pass
    if isinstance(node, cst.Name):
        made = program.flow.reaching(node)
        plain = len(made) == 1 and made[0].is_plain
        node = made[0].value if plain else None
    return isinstance(node, cst.Tuple | cst.List | cst.Dict) and _holds_constants(node)


def _holds_constants(node: cst.CSTNode | None) -> bool:
    match node:
        case (
            cst.Tuple(elements=elements) | cst.List(elements=elements) | cst.Dict(elements=elements)
        ):
            return bool(elements) and all(_holds_constants(one.value) for one in elements)
        case cst.Name(value="None" | "True" | "False") | cst.BaseString():
            return True
        case _:
            return isinstance(node, cst.BaseExpression) and _is_number(node)


def _is_literal(node: cst.CSTNode | None) -> bool:
    """Whether an expression is a sequence of literal numbers, or of such sequences."""
    return (
        isinstance(node, cst.List | cst.Tuple)
        and bool(node.elements)
        and all(
            isinstance(one, cst.Element) and (_is_number(one.value) or _is_literal(one.value))
            for one in node.elements
        )
    )


def _is_number(node: cst.BaseExpression) -> bool:
    match node:
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_number(inner)
        case cst.BinaryOperation(operator=cst.Divide(), left=left, right=right):
            return _is_number(left) and _is_number(right)
        case _:
            return isinstance(node, cst.Integer | cst.Float)


def _is_fixed(binding: Binding) -> bool:
    """Whether a name of the module is given such a sequence, and nothing is to change it."""
    kept = isinstance(binding.value, cst.Tuple) or binding.name.isupper()
    module = binding.scope.kind is ScopeKind.MODULE and not binding.path
    return kept and module and _is_literal(binding.value)


def _imported(program: Program, node: cst.Name) -> Constant | None:
    """Return how an imported name is known: what is of the project has to be seen."""
    name, project = program.qualified(node), program.project
    if not name or name[0] in ".@":
        return None
    found = None if project is None else project.define(program, name)
    if found is not None:
        return Constant.SEEN if _is_fixed(found.binding) else None
    inside = project is not None and project.imports.find(str(program.path), name) is not None
    return None if inside else Constant.NAMED
