"""Where the value that a name was given may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding


def uses_of(program: Program, binding: Binding) -> Iterator[cst.Name]:
    """Yield the names that may stand for what a binding gave, ``del`` and ``+=`` included."""
    index = program.index
    for name in index.named.get(binding.name, ()):
        if name is binding.node or not _is_variable(program, name):
            continue
        above = program.parent(name)
        if isinstance(above, cst.AugAssign) and above.target is name:
            seen = program.flow.before(above, name.value)
        elif index.bound(name) is None or isinstance(above, cst.Del):
            seen = program.flow.reaching(name)
        else:
            continue
        if binding in seen:
            yield name


def is_label(program: Program, name: cst.CSTNode) -> bool:
    """Whether a name only names an attribute or a keyword: ``x`` in ``a.x`` and ``f(x=1)``."""
    match program.parent(name):
        case cst.Attribute(attr=attr):
            return attr is name
        case cst.Arg(keyword=keyword):
            return keyword is name
        case _:
            return False


def _is_variable(program: Program, name: cst.Name) -> bool:
    """Whether a name stands for a variable: not for an attribute, a keyword or a parameter."""
    match program.parent(name):
        case cst.Param(name=own) | cst.FunctionDef(name=own) | cst.ClassDef(name=own):
            return own is not name
        case _:
            return not is_label(program, name)
