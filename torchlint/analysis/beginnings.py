"""What runs at the beginning of something longer: a pass, a run, an episode, a generation.

There are many steps to each, and what stands before them costs none of those anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_LOOPS = (cst.For, cst.While)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_COUNT = re.compile(r"(^|_)(step|iter|iteration|itr|epoch)(_|$)|(steps?|epochs?)$", re.IGNORECASE)
_FIRST = re.compile(r"start|warm|begin|burn|delay|pretrain|init", re.IGNORECASE)
_BELOW = (cst.LessThan, cst.LessThanEqual)
_ABOVE = (cst.GreaterThan, cst.GreaterThanEqual)


def begins(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node runs before the steps of something, and not in each of them."""
    return (
        _is_for_first_turn(program, node)
        or _is_for_first_steps(program, node)
        or _begins_episode(program, node)
    )


def _is_for_first_turn(program: Program, node: cst.CSTNode) -> bool:
    """``if grid is None: grid = torch.zeros(n)`` of a name that is None before the loop."""
    for branch, _ in _branches(program, node):
        match branch.test:
            case cst.Comparison(
                left=cst.Name() as name,
                comparisons=[cst.ComparisonTarget(cst.Is(), cst.Name("None"))],
            ) if program.index.inside(node, branch.body):
                if _is_made_below(program, branch, name):
                    return True
            case _:
                pass
    return False


def _is_made_below(program: Program, branch: cst.If, name: cst.Name) -> bool:
    """Whether a name is None before the loop around a branch, and made in that branch alone."""
    loop = _loop(program, branch)
    if loop is None:
        return False
    inside = program.index.inside
    bound = program.flow.reaching(name)
    before = [one for one in bound if not inside(one.node, loop)]
    within = [one for one in bound if inside(one.node, loop)]
    return (
        bool(before)
        and bool(within)
        and all(isinstance(one.value, cst.Name) and one.value.value == "None" for one in before)
        and all(inside(one.node, branch) for one in within)
    )


def _is_for_first_steps(program: Program, node: cst.CSTNode) -> bool:
    """``if step < warmup: ...``, and what is there instead: ``if step > start: ... else: ...``."""
    for branch, child in _branches(program, node):
        match branch.test:
            case cst.Comparison(
                left=cst.Name() | cst.Attribute() as count,
                comparisons=[cst.ComparisonTarget(comparator=cst.Name() | cst.Attribute() as to)],
            ):
                kinds = _BELOW if child is branch.body else _ABOVE
                alone = child is branch.body or isinstance(child, cst.Else)
                counts = _COUNT.search(_last(count)) and _FIRST.search(_last(to))
                if alone and counts and isinstance(branch.test.comparisons[0].operator, kinds):
                    return True
            case _:
                pass
    return False


def _begins_episode(program: Program, node: cst.CSTNode) -> bool:
    """Whether a loop around a node sets an environment back, and an inner one takes its steps."""
    loop = _loop(program, node)
    if loop is None:
        return False
    set_back = {
        dotted(func.value)
        for call, func in program.method_calls("reset")
        if _loop(program, call) is loop
    }
    return any(
        dotted(func.value) in set_back
        and _loop(program, call) is not loop
        and program.index.inside(call, loop.body)
        for call, func in program.method_calls("step")
        if set_back and dotted(func.value)
    )


def _branches(program: Program, node: cst.CSTNode) -> Iterator[tuple[cst.If, cst.CSTNode]]:
    """Yield the branches around a node, up to its loop or function, each with the part it is in."""
    child = node
    for above in program.index.ancestors(node):
        if isinstance(above, (*_LOOPS, *_SCOPES)):
            return
        if isinstance(above, cst.If):
            yield above, child
        child = above


def _loop(program: Program, node: cst.CSTNode) -> cst.For | cst.While | None:
    """Return the innermost loop around a node, within its function."""
    for above in program.index.ancestors(node):
        if isinstance(above, _SCOPES):
            return None
        if isinstance(above, _LOOPS):
            return above
    return None


def _last(node: cst.BaseExpression) -> str:
    return dotted(node).rpartition(".")[2]
