"""Biases: what needs the bias of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import LAYERS
from torchlint.semantics.values import Library, Unknown
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from torchlint.semantics.values import At
    from torchlint.training.script import Connected

LOADS = ("load_state_dict", "load_from_checkpoint", "from_pretrained")


def why_needed(connected: Connected, name: str, made: At) -> str:
    """Why a layer must keep its bias until somebody has looked, or nothing."""
    around = connected.uses.around(made)
    files = connected.files
    for read, file in files.attributes("bias"):
        if _is_read(connected, read, file, name, made):
            where = f"`{files.modules[file].code(read)}` in {files.name(file)}"
            return f"{where} is used without a check for None"
    for method, file in files.attributes(*LOADS):
        if _may_be(connected, method.value, around):
            return f"`{files.modules[file].brief(method)}` may load weights that hold it"
    return ""


def _is_read(connected: Connected, read: cst.Attribute, file: int, name: str, made: At) -> bool:
    """Whether a bias is read that may be this layer's, and None is not reckoned with."""
    module = connected.files.modules[file]
    if isinstance(module.parent(read), cst.AssignTarget):
        return False
    for above in module.index.ancestors(read):
        if isinstance(above, (cst.If, cst.IfExp)) and any(
            module.same(one, read) for one in module.index.below(above.test, cst.Attribute)
        ):
            return False
    asked = _asked_for(connected, read, file)
    return name in asked if asked else _may_be(connected, read.value, [made])


def _asked_for(connected: Connected, node: cst.CSTNode, file: int) -> set[str]:
    """Return the layers that conditions around a node ask for, by class or by name."""
    index, found = connected.files.modules[file].index, set[str]()
    for above, child in index.climb(node):
        if isinstance(above, cst.If) and child is above.body:
            for one in (
                *index.below(above.test, cst.Attribute),
                *index.below(above.test, cst.Name),
            ):
                value = connected.uses.value(one)
                found |= {one.name for one in value if isinstance(one, Library)} & LAYERS
            for text in index.below(above.test, cst.SimpleString):
                found |= {layer for layer in LAYERS if str(text.evaluated_value) in layer}
    return found


def freezes_norms(connected: Connected) -> bool:
    """Whether norms are put into evaluation one by one."""
    return any(
        "Norm" in kind
        for method, file in connected.files.attributes("eval")
        for kind in _asked_for(connected, method, file)
    )


def _may_be(connected: Connected, node: cst.BaseExpression, wanted: list[At]) -> bool:
    """Whether an expression may be one of some models, as far as is known."""
    effects = connected.frequencies.effects
    return any(
        isinstance(one, Unknown) or made_by(one) in wanted or effects.kind(one) == "model"
        for one in connected.uses.value(node)
    )
