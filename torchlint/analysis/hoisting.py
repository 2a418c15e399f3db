"""Whether an expression of a loop means the same before it: what a fix asks that takes it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.uses import is_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from torchlint.analysis.program import Program

Loop: TypeAlias = cst.For | cst.While


def loops_around(program: Program, node: cst.CSTNode) -> Iterator[Loop]:
    """Return the loops whose body a node stands in, from the inside out, in its own function."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, cst.For | cst.While) and child is above.body:
            yield above
        if isinstance(above, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return
        child = above


def mentions(
    program: Program, node: cst.BaseExpression, inside: cst.CSTNode
) -> Iterator[cst.BaseExpression]:
    """Return the places inside of a node that read a name, attribute or item."""
    text = program.brief(node, 10_000)
    for other in program.index.below(inside, type(node)):
        if program.brief(other, 10_000) == text and not is_label(program, other):
            yield other


def free_name(
    program: Program, names: Iterable[str], place: cst.CSTNode | None = None
) -> str | None:
    """Return the first of some names that the file does not use for anything.

    With a place inside of a function: that neither this function uses nor the module binds.
    """
    around = program.function(place) if place is not None else None
    used: Collection[str] = program.index.named.keys()
    if around is not None:
        used = {name.value for name in program.index.below(around, cst.Name)}
        used |= program.index.root.bindings.keys()
    return next((name for name in names if name not in used), None)


def _root(node: cst.BaseExpression) -> cst.Name | None:
    """Return the name that ``x``, ``x.y`` or ``x["key"]`` starts with."""
    while not isinstance(node, cst.Name):
        match node:
            case cst.Attribute():
                node = node.value
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
                if literal(key) is None:
                    return None
                node = node.value
            case _:
                return None
    return node


def _stores(program: Program, loop: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Return the attributes and items that are assigned to or deleted in a loop."""
    index = program.index
    for kind in (cst.Attribute, cst.Subscript):
        for node in index.below(loop, kind):
            match index.parent(node):
                case cst.AssignTarget() | cst.Del():
                    yield node
                case cst.AugAssign(target=target) | cst.AnnAssign(target=target):
                    if target is node:
                        yield node
                case cst.Element() as element:
                    if isinstance(index.parent(index.parent(element) or element), cst.AssignTarget):
                        yield node
                case _:
                    pass


def _is_part(part: str, whole: str) -> bool:
    """Whether a stored expression is another one, or what the other one starts with."""
    return whole == part or whole.startswith((f"{part}.", f"{part}["))
