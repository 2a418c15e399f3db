"""What a file does with ``.grad`` itself: reads it, fills it by hand, or fixes its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.none_checks import checked

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_CAPTURES = frozenset(
    {"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"}
)
_WRITES_INTO = frozenset({"add_", "copy_", "sub_"})


@dataclass(frozen=True, slots=True)
class Gradients:
    """Where a file touches gradients by hand.

    ``reads`` would meet None in a parameter without a gradient; ``fills`` need a buffer that
    exists (``p.grad += g``, ``p.grad.copy_(g)``, a view put into ``p.grad``); ``captured``: the
    addresses of gradients are recorded in a CUDA graph.
    """

    reads: tuple[cst.Attribute, ...]
    fills: tuple[cst.Attribute, ...]
    captured: bool


def gradients(program: Program) -> Gradients:
    """Look at every ``.grad`` of a file."""
    reads: list[cst.Attribute] = []
    fills: list[cst.Attribute] = []
    for node in program.index.of(cst.Attribute):
        if node.attr.value != "grad" or _is_function(program, node):
            continue
        if _fills(program, node):
            fills.append(node)
        if not _is_stored(program, node) and not checked(program, node):
            reads.append(node)
    return Gradients(tuple(reads), tuple(fills), _captures(program))


def _is_function(program: Program, node: cst.Attribute) -> bool:
    """``torch.autograd.grad`` and other functions of that name."""
    above = program.parent(node)
    called = isinstance(above, cst.Call) and above.func is node
    return called or bool(program.qualified(node))


def _is_stored(program: Program, node: cst.Attribute) -> bool:
    above = program.parent(node)
    return isinstance(above, (cst.AssignTarget, cst.Del)) or (
        isinstance(above, cst.AnnAssign) and above.target is node
    )


def _fills(program: Program, node: cst.Attribute) -> bool:
    above = program.parent(node)
    match above:
        case cst.AugAssign(target=target):
            return target is node
        case cst.AssignTarget():
            statement = program.parent(above)
            return isinstance(statement, cst.Assign) and _is_view(statement.value)
        case cst.Subscript():
            return isinstance(program.parent(above), (cst.AssignTarget, cst.AugAssign))
        case cst.Attribute(attr=cst.Name(value="data")):
            return _fills(program, above)
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in _WRITES_INTO
        case _:
            return False


def _is_view(node: cst.BaseExpression) -> bool:
    """Whether a gradient is made of a part of a larger buffer."""
    match node:
        case cst.Subscript():
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in {"view", "view_as", "narrow", "reshape", "as_strided"}
        case _:
            return False


def _captures(program: Program) -> bool:
    return any(program.calls_of(*_CAPTURES))
