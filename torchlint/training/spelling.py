"""How code can speak of what a library has: by the prefix of another name, or by an import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library

if TYPE_CHECKING:
    from torchlint.training.script import Script


def beside(script: Script, func: cst.BaseExpression, home: str, *names: str) -> str | None:
    """Return the prefix of other names of a library's module, beside one of them: ``t.tensor``.

    "" where that is a plain name: the others have to be imported.  None where they are taken.
    """
    if isinstance(func, cst.Attribute) and script.name(func.value) == home:
        return f"{script.module.code(func.value)}."
    scope = script.module.index.scope(func)
    for name in names:
        owner = scope.owner(name)
        if owner is not None and not (
            owner is scope.module() and _is_name_of(script, name, f"{home}.{name}")
        ):
            return None
    return ""


def name_at(script: Script, place: cst.CSTNode, home: str, name: str, short: str = "") -> str:
    """Return how a place can call what a library has, as the file imports it; "" where it cannot.

    An import of the library, by its own name or the ``short`` one, may have to be added.
    """
    root, scope = script.module.index.root, script.module.index.scope(place)
    for wanted, code in ((f"{home}.{name}", "{}"), (home, f"{{}}.{name}")):
        for word in root.bindings:
            if _is_name_of(script, word, wanted) and scope.owner(word) is root:
                return code.format(word)
    return f"{short or home}.{name}" if scope.owner(short or home) is None else ""


def _is_name_of(script: Script, word: str, wanted: str) -> bool:
    """Whether a name of the module is certainly something of a library."""
    cell = script.connected.evaluation.global_name(script.file, word)
    return cell is not None and cell.value == (Library(wanted),)
