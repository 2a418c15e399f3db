"""Who writes into a tensor, an array or a list, and who else holds the memory of an array."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.array_types import SAME
from torchlint.semantics.numpy_calls import READ_ONLY
from torchlint.semantics.values import Array, Method, Number, Tensor
from torchlint.syntax.calls import keyword_of

if TYPE_CHECKING:
    from torchlint.training.script import Script

DEEPEST = 3
_LOOKS = frozenset("shape ndim size dtype device itemsize nbytes strides".split())
# What gives the same memory, or may.
_VIEWS = SAME | frozenset(
    """to cuda cpu type type_as view t T permute flatten contiguous float double long bool int
    expand expand_as unsqueeze detach data numpy as_tensor from_numpy""".split()
)
# What changes an array or a list; a tensor's methods of these names do not.
_CHANGES = frozenset(
    """fill sort put resize partition itemset setflags byteswap append extend insert pop remove
    clear reverse""".split()
)
_CHANGE_FIRST = frozenset("copyto put place putmask fill_diagonal shuffle Parameter".split())
_READERS = ("torch.", "numpy.", "math.", "builtins.len", "builtins.print", "builtins.isinstance")
_OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget)
_READS = (*_OPERATIONS, cst.Index, cst.FormattedStringExpression, cst.Expr, cst.AssignTarget)


def is_written(script: Script, node: cst.CSTNode, depth: int = 0) -> bool | None:
    """Whether what gets a tensor, an array or a list writes into it, under other names too.

    None where it is handed on, to nobody knows what.
    """
    module = script.module
    parent = module.parent(node)
    above = None if parent is None else module.parent(parent)
    match parent:
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
            is_called = isinstance(above, cst.Call) and above.func is parent
            is_tensor = any(isinstance(one, Tensor) for one in script.value(value))
            if is_called and (name.endswith("_") or (name in _CHANGES and not is_tensor)):
                return True
            if name in _VIEWS:
                return is_written(script, above if is_called and above else parent, depth)
            return False if is_called or name in _LOOKS else None
        case cst.Subscript(value=value) if value is node:
            is_target = isinstance(above, cst.AugAssign) and above.target is parent
            if is_target or isinstance(above, (cst.AssignTarget, cst.Del)):
                return True
            return is_written(script, parent, depth)
        case cst.Arg() if isinstance(above, cst.Call):
            return _is_written_by(script, parent, above, depth)
        case cst.AugAssign(target=target):
            return target is node
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if depth < DEEPEST:
            found = {
                is_written(script, use, depth + 1)
                for use in module.index.named[name.value]
                if any(one.node is name for one in script.connected.evaluation.bindings(use))
            }
            return True if True in found else None if None in found else False
    return False if isinstance(parent, _READS) else None


def _is_own(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression gives a number, or an array with memory of its own."""
    evaluation = script.connected.evaluation
    value, here = evaluation.value(node), evaluation.at(node, script.file)
    return bool(value) and all(
        isinstance(one, Number) or (isinstance(one, Array) and one.made == here) for one in value
    )


def _is_written_by(script: Script, arg: cst.Arg, call: cst.Call, depth: int) -> bool | None:
    """Whether a call writes into what it is given: models, losses and most functions do not."""
    name = script.name(call.func)
    last = name.rpartition(".")[2]
    changes = last.endswith("_") or last in _CHANGE_FIRST or ".distributed." in name
    if changes or keyword_of(arg) == "out":
        return True
    if last in _VIEWS:
        return is_written(script, call, depth)
    owners = [one.owner for one in script.value(call.func) if isinstance(one, Method)]
    if name.startswith(_READERS) or (owners and all(isinstance(one, Tensor) for one in owners)):
        return None if name.startswith("numpy.") and not _is_own(script, call) else False
    return False if script.kind(call.func) in ("module", "model", "criterion") else None


# -- who holds an array ----------------------------------------------------------------------


class Holder(enum.IntEnum):
    """Who holds an array beside the expression that gives it; the worst wins."""

    NOBODY = 0
    OTHERS = 1  # somebody may
    WRITER = 2  # it is changed later, or is read-only: a copy is needed


def holder_of(script: Script, node: cst.CSTNode, depth: int = 0) -> Holder:
    """Return who holds the array that an expression gives, from there on."""
    if _is_own(script, node):
        return Holder.NOBODY
    if depth > DEEPEST:
        return Holder.OTHERS
    match node:
        case cst.Name():
            return _holder_of_name(script, node, depth)
        case cst.Attribute(value=inner, attr=cst.Name(value="T")):
            return holder_of(script, inner, depth + 1)
        case cst.Attribute(attr=cst.Name(value=word)):
            others = [n for n in script.module.index.of(cst.Attribute) if n.attr.value == word]
            is_changed = any(is_written(script, one) for one in others)
            return Holder.WRITER if is_changed else Holder.OTHERS
        case cst.Call(func=func) if (name := script.name(func)).startswith("numpy."):
            is_view = name.rpartition(".")[2] in SAME | READ_ONLY | {"array", "load"}
            return Holder.WRITER if is_view else Holder.OTHERS  # perhaps of an image
        case cst.Subscript(value=inner) | cst.Call(func=cst.Attribute(value=inner)):
            return max(holder_of(script, inner, depth + 1), Holder.OTHERS)
    return Holder.OTHERS


def _holder_of_name(script: Script, node: cst.Name, depth: int) -> Holder:
    index, reaching = script.module.index, script.connected.evaluation.bindings
    bindings, scope = reaching(node), index.scope(node)
    function, owner = scope.function(), scope.owner(node.value)
    _, around = index.around(node)
    loops = [loop for loop in around if not all(index.inside(one.node, loop) for one in bindings)]
    found = [Holder.OTHERS if loops or not bindings else Holder.NOBODY]
    made = [one.value if one.is_plain else None for one in bindings]
    found += [holder_of(script, one, depth + 1) if one else Holder.OTHERS for one in made]
    for use in index.named[node.value]:
        is_here = index.scope(use).function() is function
        is_same = not is_here or not bindings or set(bindings) & set(reaching(use))
        if use is node or not is_same or index.scope(use).owner(use.value) is not owner:
            continue
        is_later = not is_here or index.order(use) > index.order(node)
        is_changed = is_written(script, use, DEEPEST)
        if is_later or is_changed is None or any(index.inside(use, loop) for loop in loops):
            found.append(Holder.WRITER if is_changed else Holder.OTHERS)
    return max(found)
