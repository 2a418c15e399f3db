"""What a simulator, a memory of its steps or the sampler of a DataLoader needs on the host.

Or a search without gradients: ``x = search.ask()``, and ``search.tell(x, loss)``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_TOLD = re.compile(r"reward|done|terminal|truncat", re.IGNORECASE)  # what a simulator answers
_SAMPLERS = ("sampler", "batch_sampler")  # attributes of a DataLoader
_REMEMBERS = frozenset({"append", "add", "push", "store", "remember", "insert"})
_HOPS = 8  # names and functions that an action passes through


def for_simulator(program: Program, node: cst.CSTNode) -> bool:
    """Whether a value is an action for a simulator, or a priority to replay or to sample by.

    Or what a search is told of the point that it asked for.

    Followed through names and lists, and through functions that return it, in whatever file they
    are called.
    """
    return _reaches(program, node, _HOPS, set())


def _reaches(program: Program, node: cst.CSTNode, hops: int, seen: set[int]) -> bool:
    if _is_given(program, node):
        return True
    statement = program.smallest_statement(node)
    if hops == 0 or id(statement) in seen:
        return False
    seen.add(id(statement))
    match statement:
        case (
            cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)])
            | cst.AugAssign(target=cst.Name() as name)
        ):
            uses = _uses(program, name)
            return any(_reaches(program, use, hops - 1, seen) for use in uses)
        case cst.Expr(
            value=cst.Call(func=cst.Attribute(value=cst.Name() as kept, attr=cst.Name("append")))
        ):
            later = _later_uses(program, kept)
            return any(_reaches(program, use, hops - 1, seen) for use in later)
        case cst.Return():
            function = program.function(node)
            sites = [] if function is None else program.sites_everywhere(function)
            return any(_reaches(home, site, hops - 1, seen) for home, site in sites)
        case _:
            return False


def _uses(program: Program, name: cst.Name) -> Iterator[cst.Name]:
    for use in program.index.named.get(name.value, ()):
        if use is not name and any(one.node is name for one in program.flow.reaching(use)):
            yield use


def _later_uses(program: Program, name: cst.Name) -> Iterator[cst.Name]:
    """Yield where a list is used after something was put into it."""
    bound, place = program.flow.reaching(name), program.index.order(name)
    for use in program.index.named.get(name.value, ()):
        later = program.index.order(use) > place and program.index.bound(use) is None
        if later and program.flow.reaching(use) == bound:
            yield use


def _is_given(program: Program, node: cst.CSTNode) -> bool:
    for above in program.index.ancestors(node):
        if isinstance(above, cst.BaseSmallStatement | cst.BaseStatement):
            return False
        match above:
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))):
                if name == "step" and (
                    "env" in dotted(receiver).lower() or _answers(program, above)
                ):
                    return True
                if name == "tell" and any(
                    program.same(func.value, receiver) for _, func in program.method_calls("ask")
                ):
                    return True  # a search without gradients asks for the next point by it
                if "priorit" in name or _draws_batches(receiver):
                    return True
                if name in _REMEMBERS and any(
                    _TOLD.search(dotted(one.value)) for one in above.args
                ):
                    return True  # a memory of steps: `memory.append(state, action, reward, done)`
            case _:
                pass
    return False


def _draws_batches(receiver: cst.BaseExpression) -> bool:
    """``loader.sampler``: a ``self.sampler`` may as well be one of a diffusion."""
    match receiver:
        case cst.Attribute(value=loader, attr=cst.Name(value=name)) if name in _SAMPLERS:
            return dotted(loader) != "self"
        case _:
            return False


def _answers(program: Program, call: cst.Call) -> bool:
    """``state, reward, done, _ = game.step(action)``."""
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))]):
            return any(_TOLD.search(dotted(element.value)) for element in elements)
        case _:
            return False
