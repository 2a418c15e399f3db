"""Constants: values that are the same each time that a line runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Array, Method, Sequence, Tensor
from torchlint.training.hoisting import is_unchanged, loops_around

if TYPE_CHECKING:
    from torchlint.training.script import Script

READERS = ("torch.", "numpy.", "builtins.len", "builtins.print", "builtins.isinstance")
# Methods that give the same memory, or may, and those that hand it on to be written into.
PASSES = frozenset(
    """to cuda type type_as view reshape unsqueeze squeeze transpose permute t flatten contiguous
    float double long int bool expand expand_as detach""".split()
)
SHARES = frozenset({"set_", "register_hook", "requires_grad_", "data", "numpy", "share_memory_"})
DEEPEST = 3
LARGEST = 3e38  # about the largest float32: `torch.full` refuses what is larger


def number_in(node: cst.BaseExpression) -> bool:
    """Whether an expression is a number or a bool as written, one that each dtype holds."""
    match node:
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
            return not isinstance(inner, cst.Name) and number_in(inner)
        case cst.Name(value="True" | "False"):
            return True
        case cst.Integer() | cst.Float():
            return abs(node.evaluated_value) < LARGEST
    return False


def is_same_each_time(script: Script, node: cst.BaseExpression, place: cst.CSTNode) -> bool:
    """Whether several numbers are the same each time: as written, or of before all loops around.

    Of a name, the file does nothing but read them.
    """
    if isinstance(node, (cst.List, cst.Tuple)):
        parts = [element.value for element in node.elements]
        return bool(parts) and all(
            number_in(part) or is_same_each_time(script, part, place) for part in parts
        )
    if not isinstance(node, cst.Name):
        return False
    module, value = script.module, script.value(node)
    if not value or not all(isinstance(one, (Sequence, Array)) for one in value):
        return False
    owner = module.index.scope(node).owner(node.value)
    if owner is None or len(owner.bindings[node.value]) > 1:
        return False
    if not all(_is_read(script, use) for use in module.index.named[node.value]):
        return False
    if owner is module.index.root and module.function(place) is not None:
        return True
    return any(is_unchanged(module, node, loop) for loop in loops_around(module, node))


def _is_read(script: Script, use: cst.Name) -> bool:
    """Whether a name is bound there, or given to a library's function, which reads it."""
    if script.module.index.bound(use) is not None:
        return True
    parent = script.module.parent(use)
    call = script.module.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and script.name(call.func).startswith(READERS)


def is_only_read(script: Script, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a tensor is given to what only reads it, under names of its function too."""
    module = script.module
    parent = module.parent(node)
    match parent:
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
            call = module.parent(parent)
            if not isinstance(call, cst.Call):
                return name in ("shape", "device", "dtype")
            changes = name.endswith("_") or name in SHARES
            return not changes and (name not in PASSES or is_only_read(script, call, depth))
        case cst.Arg(keyword=keyword):
            call = module.parent(parent)
            is_out = keyword is not None and keyword.value == "out"
            return isinstance(call, cst.Call) and not is_out and _reads(script, call)
        case cst.BinaryOperation() | cst.Comparison() | cst.ComparisonTarget():
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=word))]) if depth < DEEPEST:
            uses = [
                use
                for use in module.index.named[word]
                if module.function(use) is module.function(node) and not module.index.bound(use)
            ]
            return all(is_only_read(script, use, depth + 1) for use in uses)
    return False


def _reads(script: Script, call: cst.Call) -> bool:
    """Whether a call is of a model, a loss or a function that writes into no argument."""
    name = script.name(call.func)
    if name:
        return name.startswith("torch.") and not name.endswith("_") and ".distributed." not in name
    owners = [one.owner for one in script.value(call.func) if isinstance(one, Method)]
    if owners and isinstance(call.func, cst.Attribute):
        is_tensor = all(isinstance(one, Tensor) for one in owners)
        return is_tensor and not call.func.attr.value.endswith("_")
    return script.kind(call.func) in ("module", "model", "criterion")
