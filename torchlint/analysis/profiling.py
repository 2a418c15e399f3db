"""How much of a training stands inside of a block, or follows a call: all of it, or a few steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.debugging import parts_run, ways_to
from torchlint.analysis.loops import Loop, Role
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.program import Program

_FEW = 200  # so many steps are a trial
_COUNT = re.compile(r"steps|iters|iterations|batches|limit|(^|[._])(max|n|num)_iter")
_FIRST = frozenset({"itertools.islice", "itertools.takewhile"})


def loops_inside(program: Program, block: cst.CSTNode) -> list[tuple[Program, Loop]]:
    """Return the training loops that run inside a block, in functions that it calls as well.

    Each with its file.  Calls that say how many steps they want are trials.  Where it is only
    known that a loop trains, and not by which loop, that loop stands for it.
    """
    found = [
        (home, loop)
        for home, part in parts_run(program, block, _limits)
        for loop in home.loops.training
        for place in ways_to(home, loop)
        if home.index.inside(place, part) and not _limits(place)
    ]
    if found:
        return found
    index = program.index
    around: list[Loop] = [*index.below(block, cst.For), *index.below(block, cst.While)]
    return [(program, loop) for loop in around if program.loops.role(loop) is Role.EPOCH]


def _limits(call: cst.CSTNode) -> bool:
    """Whether a call says how many steps it wants: by a number, or by what it names."""
    return isinstance(call, cst.Call) and any(
        isinstance(arg.value, cst.Integer)
        or _COUNT.search("" if arg.keyword is None else arg.keyword.value) is not None
        or _COUNT.search(dotted(arg.value)) is not None
        for arg in call.args
    )


def loops_after(program: Program, call: cst.Call, stops: Iterable[cst.Call] = ()) -> list[Loop]:
    """Return the training loops that start after a call, and run before any of the stops."""
    starts = list(ways_to(program, call))
    ends = list(stops)
    return [
        loop
        for loop in program.loops.training
        if not any(program.index.inside(end, loop) for end in ends)
        and any(
            _follows(program, place, start, ends)
            for place in ways_to(program, loop)
            for start in starts
        )
    ]


def _follows(
    program: Program, place: cst.CSTNode, start: cst.CSTNode, ends: list[cst.Call]
) -> bool:
    """Whether a place comes after another in the same function, with no stop between."""
    order, function = program.index.order, program.function(place)
    if program.function(start) is not function:
        # what the module does when it is imported comes before what its functions do
        return program.function(start) is None and not ends
    between = [
        end
        for end in ends
        if program.function(end) is function and order(start) < order(end) < order(place)
    ]
    return order(start) < order(place) and not between


def is_short(program: Program, loop: Loop) -> bool:
    """Whether a loop says that it makes a small number of steps."""
    return isinstance(loop, cst.For) and any(_is_few(program, part) for part in _parts(loop.iter))


def is_bounded(program: Program, loop: Loop) -> bool:
    """Whether a loop makes a few steps only: a small number of them, or it is left on the way."""
    return is_short(program, loop) or any(
        isinstance(leaving, cst.Return) or _loop_of(program, leaving) is loop
        for kind in (cst.Break, cst.Return)
        for leaving in program.index.below(loop.body, kind)
        if program.function(leaving) is program.function(loop)
    )


def _parts(iterable: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield an expression and the arguments of the calls in it: of ``tqdm(enumerate(...))``."""
    yield iterable
    if isinstance(iterable, cst.Call):
        for arg in iterable.args:
            yield from _parts(arg.value)


def _is_few(program: Program, iterable: cst.BaseExpression) -> bool:
    """Whether an iterable is cut short: ``range(10)``, ``islice(loader, 10)``."""
    if not isinstance(iterable, cst.Call) or not iterable.args:
        return False
    if program.qualified(iterable.func) in _FIRST:
        return True
    if not (isinstance(iterable.func, cst.Name) and iterable.func.value == "range"):
        return False
    numbers = [program.arguments.number(arg.value) for arg in iterable.args[:2]]
    return all(number is not None and number <= _FEW for number in numbers)


def _loop_of(program: Program, leaving: cst.CSTNode) -> cst.CSTNode:
    """Return the loop that a ``break`` leaves."""
    around = program.index.ancestors(leaving)
    return next(above for above in around if isinstance(above, cst.For | cst.While))
