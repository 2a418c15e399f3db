"""What the host picks by the values of a copy, or decides by them, in the turn that makes it.

How many rows there are, or which way Python goes, depends on the values there: on the GPU it would
have to be waited for as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.collected import computes, turn_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 2  # functions that are given a copy, or return it
# Functions and methods whose result has as many rows as the values say.
_PICKS = frozenset({"nonzero", "flatnonzero", "argwhere", "unique", "bincount", "masked_select"})
_TELLS = frozenset({"shape", "size", "ndim", "dim", "dtype", "device", "numel"})
_ENDS = (cst.FormattedString, cst.Lambda, cst.Yield)


def picks(program: Program, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether the host picks by the values of a copy, or of what it computes with that.

    It asks where they are large, looks something up by them, or goes on by them in plain Python.
    What is computed row by row (a sum, a type, the largest) is no such thing.
    """
    turn, todo, seen = turn_of(program, node), [node], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen or not program.index.inside(one, turn):
            continue
        seen.add(id(one))
        child = one
        for above in program.index.ancestors(one):
            away = _given_away(program, one, above) if depth < _DEPTH else ()
            if _picks_by(program, child, above) or any(
                picks(home, use, depth + 1) for home, use in away
            ):
                return True
            todo += _names_of(program, one, above)
            if _stops(program, child, above):
                break
            child = above
    return False


def _picks_by(program: Program, child: cst.CSTNode, above: cst.CSTNode) -> bool:
    """Whether a step up from a value in the tree is where it is picked or decided by."""
    if program.context(above).guarded:
        return False
    match above:
        case cst.Call(func=func):
            name = func.attr.value if isinstance(func, cst.Attribute) else ""
            of_library = child is func or computes(program, func)
            places = name == "where" and len(above.args) == 1
            return of_library and (name in _PICKS or places)
        case cst.Subscript(value=value):
            return child is not value
        case cst.If(test=test) | cst.While(test=test) | cst.IfExp(test=test):
            return child is test
        case cst.CompIf():
            return True
        case _:
            return False


def _stops(program: Program, child: cst.CSTNode, above: cst.CSTNode) -> bool:
    """Whether what is above a value in the tree is no more made of its numbers."""
    match above:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in _TELLS
        case cst.Call(func=cst.Name(value="len")):
            return True
        case cst.Call(func=func):
            return child is not func and not computes(program, func)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return True
        case _:
            return isinstance(above, (*_ENDS, cst.BaseSmallStatement, cst.BaseStatement))


def _given_away(
    program: Program, node: cst.CSTNode, above: cst.CSTNode
) -> Iterator[tuple[Program, cst.CSTNode]]:
    """Yield where other functions have a value that is passed or returned, with their files."""
    match above:
        case cst.Return(value=value):
            yield from _returned(program, node, value)
        case cst.Call(func=func) if not program.index.inside(node, func):
            if not computes(program, func):
                yield from _passed(program, node, above)
        case _:
            pass


def _returned(
    program: Program, node: cst.CSTNode, value: cst.BaseExpression | None
) -> Iterator[tuple[Program, cst.CSTNode]]:
    function = program.function(node)
    for home, site in () if function is None else program.sites_everywhere(function):
        assign = home.parent(site)
        if isinstance(assign, cst.Assign):
            for bound in _bound_below(home, assign):
                if _holds(program, value, bound.path, node):
                    yield from ((home, use) for use in _uses(home, bound))
        else:
            yield home, site


def _passed(
    program: Program, node: cst.CSTNode, call: cst.Call
) -> Iterator[tuple[Program, cst.CSTNode]]:
    own, other = program.calls.target(call), program.calls.elsewhere(call)
    if own is not None:
        home, function = program, own
    elif other is not None:
        home, function = other.program, other.function
    else:
        return
    for param in (*function.params.posonly_params, *function.params.params):
        given = home.calls.passed(function, param, call)
        bound = home.index.bound(param)
        if given is not None and bound is not None and program.index.inside(node, given):
            yield from ((home, use) for use in _uses(home, bound))


# -- the names that a value is given --------------------------------------------------------------


def _names_of(program: Program, node: cst.CSTNode, above: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield where names are used that a statement, or a comprehension, gives a value."""
    inside = program.index.inside
    match above:
        case cst.Assign() | cst.AnnAssign():
            pass
        case cst.AugAssign(target=target) if inside(node, target):
            pass
        case cst.For(iter=needed) | cst.CompFor(iter=needed) if inside(node, needed):
            pass
        case _:
            return
    for bound in _bound_below(program, above):
        if _holds(program, bound.value, bound.path, node):
            yield from _uses(program, bound)


def _bound_below(program: Program, node: cst.CSTNode) -> Iterator[Binding]:
    """Yield the names that the targets of a statement or a comprehension bind."""
    match node:
        case cst.Assign(targets=targets):
            places = [one.target for one in targets]
        case (
            cst.AnnAssign(target=target)
            | cst.AugAssign(target=target)
            | (cst.For(target=target) | cst.CompFor(target=target))
        ):
            places = [target]
        case _:
            return
    for place in places:
        for name in program.index.below(place, cst.Name):
            bound = program.index.bound(name)
            if bound is not None:
                yield bound


def _holds(
    program: Program, value: cst.CSTNode | None, path: Sequence[int], node: cst.CSTNode
) -> bool:
    """Whether what a path leads to in a value is made of a node."""
    match value:
        case cst.Call(func=cst.Name(value="enumerate"), args=[first, *_]) if path:
            return path[0] != 0 and _holds(program, first.value, path[1:], node)
        case cst.Call(func=cst.Name(value="zip"), args=parts) | (
            cst.Tuple(elements=parts) | cst.List(elements=parts)
        ) if path and 0 <= path[0] < len(parts):
            return _holds(program, parts[path[0]].value, path[1:], node)
        case _:
            return value is not None and program.index.inside(node, value)


def _uses(program: Program, bound: Binding) -> Iterator[cst.Name]:
    """Yield where a name is used that may have what a binding gives it."""
    for use in program.index.named.get(bound.name, ()):
        if use is not bound.node and bound in program.flow.reaching(use):
            yield use
