"""The term of a running total: a count or a measure, and whether a device adds it up the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Number, Tensor, Truth

if TYPE_CHECKING:
    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script


def plain(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``loss`` of ``loss.detach()``, ``loss.data``, ``loss.cpu()``."""
    while True:
        match node:
            case cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name("detach" | "cpu")), args=[]
            ):
                node = inner
            case cst.Attribute(value=inner, attr=cst.Name("data")):
                node = inner
            case _:
                return node


def is_count(script: Script, read: HostRead) -> bool:
    """Whether an unscaled sum of truth values is read, or one of them as a whole number."""
    above = script.module.parent(read.node)
    if isinstance(above, cst.BinaryOperation) and not isinstance(above.operator, cst.Add):
        return False
    match read.tensor:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("sum")), args=[]):
            return is_mask(script, inner)
        case cst.Call(func=func, args=[cst.Arg(value=inner)]) if script.name(func) == "torch.sum":
            return is_mask(script, inner)
    return reads_whole(script, read) and is_mask(script, read.tensor)


def is_mask(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression holds truth values."""
    value = script.value(node)
    return bool(value) and all(isinstance(one, Tensor) and one.dtype == "bool" for one in value)


def reads_whole(script: Script, read: HostRead) -> bool:
    """``int(t)``, which cuts off the fraction."""
    return isinstance(read.node, cst.Call) and script.name(read.node.func) == "builtins.int"


def is_scaled(script: Script, read: HostRead) -> bool:
    """Whether the term is the read itself, or the read times Python numbers.

    A division may be made by a reciprocal on the device, which rounds otherwise.
    """
    child: cst.CSTNode = read.node
    for above in script.module.index.ancestors(read.node):
        match above:
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                if not _is_number(script, right if left is child else left):
                    return False
            case cst.BinaryOperation(operator=cst.Add(), right=right) if right is child:
                return isinstance(script.module.parent(above), cst.Assign)
            case _:
                return isinstance(above, (cst.Assign, cst.AugAssign))
        child = above
    return False


def _is_number(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python: ``x.size(0)`` is one, if it is anything."""
    value = script.value(node)
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("size" | "numel" | "dim"))):
            return True
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))):
            return True
    return bool(value) and all(isinstance(one, (Number, Truth)) for one in value)
