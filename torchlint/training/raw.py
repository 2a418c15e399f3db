"""Whether a tensor is a batch as its loader gave it, moved or in another shape: no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.tensors import RESHAPES
from torchlint.semantics.values import Loaded, Tensor
from torchlint.training.asked import sources

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation

_KEEPS = RESHAPES | {"permute", "transpose", "float", "half", "bfloat16", "to", "cuda", "cpu"}
_DEEPEST = 20


def is_raw(evaluation: Evaluation, node: cst.BaseExpression, file: int, depth: int = 0) -> bool:
    """Whether an expression is such a batch, and nothing tells any tensor to need a gradient."""
    value = evaluation.value(node)
    modules = evaluation.files.modules
    if depth > _DEEPEST or any("requires_grad_" in module.index.named for module in modules):
        return False
    batches = [one for one in value if isinstance(one, Tensor) and one.batch and not one.graph]
    if not batches or len(batches) < len(value):
        return False
    if all(one.loaded is Loaded.YES for one in batches):
        return True
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))):
            return name in _KEEPS and is_raw(evaluation, inner, file, depth + 1)
        case cst.Name():
            found = list(sources(evaluation, node, file))
            return bool(found) and all(is_raw(evaluation, one, at, depth + 1) for one, at in found)
    return False
