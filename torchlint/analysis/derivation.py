"""What an expression was computed from, through the names and lists of its function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_GROWS = ("append", "extend", "insert", "add")
_HELPERS = frozenset({"accelerator", "fabric", "booster", "engine", "self"})


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """All that went into an expression: names by their bindings, and the expressions themselves."""

    bindings: dict[int, Binding] = field(default_factory=dict)
    expressions: dict[int, cst.CSTNode] = field(default_factory=dict)

    def have(self, binding: Binding) -> bool:
        """Whether what a name was bound to there went in."""
        return id(binding) in self.bindings

    def hold(self, program: Program, node: cst.CSTNode) -> bool:
        """Whether an expression of the file, such as a call, is part of what went in."""
        return any(program.index.inside(node, one) for one in self.expressions.values())


def sources(program: Program, nodes: Iterable[cst.CSTNode]) -> Sources:
    """Return what some expressions were computed from, inside the functions that they stand in."""
    found = Sources()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if id(node) in found.expressions:
            continue
        found.expressions[id(node)] = node
        for name in program.index.below(node, cst.Name):
            for binding in program.flow.reaching(name):
                if id(binding) not in found.bindings:
                    found.bindings[id(binding)] = binding
                    todo += _made_of(program, binding)
    return found


def _made_of(program: Program, binding: Binding) -> Iterator[cst.CSTNode]:
    """Yield the expressions that a binding gave to a name, and what was put into it as a list."""
    if binding.value is not None and not isinstance(
        binding.value, cst.Param | cst.FunctionDef | cst.ClassDef | cst.ImportAlias
    ):
        yield binding.value
    for call, func in program.method_calls(*_GROWS):
        if (
            isinstance(func.value, cst.Name)
            and func.value.value == binding.name
            and binding in program.flow.reaching(func.value)
        ):
            yield from (arg.value for arg in call.args)


def differentiated(program: Program) -> Iterator[cst.BaseExpression]:
    """Yield the expressions whose gradients a file asks for."""
    for call in program.index.of(cst.Call):
        match call.func:
            case cst.Attribute(value=receiver, attr=cst.Name("backward" | "manual_backward")):
                if call.args and dotted(receiver).partition(".")[0] in _HELPERS:
                    yield call.args[0].value
                elif not program.qualified(call.func).startswith("torch.autograd."):
                    yield receiver
                elif call.args:
                    yield call.args[0].value
            case cst.Attribute(attr=cst.Name("grad")) if call.args:
                yield call.args[0].value
            case _:
                pass


def terms_of_losses(program: Program) -> set[int]:
    """Return the bindings of the names that are added up to what goes back, by their identity.

    ``(loss + scale * penalty).backward()``: both are tensors, or numbers.
    """
    return {
        id(binding)
        for loss in differentiated(program)
        for name in _terms(loss)
        for binding in program.flow.reaching(name)
    }


def _terms(node: cst.BaseExpression) -> Iterator[cst.Name]:
    """Yield the names in sums and products; what is divided by is a number."""
    match node:
        case cst.Name():
            yield node
        case cst.UnaryOperation(expression=inner):
            yield from _terms(inner)
        case cst.BinaryOperation(operator=cst.Divide()):
            yield from _terms(node.left)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
            yield from _terms(node.left)
            yield from _terms(node.right)
        case _:
            pass
