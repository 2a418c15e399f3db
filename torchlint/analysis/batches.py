"""What is known of a batch while it is still what its DataLoader gave: host memory, pinned or not.

An expression is (a part of) a batch where its value is of the kind ``BATCH``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import Given
from torchlint.analysis.conditions import asks_for_device
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.ownership import Fate, Ownership
from torchlint.analysis.uses import is_label
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_DEPTH = 8  # names that stand for names
# Methods that give the same memory: what was pinned still is.
_VIEWS = frozenset({"view", "unsqueeze", "squeeze", "view_as", "detach", "requires_grad_"})


class Pinned(enum.IntEnum):
    """Whether a loader puts its batches into page-locked memory."""

    NO = enum.auto()
    MAYBE = enum.auto()  # an option decides
    YES = enum.auto()  # always, or wherever there is a GPU


def pinned(program: Program, loader: cst.Call) -> Pinned:
    """Return whether a DataLoader pins its batches; NO where that cannot be seen."""
    given = program.argument(loader, "pin_memory", LOADER)
    found = [_pins(program, value, 0) for value in given.values]
    if not found:
        return Pinned.NO
    if given.given is Given.UNSURE and Pinned.NO in found:
        return Pinned.MAYBE if max(found) is not Pinned.NO else Pinned.NO
    return max(found)


def _pins(program: Program, value: cst.CSTNode | None, depth: int) -> Pinned:
    match literal(value):
        case "True" | "1":
            return Pinned.YES
        case "False" | "None" | "0":
            return Pinned.NO
    if isinstance(value, cst.Name) and depth < _DEPTH:
        bindings = program.flow.reaching(value)
        if bindings and all(b.is_plain for b in bindings):
            return max(_pins(program, b.value, depth + 1) for b in bindings)
    if isinstance(value, cst.BaseExpression) and asks_for_device(program, value):
        return Pinned.YES
    bindings = program.flow.reaching(value) if isinstance(value, cst.Name) else ()
    if len(bindings) == 1 and isinstance(bindings[0].value, cst.Param) and depth < _DEPTH:
        return _pins_by_default(program, bindings[0].value, depth)
    return Pinned.MAYBE


def _pins_by_default(program: Program, param: cst.Param, depth: int) -> Pinned:
    """Return what a parameter says that every call of its function leaves at its default."""
    function = program.function(param)
    if function is None or param.default is None:
        return Pinned.MAYBE
    sites = program.sites_everywhere(function)
    if not sites or any(
        home.calls.passed(function, param, site) is not None or any(a.star for a in site.args)
        for home, site in sites
    ):
        return Pinned.MAYBE
    return _pins(program, param.default, depth + 1)


@dataclass(frozen=True, slots=True)
class Origin:
    """The way from a batch to an expression.

    ``bindings`` are those of the names that stand for it, or for what holds it, on the host.
    ``member``: it is a part of the batch on every way. ``passed``: a function is given it.
    """

    bindings: tuple[Binding, ...]
    member: bool
    passed: bool


def origin(program: Program, node: cst.BaseExpression) -> Origin:
    """Return how an expression of the kind ``BATCH`` comes from the loop over the loader."""
    found: dict[Binding, bool] = {}
    member = _trace(program, node, found, 0)
    passed = any(binding.kind is Bind.PARAMETER for binding in found)
    return Origin(tuple(found), member, passed)


def _trace(
    program: Program, node: cst.CSTNode | None, found: dict[Binding, bool], depth: int
) -> bool:
    """Collect the bindings behind an expression; tell whether it is a part of a batch."""
    if depth > _DEPTH:
        return False
    match node:
        case cst.Name():
            bindings = program.flow.reaching(node)
            for binding in bindings:
                if binding not in found:
                    found[binding] = True  # in a circle the rest decides
                    found[binding] = _bound(program, binding, found, depth + 1)
            return all(found[binding] for binding in bindings)
        case cst.Subscript():
            _trace(program, node.value, found, depth + 1)
            return True
        case cst.Attribute():
            _trace(program, node.value, found, depth + 1)
            return True
        case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))):
            inside = _trace(program, receiver, found, depth + 1)
            return inside or name in ("get", "pop", "items", "values")
        case cst.IfExp():
            sides = [_trace(program, s, found, depth + 1) for s in (node.body, node.orelse)]
            return all(sides)
        case _:
            return False


def _bound(program: Program, binding: Binding, found: dict[Binding, bool], depth: int) -> bool:
    value = binding.value
    match binding.kind:
        case Bind.ASSIGN:
            if isinstance(value, cst.Tuple) and len(binding.path) == 1:
                value = _element(value, binding.path[0])
                return _trace(program, value, found, depth)
            return _trace(program, value, found, depth) or bool(binding.path)
        case Bind.FOR:
            kind = program.value(value).kind
            if kind is Kind.LOADER:
                return bool(binding.path)
            inside = _trace(program, value, found, depth)
            return inside or kind is Kind.BATCH or len(binding.path) > 1
        case Bind.PARAMETER if isinstance(value, cst.Param):
            function = program.function(value)
            given = [] if function is None else program.calls.arguments(function, value)
            parts = [_trace(program, one, found, depth) for one in given]
            return bool(parts) and all(parts)
        case _:
            return False


def _element(node: cst.Tuple, place: int) -> cst.CSTNode | None:
    plain = not any(isinstance(e, cst.StarredElement) for e in node.elements)
    return node.elements[place].value if plain and place < len(node.elements) else None


# -- what becomes of the batch on the host --------------------------------------------------------


def _later(program: Program, copy: cst.Call, bindings: tuple[Binding, ...]) -> Iterator[cst.Name]:
    """Yield uses of names, behind the copy in its function, that may see these bindings."""
    index, function = program.index, program.function(copy)
    for binding in bindings:
        for use in index.named.get(binding.name, ()):
            if index.order(use) < index.end(copy) or program.function(use) is not function:
                continue
            if is_label(program, use):
                continue
            bound = index.bound(use)
            parent = program.parent(use)
            if isinstance(parent, cst.AugAssign) and parent.target is use:
                seen = program.flow.before(parent, use.value)
            else:
                seen = program.flow.reaching(use) if bound is None else ()
            if binding in seen:
                yield use


def _is_given(program: Program, use: cst.Name) -> bool:
    """Whether a use is an argument of a function that nobody knows."""
    arg = program.parent(use)
    call = program.parent(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(call, cst.Call) and not program.qualified(call.func).startswith("torch.")


def _changes(program: Program, use: cst.Name) -> bool:
    """Whether a use changes the memory of the host in place; a copy on a GPU is another memory."""
    node: cst.CSTNode = use
    while True:
        parent = program.parent(node)
        above = None if parent is None else program.parent(parent)
        match parent:
            case cst.Subscript() if parent.value is node and not isinstance(
                above, cst.AssignTarget | cst.AugAssign
            ):
                node = parent
            case cst.Attribute(attr=cst.Name(value="to" | "cuda")) if isinstance(above, cst.Call):
                return False
            case _:
                break
    assert isinstance(node, cst.BaseExpression)
    return Ownership(program).fate(node) is not Fate.NOTHING
