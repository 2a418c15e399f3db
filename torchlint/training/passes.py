"""How often a loader is made and gone through: which loops go through it again and again.

A loop repeats a pass where it is around the pass and not around the call that makes the loader.
Both are sets of loops, through the callers that pass this very loader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.between import loop_of
from torchlint.training.effects import unit_around
from torchlint.training.guards import Guard, guard_between
from torchlint.training.loaders import loaders_in
from torchlint.training.turns import most_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.syntax.module import Module
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


@dataclass(slots=True, eq=False)
class Passes:
    """The loops around the making of loaders, and around passes over them."""

    evaluation: Evaluation
    _made: dict[At, frozenset[int]] = field(default_factory=dict)

    def repeating(self, loader: Loader) -> list[tuple[Pass, Around]]:
        """Return the loops that go through a loader again and again, with the passes in them.

        For each pass those inside come first; passes that every turn makes come before others.
        """
        made = self.around_making(loader)
        found: list[tuple[Pass, Around]] = []
        for one in loader.passes:
            for around in self.around(one.node, one.file, loader.at):
                if id(around.loop) in made or around.guard in ONCE:
                    continue
                turns = most_turns(self.evaluation, around.loop, around.file)
                if turns is None or turns > 1:
                    found.append((one, around))
        return sorted(found, key=lambda pair: pair[1].is_rare)

    def around_making(self, loader: Loader) -> frozenset[int]:
        """Return the loops that make a loader anew, by identity."""
        found = self._made.get(loader.at)
        if found is None:
            loops = self.around(loader.node, loader.at.file, None)
            found = self._made[loader.at] = frozenset(id(one.loop) for one in loops)
        return found

    def around(self, node: cst.CSTNode, file: int, loader: At | None) -> list[Around]:
        """Return the loops around a node, through callers too: those that pass a loader.

        A loop that takes another loader in each turn is none of them.
        """
        found = self._around(node, file, loader, None, frozenset())
        return list({(id(one.loop), one.guard): one for one in found}.values())

    def _around(
        self,
        node: cst.CSTNode,
        file: int,
        loader: At | None,
        guard: Guard | None,
        way: frozenset[At],
    ) -> Iterator[Around]:
        unit = unit_around(self.evaluation, node, file)
        child = inner = node
        for above in self.evaluation.index(file).ancestors(node):
            if above is unit.node:
                break
            loop = loop_of(above, child)
            if loop is not None and not self._selects(loop, file, loader):
                between = guard or guard_between(self.evaluation, inner, above, file)
                if between is None and self._is_one_turn(loop, inner, file):
                    between = Guard.EQUAL
                yield Around(loop, file, between)
                guard, inner = between if between in LAST else None, above
            child = above
        if unit.at in way or len(way) >= DEEPEST:
            return
        between = guard or guard_between(self.evaluation, inner, unit.node, file)
        for caller, call in self._callers(unit, loader):
            yield from self._around(call, caller.at.file, loader, between, way | {unit.at})

    def _is_one_turn(self, loop: cst.CSTNode, node: cst.CSTNode, file: int) -> bool:
        """Whether a node runs in one turn of a loop: ``if epoch == last``, of what it counts."""
        index = self.evaluation.index(file)
        for above in index.ancestors(node):
            match above:
                case cst.If(
                    test=cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Equal())])
                ) if index.inside(node, above.body):
                    asks = any(self.counts(loop, one, file)
                               for one in index.below(above.test, cst.Name))  # fmt: skip
                    return asks and not any(index.below(above.test, cst.Modulo))
            if above is loop:
                return False
        return False

    def _callers(self, unit: Unit, loader: At | None) -> Iterator[tuple[Unit, cst.Call]]:
        """Yield the calls of a function; of one that is passed a loader, those that pass it."""
        holding = [cell for cell in unit.parameters.values() if _holds(cell.value, loader)]
        for at, (caller, call) in unit.callers.items():
            if not holding or any(_holds(cell.given.get(at, ()), loader) for cell in holding):
                yield caller, call

    def _selects(self, loop: cst.CSTNode, file: int, loader: At | None) -> bool:
        """Whether a loop takes another loader in each turn: it goes through loaders or their keys.

        ``for x in loaders: ...``, ``for key in keys: run(loaders[key])``
        """
        over = getattr(loop, "iter", None)
        if loader is None or over is None:
            return False
        index, value = self.evaluation.index(file), self.evaluation.value
        if _holds(value(over), loader) and loader not in loaders_in(value(over)):
            return True
        return any(
            self.counts(loop, key, file)
            for item in index.below(loop, cst.Subscript)
            if _holds(value(item.value), loader)
            for part in item.slice
            for key in index.below(part, cst.Name)
        )

    def counts(self, loop: cst.CSTNode, name: cst.BaseExpression, file: int) -> bool:
        """Whether a name is what a loop of its file counts with."""
        index, target = self.evaluation.index(file), getattr(loop, "target", loop)
        return any(index.inside(one.node, target) for one in self.evaluation.bindings(name))


def _holds(value: Value, loader: At | None) -> bool:
    return loader is not None and loader in loaders_in(value, inside=True)


def header(module: Module, loop: cst.CSTNode) -> str:
    """Return the first line of a loop, for messages."""
    if isinstance(loop, cst.While):
        return f"while {module.brief(loop.test)}"
    assert isinstance(loop, (cst.For, cst.CompFor))
    return f"for {module.brief(loop.target)} in {module.brief(loop.iter)}"
