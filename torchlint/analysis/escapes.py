"""Which values leave the block that computes them together with their graph."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.attached import Held, held, holds
from torchlint.analysis.derivation import differentiated, sources
from torchlint.analysis.reach import callers
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding


class Way(enum.Enum):
    """How a value leaves."""

    READ = enum.auto()  # by a name that is used after the block
    KEPT = enum.auto()  # in a list, a dictionary or an attribute
    RETURNED = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Escape:
    """A value that may hold a graph and leaves a block.

    ``node`` is the use, the store or the returned expression; ``name`` what it is kept under.
    """

    way: Way
    node: cst.CSTNode
    name: str
    binding: Binding | None = None


_KEEPS = ("append", "appendleft", "extend", "insert", "add", "put", "update", "setdefault")


def escapes(program: Program, place: cst.CSTNode) -> Iterator[Escape]:
    """Find what leaves a loop or a function and may hold a graph."""
    inside = _bindings(program, place)
    for binding in inside:
        if holds(program, binding) is not Held.NO:
            for use in _uses_after(program, binding, place):
                yield Escape(Way.READ, use, binding.name, binding)
    local = {binding.name for binding in inside}
    for target, value in _stores(program, place):
        root = _root(target)
        if held(program, value) is not Held.NO and root not in local:
            yield Escape(Way.KEPT, value, dotted(target) or root)
    for one in program.index.below(place, cst.Return):
        if one.value is not None and held(program, one.value) is not Held.NO:
            yield Escape(Way.RETURNED, one.value, "")


def feed_backward(program: Program, found: list[Escape], function: cst.FunctionDef | None) -> bool:
    """Whether gradients are asked for what left, in the function or where it is called."""
    wanted = sources(program, differentiated(program))
    for one in found:
        if one.binding is not None and wanted.have(one.binding):
            return True
        if one.way is Way.KEPT and wanted.hold(program, one.node):
            return True
    if function is None or not _are_returned(program, found, function):
        return False
    return any(
        (wanted if other is program else sources(other, differentiated(other))).hold(other, site)
        for other, site in callers(program, function)
    )


def _are_returned(program: Program, found: list[Escape], function: cst.FunctionDef) -> bool:
    """Whether something that left a block leaves its function as well."""
    if any(one.way is Way.RETURNED for one in found):
        return True
    values = [one.value for one in program.returns(function) if one.value is not None]
    given = sources(program, values)
    return any(
        given.hold(program, one.node) or (one.binding is not None and given.have(one.binding))
        for one in found
    )


def _bindings(program: Program, place: cst.CSTNode) -> list[Binding]:
    """Return what is bound in a block, in the scope of the block or of its own body."""
    scope = program.index.scope(place).function()
    if isinstance(place, cst.FunctionDef):
        scope = program.index.opened(place)
    bound = (program.index.bound(name) for name in program.index.below(place, cst.Name))
    return [one for one in bound if one is not None and one.scope is scope]


def _uses_after(program: Program, binding: Binding, place: cst.CSTNode) -> Iterator[cst.Name]:
    for use in program.index.named.get(binding.name, ()):
        if (
            not program.index.inside(use, place)
            and program.index.bound(use) is None
            and binding in program.flow.reaching(use)
        ):
            yield use


def _stores(
    program: Program, place: cst.CSTNode
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield what is kept in attributes, by subscripts and in lists, with what keeps it."""
    index = program.index
    for statement in index.below(place, cst.Assign):
        for target in statement.targets:
            if isinstance(target.target, cst.Attribute | cst.Subscript):
                yield target.target, statement.value
    for grown in index.below(place, cst.AugAssign):
        if isinstance(grown.target, cst.Attribute | cst.Subscript):
            yield grown.target, grown.value
    for call in index.below(place, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _KEEPS:
            for arg in call.args:
                yield call.func.value, arg.value


def _root(node: cst.BaseExpression) -> str:
    """``results`` of ``results["loss"][i]``; of ``self.x.y`` the whole."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else dotted(node)
