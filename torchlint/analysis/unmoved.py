"""Parts of a batch that stay on the host, while the loop moves other parts of it to the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.values import Device
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_Way: TypeAlias = tuple[str, ...]
_Part: TypeAlias = tuple[cst.For, _Way]

_DEPTH = 8  # names that stand for names
_VIEWS = frozenset(
    {"detach", "data", "view", "reshape", "flatten", "squeeze", "unsqueeze", "long", "float", "int",
     "bool", "numpy", "clone", "contiguous"}
)  # fmt: skip
_LOOKS = frozenset({"len", "print", "isinstance", "type", "enumerate", "range"})


def stays_unmoved(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a tensor is a part of a batch that no line of its loop moves.

    That the batch comes from the host shows in that other parts of it are moved.
    """
    part = _part(program, _under_views(node), 0)
    if part is None:
        return False
    loop, way = part
    moved = list(_moved(program, loop))
    return bool(moved) and not (
        any(way[: len(one)] == one for one in moved) or _is_handed_on(program, loop, way)
    )


def is_moved_aside(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a GPU gets a copy of a tensor by another name: ``y = batch["y"].cuda()``.

    What is read of the tensor itself, in the same function, was on the host and is so still.
    """
    tensor = _under_views(node)
    if not isinstance(tensor, cst.Name | cst.Attribute | cst.Subscript):
        return False
    code, bound = program.code(tensor), _bound(program, tensor)
    found = False
    for move, func in program.method_calls("cuda", "to"):
        source = _under_views(func.value)
        if program.function(move) is not program.function(node) or program.code(source) != code:
            continue
        if code in _targets(program, move):
            return False
        same = bound is not None and _bound(program, source) == bound
        found = found or (same and program.value(move).device.gpu)
    return found


def _bound(program: Program, node: cst.BaseExpression) -> tuple[Binding, ...] | None:
    """Return what the first name of ``batch["y"]`` may stand for; None where there is none."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return program.flow.reaching(node) if isinstance(node, cst.Name) else None


def _targets(program: Program, node: cst.CSTNode) -> set[str]:
    """Return what the statement of a node sets."""
    line = program.smallest_statement(node)
    targets = line.targets if isinstance(line, cst.Assign) else ()
    return {program.code(one.target) for one in targets}


def _under_views(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``x`` of ``x.detach().view(-1)``."""
    while True:
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))):
                pass
            case cst.Attribute(value=inner, attr=cst.Name(value=name)):
                pass
            case _:
                return node
        if name not in _VIEWS:
            return node
        node = inner


def _part(program: Program, node: cst.CSTNode | None, depth: int) -> _Part | None:
    """Return the loop whose target an expression is a part of, and the way from it to there."""
    match node:
        case cst.Name() if depth < _DEPTH:
            return _named(program, node, depth + 1)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            found, step = _part(program, node.value, depth), _constant(key)
            return None if found is None or step is None else (found[0], (*found[1], step))
        case _:
            return None


def _constant(key: cst.BaseExpression) -> str | None:
    match key:
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer(value=digits)):
            return f"-{digits}"
        case _:
            return literal(key)


def _named(program: Program, name: cst.Name, depth: int) -> _Part | None:
    bindings = program.flow.reaching(name)
    if len(bindings) != 1:
        return None
    binding = bindings[0]
    value, path = binding.value, binding.path
    match binding.kind:
        case Bind.FOR:
            loop = program.index.nearest(binding.node, cst.For)
            inside = loop is not None and program.index.inside(binding.node, loop.target)
            return (loop, tuple(map(str, path))) if loop is not None and inside else None
        case Bind.ASSIGN:
            while isinstance(value, cst.Tuple) and path and path[0] >= 0:
                starred = any(isinstance(one, cst.StarredElement) for one in value.elements)
                if starred or path[0] >= len(value.elements):
                    return None
                value, path = value.elements[path[0]].value, path[1:]
            found = _part(program, value, depth)
            return None if found is None else (found[0], (*found[1], *map(str, path)))
        case _:
            return None


def _moved(program: Program, loop: cst.For) -> Iterator[_Way]:
    """Yield the parts of a batch that its loop moves to a GPU."""
    for call in program.index.below(loop.body, cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("to", "cuda"):
            continue
        part = _part(program, _under_views(func.value), 0)
        if part is None or part[0] is not loop:
            continue
        if func.attr.value == "cuda" or program.values.moved_to(call, Device.UNKNOWN).gpu:
            yield part[1]


def _is_handed_on(program: Program, loop: cst.For, way: _Way) -> bool:
    """Whether something may move a part in the batch itself: a store, a function that gets it."""
    wholes = (
        part
        for name in program.index.below(loop.body, cst.Name)
        if _may_be_filled(program, name) and (part := _part(program, name, 0)) is not None
    )
    return any(
        home is loop and len(one) < len(way) and way[: len(one)] == one for home, one in wholes
    )


def _may_be_filled(program: Program, name: cst.Name) -> bool:
    """``batch["x"] = ...``, ``move(batch)``."""
    above = program.parent(name)
    holder = None if above is None else program.parent(above)
    match above:
        case cst.Subscript():
            return isinstance(holder, cst.AssignTarget)
        case cst.Arg() if isinstance(holder, cst.Call):
            return dotted(holder.func) not in _LOOKS
        case _:
            return False
