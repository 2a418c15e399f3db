"""What an evaluation only collects, for after its loop: that alone can be read there at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_DEPTH = 2  # calls that return what they read
_COLLECTS = frozenset({"add", "append", "extend", "insert", "update"})
_PLAIN = frozenset({"abs", "dict", "enumerate", "float", "int", "len", "list", "max", "min",
                    "round", "set", "sorted", "sum", "tuple", "zip"})  # fmt: skip
_TENSORS = (Kind.TENSOR, Kind.NDARRAY, Kind.NUMBER, Kind.NPSCALAR)


def is_collected(program: Program, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a value, or what arithmetic makes of it, outlives the turn of the loop around it.

    It is added to a total, put into a list, a dict or an array, or given to a meter.
    """
    function, place = program.function(node), turn_of(program, node)
    names, todo, seen = set[str](), [node], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        taker = _taker(program, one)
        made = {name for name in _kept_in(taker, one, program) if name}
        if any(_outlives(program, name, taker, place) for name in made):
            return True
        if isinstance(taker, cst.Return) and depth < _DEPTH and function is not None:
            sites = program.sites_everywhere(function)
            if any(is_collected(home, site, depth + 1) for home, site in sites):
                return True
        names |= made
        todo += [
            name
            for value in made
            for name in program.index.named.get(value, ())
            if program.index.inside(name, place) and program.index.bound(name) is None
        ]
    return False


def turn_of(program: Program, node: cst.CSTNode) -> cst.CSTNode:
    """Return the loop of the function around a node, whose turns are steps, or the function."""
    loop, function = program.context(node).loop, program.function(node)
    if isinstance(loop, cst.For | cst.While) and program.function(loop) is function:
        return loop
    return function or program.module


def _taker(program: Program, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the call or statement that takes a value, or what arithmetic makes of it."""
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.Call(func=func) if child is not func:
                if isinstance(func, cst.Attribute) and func.attr.value in _COLLECTS:
                    return above
                if not computes(program, func):
                    return None
            case cst.Subscript(value=value) if child is not value:
                return None
            case cst.FormattedString() | cst.Lambda() | cst.Yield():
                return None
            case cst.For(iter=needed):
                return above if child is needed else None
            case cst.BaseSmallStatement():
                return above
            case cst.BaseStatement():
                return None
            case _:
                pass
        child = above
    return None


def computes(program: Program, func: cst.BaseExpression) -> bool:
    """Whether a function computes with tensors, arrays or numbers, and does nothing else."""
    if program.qualified(func).startswith(("torch.", "numpy.", "math.")):
        return not program.qualified(func).startswith(("torch.save", "numpy.save"))
    match func:
        case cst.Name(value=name):
            return name in _PLAIN and program.is_builtin(func)
        case cst.Attribute(value=receiver):
            return program.value(receiver).kind in _TENSORS
        case _:
            return False


def _kept_in(taker: cst.CSTNode | None, node: cst.CSTNode, program: Program) -> Iterator[str]:
    """Yield the names of what is given a value: totals, lists, names, the targets of a loop."""
    match taker:
        case cst.Call(func=cst.Attribute(value=receiver)):
            yield dotted(whole(receiver))
        case cst.AugAssign(target=target, value=value) if program.index.inside(node, value):
            yield dotted(whole(target))
        case cst.Assign(targets=targets):
            for one in targets:
                yield from bound_by(one.target)
        case cst.For(target=target, iter=needed):
            for element in _element(program, target, needed, node):
                yield from bound_by(element)
        case _:
            pass


def _element(
    program: Program, target: cst.BaseExpression, needed: cst.BaseExpression, node: cst.CSTNode
) -> list[cst.BaseExpression]:
    """``a`` of ``for a, b in zip(x, y)``, where the node is in ``x``; the target where unsure."""
    match target, needed:
        case (
            cst.Tuple(elements=[_, inner]) | cst.List(elements=[_, inner]),
            cst.Call(func=cst.Name(value="enumerate") as func, args=[first, *_]),
        ) if program.is_builtin(func):
            return _element(program, inner.value, first.value, node)
        case (
            cst.Tuple(elements=parts) | cst.List(elements=parts),
            cst.Call(func=cst.Name(value="zip") as func, args=args),
        ) if program.is_builtin(func) and len(parts) == len(args) and not any(a.star for a in args):
            pairs = zip(parts, args, strict=True)
            return [part.value for part, arg in pairs if program.index.inside(node, arg)]
        case _:
            return [target]


def bound_by(target: cst.BaseExpression) -> Iterator[str]:
    """Yield the names that an assignment gives values, or puts something into."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from bound_by(element.value)
    else:
        yield dotted(whole(target))


def whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """``tokens`` in ``tokens[:, -1]`` and ``tokens.squeeze(0)``, ``self.kept`` in its entries."""
    while True:
        match node:
            case cst.Subscript(value=inner) | cst.Call(func=cst.Attribute(value=inner)):
                node = inner
            case _:
                return node


def _outlives(program: Program, name: str, taker: cst.CSTNode | None, place: cst.CSTNode) -> bool:
    """Whether what a statement adds to was there before the turn."""
    match taker:
        case cst.For():
            return False
        case cst.Assign(targets=targets, value=value):
            into = any(isinstance(one.target, cst.Subscript) for one in targets)
            if not into and not mentions(program, value, name):
                return False
        case _:
            pass
    return not any(
        name in bound_by(one.target) and not isinstance(one.target, cst.Subscript)
        for assign in program.index.below(place, cst.Assign)
        if not mentions(program, assign.value, name)
        for one in assign.targets
    )


def mentions(program: Program, node: cst.CSTNode, name: str) -> bool:
    """Whether a name, or an attribute like ``self.total``, stands at or below a node."""
    kind = cst.Attribute if "." in name else cst.Name
    return dotted(node) == name or any(
        dotted(one) == name for one in program.index.below(node, kind)
    )
