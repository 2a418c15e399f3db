"""How often a loader is made and gone through: which loops go through it again and again.

A loop repeats a pass where it is around the pass and not around the call that makes the loader.
Both are sets of loops, through the callers that pass this very loader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.index import loop_of
from torchlint.training.between import conditions
from torchlint.training.effects import unit_around
from torchlint.training.guards import Guard, decision
from torchlint.training.loaders import loaders_in
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.loaders import Loader, Pass

DEEPEST = 12  # calls
ONCE = frozenset({Guard.EQUAL, Guard.ABORT, Guard.EXCEPTION})
RARE = frozenset({Guard.PERIODIC, Guard.CLOCK, Guard.OFF})
LAST = RARE | {Guard.ABORT, Guard.EXCEPTION}  # they hold for loops further outside as well


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """A loop around a node; ``guard`` is a condition between, with no other loop between."""

    loop: cst.CSTNode
    file: int
    guard: Guard | None

    @property
    def is_rare(self) -> bool:
        """Whether only some of the turns of the loop get to the node."""
        return self.guard in RARE


def repeating(evaluation: Evaluation, loader: Loader) -> list[tuple[Pass, Around]]:
    """Return the loops that go through a loader again and again, with the passes in them.

    For each pass those inside come first; passes that every turn makes come before others.
    """
    made = loops_making(evaluation, loader.node, loader.at.file)
    found: list[tuple[Pass, Around]] = []
    for one in loader.passes:
        ways = _around(evaluation, one.node, one.file, loader.at, None, ())
        for around in {(id(way.loop), way.guard): way for way in ways}.values():
            if id(around.loop) not in made and around.guard not in ONCE:
                turns = most_turns(evaluation, around.loop, around.file)
                if turns is None or turns > 1:
                    found.append((one, around))
    return sorted(found, key=lambda pair: pair[1].is_rare)


def loops_making(evaluation: Evaluation, node: cst.CSTNode, file: int) -> set[int]:
    """Return the loops whose turns make something anew, by identity."""
    return {id(one.loop) for one in _around(evaluation, node, file, None, None, ())}


def counts(evaluation: Evaluation, loop: cst.CSTNode, name: cst.CSTNode, file: int) -> bool:
    """Whether a name is what a loop of its file counts with."""
    index, target = evaluation.index(file), getattr(loop, "target", loop)
    return any(index.inside(one.node, target) for one in evaluation.bindings(name))


def _around(  # noqa: PLR0917 - a place, and the way that led to it
    evaluation: Evaluation,
    node: cst.CSTNode,
    file: int,
    loader: At | None,
    guard: Guard | None,
    way: tuple[At, ...],
) -> Iterator[Around]:
    """Yield the loops around a node, through callers too: those that pass a loader.

    A loop that takes another loader in each turn is none of them.
    """
    unit, inner = unit_around(evaluation, node, file), node
    for above, child in evaluation.index(file).climb(node, unit.node):
        loop = loop_of(above, child)
        if loop is not None and not _selects(evaluation, loop, file, loader):
            between = guard or decision(evaluation, inner, above, file).guard
            if between is None and _is_one_turn(evaluation, loop, inner, file):
                between = Guard.EQUAL
            yield Around(loop, file, between)
            guard, inner = between if between in LAST else None, above
    if unit.at in way or len(way) >= DEEPEST:
        return
    between = guard or decision(evaluation, inner, unit.node, file).guard
    holding = [cell for cell in unit.parameters.values() if _holds(cell.value, loader)]
    for at, (caller, call) in unit.callers.items():
        if not holding or any(_holds(cell.given.get(at, ()), loader) for cell in holding):
            outer = caller.at.file
            yield from _around(evaluation, call, outer, loader, between, (*way, unit.at))


def _is_one_turn(evaluation: Evaluation, loop: cst.CSTNode, node: cst.CSTNode, file: int) -> bool:
    """Whether a node runs in one turn of a loop: ``if epoch == last``, of what it counts."""
    below = evaluation.index(file).below
    return any(
        one.truth
        and isinstance(one.test, cst.Comparison)
        and isinstance(one.test.comparisons[0].operator, cst.Equal)
        and not any(below(one.test, cst.Modulo))
        and any(counts(evaluation, loop, name, file) for name in below(one.test, cst.Name))
        for one in conditions(evaluation, node, loop, file)
    )


def _selects(evaluation: Evaluation, loop: cst.CSTNode, file: int, loader: At | None) -> bool:
    """Whether a loop takes another loader in each turn: it goes through loaders or their keys.

    ``for x in loaders: ...``, ``for key in keys: run(loaders[key])``
    """
    value, over = evaluation.value, getattr(loop, "iter", None)
    if over is None:
        return False
    if _holds(value(over), loader) and loader not in loaders_in(value(over)):
        return True
    below = evaluation.index(file).below
    return any(
        counts(evaluation, loop, key, file)
        for item in below(loop, cst.Subscript)
        if _holds(value(item.value), loader)
        for part in item.slice
        for key in below(part, cst.Name)
    )


def _holds(value: Value, loader: At | None) -> bool:
    return loader is not None and loader in loaders_in(value, inside=True)
