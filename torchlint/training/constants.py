"""Constants: values that are the same each time that a line runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Array, Sequence
from torchlint.training.hoisting import is_unchanged, loops_around
from torchlint.training.written import is_written

if TYPE_CHECKING:
    from torchlint.training.script import Script

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
    uses = [use for use in module.index.named[node.value] if module.index.bound(use) is None]
    if any(is_written(script, use) is not False for use in uses):
        return False
    if owner is module.index.root and module.function(place) is not None:
        return True
    return any(is_unchanged(module, node, loop) for loop in loops_around(module, node))
