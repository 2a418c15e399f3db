"""Which loop makes the script go through the same loader again and again: the loop over epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.index import Bind
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

Loop: TypeAlias = cst.For | cst.While

_DEPTH = 8


def repeating(program: Program, loader: cst.Call) -> Loop | None:
    """Return the nearest loop in which a loop over a loader runs again, with the same loader.

    None where the loader is made anew each time, where the loops over it stand in one another, and
    where nothing in the file repeats it.
    """
    loops = program.loaders.loops(loader)
    over_it = {id(loop) for loop in loops}
    making = {id(one) for one in _around(program, loader, None, loader, frozenset())}
    found: list[Loop] = []
    for loop in loops:
        around = list(_around(program, loop, loop.iter, loader, frozenset()))
        if any(id(one) in over_it for one in around):
            return None
        found += (one for one in around if id(one) not in making and not _turns_once(program, one))
    return found[0] if found else None


def _around(
    program: Program,
    node: cst.CSTNode,
    source: cst.CSTNode | None,
    loader: cst.Call,
    way: frozenset[int],
) -> Iterator[Loop]:
    """Yield the loops that run a node, nearest first, on into the callers of its function.

    With a source, only those callers count from which the loader comes to it.
    """
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.For() if child is above.body:
                yield above
            case cst.While() if child is not above.orelse:
                yield above
            case cst.FunctionDef() if child is above.body:
                if id(above) not in way and len(way) < _DEPTH:
                    way |= {id(above)}
                    yield from _callers(program, above, source, loader, way)
                return
            case cst.Lambda():
                return
            case _:
                pass
        child = above


def _callers(
    program: Program,
    function: cst.FunctionDef,
    source: cst.CSTNode | None,
    loader: cst.Call,
    way: frozenset[int],
) -> Iterator[Loop]:
    param = None if source is None else _parameter(program, source, 0)
    for site in program.calls.sites(function):
        given = None
        if param is not None:
            given = program.calls.passed(function, param, site)
            if given is None or not _may_be(program, given, loader):
                continue
        yield from _around(program, site, given, loader, way)


def _may_be(program: Program, given: cst.BaseExpression, loader: cst.Call) -> bool:
    """Whether an argument is the loader, or a parameter in turn."""
    value = program.value(given)
    if value.kind is Kind.LOADER and value.made is not None:
        return value.made is loader
    return _parameter(program, given, 0) is not None


def _parameter(program: Program, node: cst.CSTNode, depth: int) -> cst.Param | None:
    """Return the parameter that ``enumerate(tqdm(loader))`` goes through, if there is one."""
    names = [node] if isinstance(node, cst.Name) else list(program.index.below(node, cst.Name))
    for name in names if depth < _DEPTH else ():
        if isinstance(program.parent(name), cst.Attribute):
            continue
        for binding in program.flow.reaching(name):
            if binding.kind is Bind.PARAMETER and isinstance(binding.value, cst.Param):
                return binding.value
            if binding.kind is Bind.ASSIGN and binding.value is not None:
                found = _parameter(program, binding.value, depth + 1)
                if found is not None:
                    return found
    return None


def _turns_once(program: Program, loop: Loop) -> bool:
    """``for epoch in range(1)``."""
    match loop:
        case cst.For(iter=cst.Call(func=cst.Name(value="range"), args=[only])):
            return program.arguments.number(only.value) in (0, 1)
        case _:
            return False


def header(program: Program, loop: Loop) -> str:
    """Return the first line of a loop, for messages."""
    if isinstance(loop, cst.While):
        return f"while {program.brief(loop.test)}"
    return f"for {program.brief(loop.target)} in {program.brief(loop.iter)}"


__all__ = ["Loop", "header", "repeating"]
