"""Which loop makes the script go through the same loader again and again: the loop over epochs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.early_ends import largest
from torchlint.analysis.loops import Role
from torchlint.analysis.origins import origins
from torchlint.analysis.step_counters import index_of
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

Loop: TypeAlias = cst.For | cst.While

_DEPTH = 8
_SAVES = re.compile(r"save|checkpoint", re.IGNORECASE)
_FEW = 3  # passes: to keep the workers saves two starts of them
_MANY = 100  # steps beside which starting workers is nothing


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """A loop, and the file it stands in.

    ``rarely``: not all of its turns go through the loader.  ``seldom``: one of many training steps
    does, or those alone that write a checkpoint as well.
    """

    program: Program
    loop: Loop
    rarely: bool = False
    seldom: bool = False

    @property
    def header(self) -> str:
        """Its first line, for messages."""
        code = self.program.brief
        if isinstance(self.loop, cst.While):
            return f"while {code(self.loop.test)}"
        return f"for {code(self.loop.target)} in {code(self.loop.iter)}"


def repeating(program: Program, loader: cst.Call) -> Turns | None:
    """Return the nearest loop in which a loop over a loader runs again, with the same loader.

    None where the loader is made anew each time, where the loops over it stand in one another,
    where nothing in the project repeats it, and where what does is known to do so a few times.
    """
    loops = program.loaders.loops_everywhere(loader)
    over_it = {id(loop) for _, loop in loops}
    making = {id(one.loop) for one in _around(program, loader, None, loader, frozenset())}
    found: list[Turns] = []
    for home, loop in loops:
        around = list(_around(home, loop, loop.iter, loader, frozenset()))
        if any(id(one.loop) in over_it for one in around):
            return None
        rarely = home.context(loop).guarded
        around = [one for one in around if not one.seldom]
        again = (one for one in around if id(one.loop) not in making and not _turns_once(one))
        found += (replace(one, rarely=rarely or one.rarely) for one in again)
    if found and (_are_few(found) or _looked_at(loops, loader)):
        return None
    return min(found, key=lambda one: one.rarely, default=None)


def _looked_at(loops: list[tuple[Program, cst.For]], loader: cst.Call) -> bool:
    """Whether a loop over a loader asks it for another iterator, which would share the workers."""
    for home, loop in loops:
        for call in home.calls.named("iter"):
            source = call.args[0].value if call.args else None
            if source is None or not _is_of(home, source, loader):
                continue
            around = _around(home, call, source, loader, frozenset())
            if any(one.loop is loop for one in around):
                return True
    return False


def _is_of(home: Program, node: cst.BaseExpression, loader: cst.Call) -> bool:
    """Whether an expression is a loader, or comes from it."""
    return any(one is loader for one in home.loaders.sources(node))


def draws(program: Program, loader: cst.Call) -> list[cst.Call]:
    """Return where steps take batches out of a loader one by one, by ``next(batches)``."""
    found: list[cst.Call] = []
    for call in program.calls.named("next"):
        source = call.args[0].value if call.args else None
        if source is None and isinstance(call.func, cst.Attribute):
            source = call.func.value
        if not isinstance(source, cst.Name | cst.Attribute):
            continue  # `next(iter(loader))` starts anew each time
        context = program.context(call)
        if (
            context.role is not Role.OTHER
            and not context.guarded
            and _is_of(program, source, loader)
        ):
            found.append(call)
    return found


def _around(
    program: Program,
    node: cst.CSTNode,
    source: cst.CSTNode | None,
    loader: cst.Call,
    way: frozenset[int],
) -> Iterator[Turns]:
    """Yield the loops that run a node, nearest first, on into the callers of its function.

    With a source, only those callers count from which the loader comes to it.
    """
    child, rarely, seldom = node, False, False
    asked: list[cst.If] = []
    for above in program.index.ancestors(node):
        match above:
            case cst.For() if child is above.body:
                if any(_is_of_one_turn(program, above, one) for one in asked):
                    rarely = True
                elif source is None or not _chooses(program, above, source):
                    yield Turns(program, above, rarely, seldom)
            case cst.While() if child is not above.orelse:
                yield Turns(program, above, rarely, seldom)
            case cst.If() if child is above.body:
                asked.append(above)
                seldom = seldom or _is_seldom(program, above)
            case cst.FunctionDef() if child is above.body:
                if id(above) not in way and len(way) < _DEPTH:
                    way |= {id(above)}
                    for one in _callers(program, above, source, loader, way):
                        yield replace(one, rarely=one.rarely or rarely, seldom=one.seldom or seldom)
                return
            case cst.Lambda():
                return
            case _:
                pass
        child = above


def _is_of_one_turn(program: Program, loop: cst.For, branch: cst.If) -> bool:
    """``if epoch == last`` in ``for epoch in range(n)``: a single turn takes the branch."""
    index = index_of(program, loop)
    match branch.test:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=right)]
        ) if index is not None:
            pass
        case _:
            return False
    return any(
        _counts(program, number, index) and _is_fixed(program, other, loop)
        for number, other in ((left, right), (right, left))
    )


def _counts(program: Program, node: cst.BaseExpression, index: cst.Name) -> bool:
    """Whether an expression is the number of the turn, or one that is as far from it each time."""
    match node:
        case cst.BinaryOperation(left=node, operator=cst.Add() | cst.Subtract(), right=added):
            return isinstance(added, cst.Integer) and _counts(program, node, index)
        case cst.Name():
            return [binding.node for binding in program.flow.reaching(node)] == [index]
        case _:
            return False


def _is_fixed(program: Program, node: cst.BaseExpression, loop: cst.For) -> bool:
    """Whether no name in an expression is bound in a loop."""
    return not any(
        program.index.inside(binding.node, loop)
        for name in program.index.below(node, cst.Name)
        for binding in program.flow.reaching(name)
    )


def _is_seldom(program: Program, branch: cst.If) -> bool:
    """``if step % n == 0`` in a training step, of many steps, or where it saves a checkpoint.

    Or in a turn over batches: what the turn does with them may not be seen.
    """
    periods = [
        one.right
        for one in program.index.below(branch.test, cst.BinaryOperation)
        if isinstance(one.operator, cst.Modulo)
    ]
    if not periods:
        return False
    if program.context(branch).role is not Role.TRAIN:
        loops = (one for one in program.index.ancestors(branch) if isinstance(one, cst.For))
        around = next(loops, None)
        if around is None or not program.loops.takes_batches(around):
            return False
    return _saves(program, branch) or all(_may_be_long(program, one) for one in periods)


def _saves(program: Program, branch: cst.If) -> bool:
    return any(
        _SAVES.search(dotted(call.func).rpartition(".")[2])
        for call in program.index.below(branch.body, cst.Call)
    )


def _may_be_long(program: Program, period: cst.BaseExpression) -> bool:
    """Whether a number of steps may be large: it is no part of an epoch, nor seen to be small."""
    known = program.arguments.number(period)
    if known is not None:
        return known >= _MANY
    return not any(
        isinstance(one, cst.BinaryOperation)
        or (isinstance(one, cst.Call) and dotted(one.func) == "len")
        for one in origins(program, period)
    )


def _callers(
    program: Program,
    function: cst.FunctionDef,
    source: cst.CSTNode | None,
    loader: cst.Call,
    way: frozenset[int],
) -> Iterator[Turns]:
    param = None if source is None else _parameter(program, source, 0)
    for home, site in program.sites_everywhere(function):
        given = None
        if param is not None:
            given = program.calls.passed(function, param, site)
            if given is None or not _is_of(home, given, loader):
                continue
        elif source is not None and _is_of_another(home, site, loader):
            continue
        for one in _around(home, site, given, loader, way):
            yield replace(one, rarely=one.rarely or home.context(site).guarded)


def _is_of_another(home: Program, site: cst.Call, loader: cst.Call) -> bool:
    """Whether a method is called of an object that was made with other loaders, and not this one.

    ``tester = Tester(test_loader); tester.run()``, where ``Tester(valid_loader)`` is one as well.
    """
    match site.func:
        case cst.Attribute(value=cst.Name() as name) if name.value != "self":
            made = [one.value for one in home.flow.reaching(name)]
        case cst.Attribute(value=cst.Attribute(value=cst.Name("self"), attr=attr) as kept):
            owner = home.classes.around(kept)
            stores = [] if owner is None else home.classes.stores(owner, attr.value)
            made = [one.value for one in stores]
        case _:
            return False
    calls = [one for one in made if isinstance(one, cst.Call)]
    if len(calls) < len(made):
        return False
    sources = [
        source for call in calls for arg in call.args for source in home.loaders.sources(arg.value)
    ]
    return bool(sources) and not any(one is loader for one in sources)


def _parameter(program: Program, node: cst.CSTNode, depth: int) -> cst.Param | None:
    """Return the parameter that ``enumerate(tqdm(loader))`` goes through, if there is one."""
    for name in program.index.below(node, cst.Name) if depth < _DEPTH else ():
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


def _chooses(program: Program, loop: cst.For, source: cst.CSTNode) -> bool:
    """``for phase in phases``, which goes through another loader, ``loaders[phase]``, each time."""
    names = {name.value for name in program.index.below(loop.target, cst.Name)}
    return any(
        name.value in names
        for chosen in program.index.below(source, cst.Subscript)
        for part in chosen.slice
        for name in program.index.below(part.slice, cst.Name)
    )


def _are_few(found: list[Turns]) -> bool:
    """Whether all loops together, which may stand in one another, are known to have few turns."""
    product = 1
    for one in {id(one.loop): one for one in found}.values():
        known = _known_turns(one)
        if known is None:
            return False
        product *= known
    return product <= _FEW


def _known_turns(turns: Turns) -> int | None:
    """Return the number of ``for epoch in range(2)``, also under a name; None if any may choose."""
    match turns.loop:
        case cst.For(iter=cst.Call(func=cst.Name(value="range"), args=[only])):
            return turns.program.arguments.number(only.value)
        case _:
            return None


def _turns_once(turns: Turns) -> bool:
    """``for epoch in range(1)``, ``for phase in ["train"]``; also by what callers pass."""
    match turns.loop:
        case cst.For(iter=cst.Call(func=cst.Name(value="range"), args=[only])):
            most = largest(turns.program, only.value)
            return most is not None and most <= 1
        case cst.For(iter=cst.List(elements=[only]) | cst.Tuple(elements=[only])):
            return isinstance(only, cst.Element)  # not `[*phases]`
        case _:
            return False
