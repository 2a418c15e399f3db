"""Tensors that certainly require a gradient: layers made them, or the code has just asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.none_checks import behind_test
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_TRAINED = re.compile(
    r"torch\.nn\.(Lazy)?((Conv|ConvTranspose|BatchNorm)\dd|Linear|Bilinear|Embedding|LayerNorm"
    r"|GroupNorm|PReLU|SyncBatchNorm)"
)
_KEEPS = frozenset(
    "view reshape flatten permute transpose contiguous unsqueeze squeeze expand repeat relu relu_"
    " float half bfloat16 to cuda cpu chunk split mean sum add mul clone".split()
)
# What leaves parameters without gradients, by any name.
_FREEZES = re.compile(r"requires_grad(_\(| *=[^=])|freez|frozen|\bpeft\b|lora", re.IGNORECASE)
_WORDS = ("requires_grad", "reez", "rozen", "peft", "ora")
_DEPTH = 20


def requires_gradient(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a tensor requires a gradient where it stands, so far as gradients are recorded.

    ``if x.requires_grad:`` is around it, or layers that the same function runs have made it, in a
    project that freezes no parameter.
    """
    return _is_asked(program, node) or (not _may_freeze(program) and _Search(program).made(node, 0))


def _is_asked(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a node stands behind ``if x.requires_grad``, of what it itself names."""
    if not isinstance(node, cst.Name):
        return False
    now = program.flow.reaching(node)
    return behind_test(program, node, f"{node.value}.requires_grad") and any(
        isinstance(asked.value, cst.Name)
        and asked.value.value == node.value
        and asked.attr.value == "requires_grad"
        and program.flow.reaching(asked.value) == now
        for asked in program.index.of(cst.Attribute)
    )


def _may_freeze(program: Program) -> bool:
    if _FREEZES.search(program.text):
        return True
    if program.project is None:
        return False
    imports = program.project.imports
    return any(_FREEZES.search(imports.text(file)) for file in imports.having(_WORDS))


class _Search:
    """One question: names in loops lead back to themselves."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._seen: set[int] = set()

    def made(self, node: cst.CSTNode, depth: int) -> bool:
        """Whether layers have made (a part of) the value of an expression."""
        if depth > _DEPTH:
            return False
        match node:
            case cst.Name():
                bindings = self._program.flow.reaching(node)
                return bool(bindings) and all(self._bound(one, depth + 1) for one in bindings)
            case cst.Subscript(value=inner):
                return self.made(inner, depth + 1)
            case cst.BinaryOperation(left=left, right=right):
                return self.made(left, depth + 1) or self.made(right, depth + 1)
            case cst.Tuple() | cst.List():
                return any(self.made(one.value, depth + 1) for one in node.elements)
            case cst.Call():
                return self._returned(node, depth)
            case _:
                return False

    def _bound(self, binding: Binding, depth: int) -> bool:
        if id(binding) in self._seen:
            return True  # it leads back to itself: the others decide
        self._seen.add(id(binding))
        return (
            binding.kind is Bind.ASSIGN
            and binding.value is not None
            and self.made(binding.value, depth)
        )

    def _returned(self, call: cst.Call, depth: int) -> bool:
        program = self._program
        if program.recordings.at(call) is Recording.OFF:
            return False
        given = [arg.value for arg in call.args]
        layer = program.value(call.func)
        if layer.kind is Kind.MODULE and layer.type.startswith("torch.nn."):
            trained = _TRAINED.fullmatch(layer.type) is not None
            return trained or any(self.made(one, depth + 1) for one in given)
        name = program.qualified(call.func)
        if name.startswith("torch.") and "detach" not in name:
            return any(self.made(one, depth + 1) for one in given)
        match call.func:
            case cst.Attribute(value=receiver, attr=cst.Name(value=method)) if method in _KEEPS:
                return self.made(receiver, depth + 1)
            case _:
                return False
