"""Names of sequences of numbers that never change."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import Bind, ScopeKind

if TYPE_CHECKING:
    from torchlint.analysis.index import Binding
    from torchlint.analysis.program import Program


class Constant(enum.Enum):
    """How it is known that a name is that of a constant sequence of numbers."""

    SEEN = enum.auto()  # the numbers stand in the project
    NAMED = enum.auto()  # by its name: a constant of a library


def constant(program: Program, node: cst.BaseExpression) -> Constant | None:
    """Return how a name is known to be that of such a sequence; None where it is not."""
    if not isinstance(node, cst.Name):
        return None
    match program.flow.reaching(node):
        case (binding,) if binding.kind is Bind.ASSIGN:
            return Constant.SEEN if _is_fixed(binding) else None
        case (binding,) if binding.kind is Bind.FROM and node.value.isupper():
            return _imported(program, node)
        case _:
            return None


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
