"""How often code runs: a set over the ways that lead to it, the most frequent first.

The innermost loop of a kind around a node says how often it runs; where there is none in its
function, the calls of the function do.  Loops get their kind from what their turns do, by
themselves and through calls (`torchlint.training.effects`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.loaders import arguments
from torchlint.semantics.run import GRAD
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import At, Function, Truth
from torchlint.training.effects import Effect, Effects, unit_around
from torchlint.training.guards import Guard, guard_between, misses_turns
from torchlint.training.undecided import undecided_between

if TYPE_CHECKING:
    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.effects import CallSite

DEEPEST = 12  # calls from the place that a script starts with


class Rate(enum.IntEnum):
    """How often something runs, the rarest first."""

    ONCE = 0
    EPOCH = 1
    EVAL_STEP = 2
    BATCH = 3  # for each batch, where it is put together
    SAMPLE = 4
    STEP = 5


HOOKED = {"step": Rate.STEP, "evaluation": Rate.EVAL_STEP, "epoch": Rate.EPOCH, "once": Rate.ONCE}


@dataclass(frozen=True, slots=True)
class Way:
    """One way that leads to a node: how often it runs by that, and what it depends on.

    ``loop`` is the loop that says so.  ``known`` is False where no call is seen that leads here
    and no loop shows the rate, ``decided`` where a condition lies between that may be either.
    ``misses`` is True where every so many turns do without it.
    """

    rate: Rate
    guard: Guard | None = None
    known: bool = True
    decided: bool = True
    loop: At | None = None
    misses: bool = False


@dataclass(frozen=True, slots=True)
class Frequency:
    """All ways that lead to a node, the most frequent first."""

    ways: tuple[Way, ...]

    @property
    def rate(self) -> Rate:
        """The highest rate."""
        return self.ways[0].rate

    @property
    def guard(self) -> Guard | None:
        """What it depends on whether it runs, on the most frequent way."""
        return self.ways[0].guard

    @property
    def known(self) -> bool:
        """Whether the code shows the rate."""
        return self.ways[0].known

    @property
    def loop(self) -> At | None:
        """The loop that the rate is of."""
        return self.ways[0].loop

    @property
    def decided(self) -> bool:
        """Whether no condition lies between that may be either."""
        return self.ways[0].decided

    @property
    def misses(self) -> bool:
        """Whether every so many turns of the loop do without it."""
        return self.ways[0].misses

    @property
    def certain(self) -> bool:
        """Whether it runs each time that its rate says, as the code shows."""
        return self.guard is None and self.known and self.decided

    @property
    def in_every_step(self) -> bool:
        """Whether it runs in every training step, as the code shows."""
        return self.rate is Rate.STEP and self.certain


@dataclass(slots=True, eq=False)
class Frequencies:
    """How often nodes of connected files run."""

    evaluation: Evaluation
    effects: Effects
    _loops: dict[At, Rate | None] = field(default_factory=dict)
    _units: dict[At, tuple[Way, ...]] = field(default_factory=dict)
    _sites: dict[At, list[CallSite]] = field(default_factory=dict)
    _samples: dict[At, Rate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._samples = dict(_protocols(self.evaluation))
        for unit, sites in self.effects.sites.items():
            for site in sites:
                for loop in site.loops:
                    at = self.evaluation.at(loop, unit.file)
                    self._sites.setdefault(at, []).append(site)

    @property
    def loops(self) -> tuple[At, ...]:
        """The loops that call anything, in the order of the walk."""
        return tuple(sorted(self._sites))

    def of(self, node: cst.CSTNode, file: int) -> Frequency:
        """Return how often a node of a file runs."""
        return Frequency(_ranked(self._ways(node, file, 0)))

    def _ways(self, node: cst.CSTNode, file: int, depth: int) -> list[Way]:
        unit = unit_around(self.evaluation, node, file)
        module = self.evaluation.module(file)
        child = node
        for above in module.index.ancestors(node):
            if above is unit.node:
                break
            loop = loop_of(above, child)
            if loop is not None:
                at = self.evaluation.at(loop, file)
                rate = self.rate_of(at)
                if rate is not None:
                    guard = guard_between(self.evaluation, node, above, file)
                    open_ = undecided_between(self.evaluation, node, above, file)
                    misses = misses_turns(self.evaluation, node, above, file)
                    return [Way(rate, guard, decided=not open_, loop=at, misses=misses)]
            child = above
        guard = guard_between(self.evaluation, node, unit.node, file)
        open_ = undecided_between(self.evaluation, node, unit.node, file)
        misses = misses_turns(self.evaluation, node, unit.node, file)
        return [
            replace(
                way,
                guard=way.guard or guard,
                decided=way.decided and not open_,
                misses=way.misses or misses,
            )
            for way in self.of_unit(unit, depth)
        ]

    def of_unit(self, unit: Unit, depth: int = 0) -> tuple[Way, ...]:
        """Return how often the body of a function or module runs."""
        known = self._units.get(unit.at)
        if known is not None:
            return known
        if isinstance(unit.node, cst.Module):
            return (Way(Rate.ONCE),)
        rate = self._samples.get(unit.at)
        if rate is not None:
            return (Way(rate),)
        self._units[unit.at] = ()  # calls in circles add nothing
        ways: list[Way] = []
        if depth < DEEPEST:
            for caller, call in unit.callers.values():
                ways += self._ways(call, caller.at.file, depth + 1)
        if not unit.callers:
            ways = [self._uncalled(unit)]
        found = _ranked(ways) if ways else (Way(Rate.ONCE, known=False),)
        if depth == 0 or unit.callers:
            self._units[unit.at] = found
        else:
            del self._units[unit.at]
        return found

    def _uncalled(self, unit: Unit) -> Way:
        """Return how often a function runs that nobody is seen to call."""
        direct = self.effects.direct[unit.at]
        own = {effect for site in self.effects.sites[unit.at] for effect in site.effects}
        if Effect.BACKWARD in direct and Effect.BACKWARD in own:
            return Way(Rate.STEP, known=False)
        name = getattr(getattr(unit.node, "name", None), "value", "")
        if unit.is_module_method and name == "forward":
            return Way(Rate.STEP, known=False)
        return Way(Rate.ONCE, known=False)

    def rate_of(self, loop: At) -> Rate | None:
        """Return how often the turns of a loop are, None where they are as frequent as it is."""
        if loop not in self._loops:
            self._loops[loop] = self._rate(loop)
        return self._loops[loop]

    def _rate(self, loop: At) -> Rate | None:
        own: set[Effect] = set()
        nested: set[Effect] = set()
        forwards: list[CallSite] = []
        node = self.evaluation.node(loop)
        for site in self._sites.get(loop, ()):
            at_once, looped = self.effects.of_site(site)
            nested |= looped
            if site.loops[0] is node:
                own |= at_once
                forwards += [site] if Effect.FORWARD in at_once else []
            else:
                nested |= at_once
        if Effect.BACKWARD in own or (Effect.STEP in own and Effect.STEP not in nested):
            return Rate.STEP
        if Effect.BACKWARD in nested:
            return Rate.EPOCH
        unit = unit_around(self.evaluation, node, loop.file)
        if unit.is_module_method:
            return None
        if self._goes_over_a_loader(node):
            return Rate.EVAL_STEP
        off = self.evaluation.sets.one(Truth(False))
        if any(self.evaluation.modes.get(id(s.node), {}).get(GRAD) == off for s in forwards):
            return Rate.EVAL_STEP
        return Rate.EVAL_STEP if forwards and self._is_outside(unit) else None

    def _is_outside(self, unit: Unit) -> bool:
        """Whether a function runs outside of any training step."""
        return all(way.rate is not Rate.STEP for way in self.of_unit(unit))

    def _goes_over_a_loader(self, node: cst.CSTNode) -> bool:
        over = getattr(node, "iter", None)
        if over is None:
            return False
        value = self.evaluation.value(over)
        return self.evaluation.loader_of(value) is not None


def _protocols(evaluation: Evaluation) -> list[tuple[At, Rate]]:
    """Return the functions that loaders and frameworks run, and how often."""
    found: list[tuple[At, Rate]] = []
    for cls in evaluation.classes:
        for name, method in cls.methods.items():
            hook = evaluation.classes.hook(cls.at, name)
            if hook is not None:
                found.append((evaluation.at(method, cls.at.file), HOOKED[hook.rate]))
        for name in ("__getitem__", "__iter__"):
            if evaluation.classes.kind(cls.at) == "dataset" and name in cls.methods:
                at = evaluation.at(cls.methods[name], cls.at.file)
                found.append((at, Rate.SAMPLE))
    for call, (_, _, name) in evaluation.makings.items():
        collate = arguments(evaluation, call).get("collate_fn") if name in LOADERS else None
        given = collate.value if collate else ()
        found += [(one.at, Rate.BATCH) for one in given if isinstance(one, Function)]
    return found


def loop_of(above: cst.CSTNode, child: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop whose turn a child of a node is part of."""
    if isinstance(above, (cst.For, cst.While)):
        return above if child is above.body or child is getattr(above, "test", None) else None
    if isinstance(above, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        return None if child is above.for_in else above.for_in
    return None


def _ranked(ways: list[Way]) -> tuple[Way, ...]:
    """Return ways without copies, the most frequent and least guarded first."""
    ordered = sorted(
        dict.fromkeys(ways),
        key=lambda way: (
            -way.rate,
            way.guard is not None,
            not way.decided,
            not way.known,
            way.misses,
        ),
    )
    return tuple(ordered)
