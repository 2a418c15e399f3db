"""Moving code in front of a loop: what a loop leaves as it is, and names that are free."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from torchlint.syntax.module import Module

_LOADER = re.compile(r"_?(data|batch)?_?(loader|iter|dl)$", re.IGNORECASE)


def is_unchanged(module: Module, node: cst.BaseExpression, loop: cst.For | cst.While) -> bool:
    """Whether a name or attribute is there before a loop, and the loop does not store it.

    What functions do that the loop calls is not looked at.
    """
    index, root = module.index, root_of(node, subscripts=True)
    if not isinstance(root, cst.Name) or index.scope(root) is not index.scope(loop):
        return False  # a name of a comprehension or lambda in the loop
    owner = index.scope(root).owner(root.value)
    if owner is None or any(index.inside(one.node, loop) for one in owner.bindings[root.value]):
        return False
    first = index.order(loop)
    if owner is index.scope(loop).function() and not any(
        index.order(one.node) < first for one in owner.bindings[root.value]
    ):
        return False
    text = module.code(node)
    stores = [one.target for one in index.below(loop, cst.AssignTarget)]
    stores += [one.target for one in index.below(loop, cst.AugAssign)]
    codes = [module.code(one) for one in stores if not isinstance(one, cst.Name)]
    return not any(text == code or text.startswith((f"{code}.", f"{code}[")) for code in codes)


def free_name(module: Module, names: Iterable[str], place: cst.CSTNode) -> str | None:
    """Return the first of some names that neither the function around uses nor the module binds."""
    around = module.function(place)
    used: Collection[str] = module.index.named.keys()
    if around is not None:
        used = {name.value for name in module.index.below(around, cst.Name)}
        used |= module.index.root.bindings.keys()
    return next((name for name in names if name not in used), None)


def named_after(loader: str, what: str) -> tuple[str, ...]:
    """Return names for something of a loader: ``train_batches`` for ``self.train_loader``."""
    last = loader.rpartition(".")[2]
    stem = _LOADER.sub("", last)
    return f"{stem}_{what}".lstrip("_"), f"{last}_{what}".lstrip("_")
