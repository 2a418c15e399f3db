"""How code can speak of what a library has: by the prefix of another name, or by an import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.training.script import Script


def prefix_of(script: Script, node: cst.BaseExpression, home: str) -> str:
    """``torch.utils.data.`` for ``torch.utils.data.DataLoader``; "" where it is a plain name."""
    if isinstance(node, cst.Attribute) and script.name(node.value) == home:
        return f"{script.module.code(node.value)}."
    return ""


def are_free(script: Script, place: cst.CSTNode, home: str, names: Iterable[str]) -> bool:
    """Whether names are free at a place, or what a library's module has under them."""
    evaluation, scope = script.connected.evaluation, script.module.index.scope(place)
    for name in names:
        owner = scope.owner(name)
        cell = evaluation.global_name(script.file, name) if owner is scope.module() else None
        if owner is not None and (cell is None or cell.value != (Library(f"{home}.{name}"),)):
            return False
    return True


def name_at(script: Script, place: cst.CSTNode, home: str, name: str) -> str:
    """Return how a place can call what a library has, as the file imports it; "" where it cannot.

    An import of the library by its own name may have to be added.
    """
    root, scope = script.module.index.root, script.module.index.scope(place)
    for wanted, code in ((f"{home}.{name}", "{}"), (home, f"{{}}.{name}")):
        for word in root.bindings:
            cell = script.connected.evaluation.global_name(script.file, word)
            is_meant = cell is not None and cell.value == (Library(wanted),)
            if is_meant and scope.owner(word) is root:
                return code.format(word)
    return f"{home}.{name}" if scope.owner(home) is None else ""
