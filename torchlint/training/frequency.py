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
from torchlint.syntax.index import loop_of
from torchlint.training.between import conditions
from torchlint.training.effects import Effect, Effects, unit_around
from torchlint.training.guards import decision, is_open

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.effects import CallSite
    from torchlint.training.guards import Guard

DEEPEST = 12  # calls from the place that a script starts with


class Rate(enum.IntEnum):
    """How often something runs, the rarest first."""

    ONCE = 0
    EPOCH = 1
    EVAL_STEP = 2
    BATCH = 3  # for each batch, where it is put together
    SAMPLE = 4
    STEP = 5


OFF = Truth(False)
TAKES = ("__getitem__", "__iter__")  # of a dataset
HOOKED = {"step": Rate.STEP, "evaluation": Rate.EVAL_STEP, "epoch": Rate.EPOCH, "once": Rate.ONCE}


@dataclass(frozen=True, slots=True)
class Frequency:
    """How often something runs, on one way that leads to it, and what it depends on.

    ``loop`` is the loop that says so.  ``known`` is False where no call is seen that leads here
    and no loop shows the rate, ``decided`` where a condition lies between that may be either,
    ``holds`` where one does that is not known to hold.  ``misses`` is True where every so many
    turns do without it.
    """

    rate: Rate
    guard: Guard | None = None
    known: bool = True
    decided: bool = True
    holds: bool = True
    loop: At | None = None
    misses: bool = False

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
    _units: dict[At, tuple[Frequency, ...]] = field(default_factory=dict)
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
        """Return how often a node of a file runs, on the way that leads to it most often."""
        return _ranked(self._ways(node, file, 0))[0]

    def on_request(self, node: cst.CSTNode, file: int) -> bool:
        """Whether something decides that a node runs: a condition around it, or before it."""
        frequency, outer = self.of(node, file), unit_around(self.evaluation, node, file).node
        before = (one for one in conditions(self.evaluation, node, outer, file) if one.left)
        return (
            frequency.guard is not None
            or not frequency.decided
            or any(is_open(self.evaluation, one) for one in before)
        )

    def _ways(self, node: cst.CSTNode, file: int, depth: int) -> list[Frequency]:
        unit = unit_around(self.evaluation, node, file)
        outer: cst.CSTNode = unit.node
        ways: Sequence[Frequency] = ()
        for above, child in self.evaluation.index(file).climb(node, outer):
            loop = loop_of(above, child)
            at = self.evaluation.at(loop, file) if loop is not None else None
            rate = self.rate_of(at) if at is not None else None
            if rate is not None:
                outer, ways = above, [Frequency(rate, loop=at)]
                break
        here = decision(self.evaluation, node, outer, file)
        evaluated = Frequency(Rate.EVAL_STEP, known=False)
        return [
            replace(
                evaluated if here.evaluates and way.rate is Rate.STEP else way,
                guard=way.guard or here.guard,
                decided=way.decided and here.decided,
                holds=way.holds and here.holds,
                misses=way.misses or here.misses,
            )
            for way in ways or self.of_unit(unit, depth)
        ]

    def of_unit(self, unit: Unit, depth: int = 0) -> tuple[Frequency, ...]:
        """Return how often the body of a function or module runs."""
        known = self._units.get(unit.at)
        if known is not None:
            return known
        if isinstance(unit.node, cst.Module):
            return (Frequency(Rate.ONCE),)
        rate = self._samples.get(unit.at)
        if rate is not None:
            return (Frequency(rate),)
        self._units[unit.at] = ()  # calls in circles add nothing
        ways = [] if unit.callers else [self._uncalled(unit)]
        for caller, call in unit.callers.values() if depth < DEEPEST else ():
            ways += self._ways(call, caller.at.file, depth + 1)
        found = _ranked(ways or [Frequency(Rate.ONCE, known=False)])
        if depth == 0 or unit.callers:
            self._units[unit.at] = found
        else:
            del self._units[unit.at]
        return found

    def _uncalled(self, unit: Unit) -> Frequency:
        """Return how often a function runs that nobody is seen to call."""
        own = {effect for site in self.effects.sites[unit.at] for effect in site.effects}
        goes_back = Effect.BACKWARD in own & self.effects.direct[unit.at]
        is_forward = getattr(getattr(unit.node, "name", None), "value", "") == "forward"
        is_step = goes_back or (unit.is_module_method and is_forward)
        return Frequency(Rate.STEP if is_step else Rate.ONCE, known=False)

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
            is_own = site.loops[0] is node
            (own if is_own else nested).update(at_once)
            nested |= looped
            forwards += [site] if is_own and Effect.FORWARD in at_once else []
        if Effect.BACKWARD in own or (Effect.STEP in own and Effect.STEP not in nested):
            return Rate.STEP
        if Effect.BACKWARD in nested:
            return Rate.EPOCH
        unit, off = unit_around(self.evaluation, node, loop.file), self.evaluation.sets.one(OFF)
        over = self.evaluation.value(getattr(node, "iter", None))
        if not unit.is_module_method and (
            self.evaluation.loader_of(over) is not None
            or any(self.evaluation.modes.get(id(s.node), {}).get(GRAD) == off for s in forwards)
            or (forwards and all(way.rate is not Rate.STEP for way in self.of_unit(unit)))
        ):
            return Rate.EVAL_STEP
        return None


def _protocols(evaluation: Evaluation) -> Iterator[tuple[At, Rate]]:
    """Yield the functions that loaders and frameworks run, and how often."""
    for cls in evaluation.classes:
        for name, method in cls.methods.items():
            at, hook = evaluation.at(method, cls.at.file), evaluation.classes.hook(cls.at, name)
            if hook is not None:
                yield at, HOOKED[hook.rate]
            elif name in TAKES and evaluation.classes.kind(cls.at) == "dataset":
                yield at, Rate.SAMPLE
    for call, (_, _, name) in evaluation.makings.items():
        collate = arguments(evaluation, call).get("collate_fn") if name in LOADERS else None
        for one in collate.value if collate else ():
            if isinstance(one, Function):
                yield one.at, Rate.BATCH


def _ranked(ways: list[Frequency]) -> tuple[Frequency, ...]:
    """Return ways without copies, the most frequent and least guarded first."""

    def rank(way: Frequency) -> tuple[int, ...]:
        return (
            -way.rate,
            way.guard is not None,
            not way.decided,
            not way.known,
            not way.holds,
            way.misses,
        )

    return tuple(sorted(dict.fromkeys(ways), key=rank))
