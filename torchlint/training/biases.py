"""Biases: what may need the bias of a layer, or keeps the norms after it from subtracting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Instance, Text, Unknown
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from torchlint.semantics.values import At
    from torchlint.training.models import Uses
    from torchlint.training.script import Connected

HOOKS = ("register_forward_hook", "register_forward_pre_hook")
LOADS = ("load_state_dict", "load_from_checkpoint", "from_pretrained")


def why_needed(connected: Connected, here: int, name: str, made: At) -> str:
    """Why a layer must keep its bias until somebody has looked, or nothing."""
    uses = connected.uses
    around = uses.around(made)
    for file, module in enumerate(connected.files.modules):
        for word in module.index.named.get("bias", ()):
            read = module.parent(word)
            if isinstance(read, cst.Attribute) and uses_bias(connected, read, file, made, name):
                home = "" if file == here else f" in {connected.files.name(file)}"
                return f"`{module.code(read)}`{home} is used without a check for None"
        for key in module.index.of(cst.SubscriptElement):
            index = key.slice
            if isinstance(index, cst.Index) and asks_for_bias(connected, index.value):
                return f"`{module.code(index.value)}` asks for a bias by its name"
        for hook in (name for word in HOOKS for name in module.index.named.get(word, ())):
            owner = getattr(module.parent(hook), "value", None)
            if isinstance(owner, cst.BaseExpression) and may_be(connected, owner, around):
                return "a hook may see what the layer gives"
        for load in (name for word in LOADS for name in module.index.named.get(word, ())):
            owner = getattr(module.parent(load), "value", None)
            if isinstance(owner, cst.BaseExpression) and may_be(connected, owner, around):
                return (
                    f"`{module.brief(module.parent(load) or load)}` may load weights that hold it"
                )
    return ""


def uses_bias(connected: Connected, read: cst.Attribute, file: int, made: At, name: str) -> bool:
    """Whether a bias is read that may be this layer's, and None is not reckoned with."""
    uses, module = connected.uses, connected.files.modules[file]
    if isinstance(module.parent(read), cst.AssignTarget):
        return False
    for above in module.index.ancestors(read):
        test = getattr(above, "test", None)
        if isinstance(above, (cst.If, cst.IfExp)) and test is not None:
            inside = module.index.below(test, cst.Attribute)
            if any(module.same(one, read) for one in inside):
                return False
    kinds = uses.asked_kinds(read.value, file)
    if kinds:
        return name in kinds
    return may_be(connected, read.value, [made])


def may_be(connected: Connected, node: cst.BaseExpression, wanted: list[At]) -> bool:
    """Whether an expression may be one of some models, as far as is known."""
    value = connected.uses.value(node)
    if any(made_by(one) in wanted for one in value if not isinstance(one, Instance)):
        return True
    effects = connected.frequencies.effects
    if any(isinstance(one, Instance) and one.call in (None, *wanted) for one in value):
        return True
    kinds = {effects.kind(one) for one in value}
    return "model" in kinds or any(isinstance(one, Unknown) for one in value)


def asks_for_bias(connected: Connected, key: cst.BaseExpression) -> bool:
    """Whether an item of a state is asked for by a name that ends in "bias"."""
    if isinstance(key, cst.FormattedString) and key.parts:
        last = key.parts[-1]
        return isinstance(last, cst.FormattedStringText) and last.value.endswith(".bias")
    value = connected.uses.value(key)
    return any(isinstance(one, Text) and (one.value or "").endswith(".bias") for one in value)


def freezes_norms(uses: Uses) -> bool:
    """Whether the connected files put norms into evaluation one by one."""
    for file, module in enumerate(uses.evaluation.files.modules):
        for name in module.index.named.get("eval", ()):
            owner = getattr(module.parent(name), "value", None)
            if isinstance(owner, cst.Name) and any(
                "Norm" in kind for kind in uses.asked_kinds(owner, file)
            ):
                return True
    return False
