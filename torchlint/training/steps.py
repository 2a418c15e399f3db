"""Training steps: the turn of a loop, or a function, that goes back and lets an optimizer step.

The members of a step are the calls that matter to training, in the order in which they run, through
the functions that the step calls.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.values import Library
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted
from torchlint.training.between import conditions, loops
from torchlint.training.effects import Effect, is_unseen, unit_around
from torchlint.training.frequency import Rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.between import Condition
    from torchlint.training.effects import CallSite, Effects
    from torchlint.training.frequency import Frequencies

    _Part: TypeAlias = tuple["Role", cst.BaseExpression, Value]

DEEPEST = 5  # calls from the step


class Role(enum.Enum):
    """What a call does in a training step."""

    FORWARD = enum.auto()
    BACKWARD = enum.auto()
    CLIP = enum.auto()
    ZERO_GRAD = enum.auto()
    STEP = enum.auto()  # of an optimizer, or by a scaler
    UNSCALE = enum.auto()
    UPDATE = enum.auto()  # of a scaler
    SCHEDULE = enum.auto()  # the step of a scheduler
    UNSEEN = enum.auto()  # it is handed an optimizer, a scaler or a scheduler, and does what?


_METHODS = {
    ("unscale_", ""): Role.UNSCALE,
    ("update", "scaler"): Role.UPDATE,
    ("step", "scheduler"): Role.SCHEDULE,
}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A call that matters in a step.

    ``owner`` is whose method it is: of `scaler.step(optimizer)` the optimizer, and ``by`` is the
    scaler.  ``path`` has the calls that lead to it, from the step inwards, itself last; ``loops``
    and ``conditions`` are those between the step and it, from the outside in.
    """

    role: Role
    node: cst.Call
    file: int
    owner: Value
    name: tuple[At, str]  # how its function speaks of the owner
    by: Value
    path: tuple[cst.Call, ...]
    loops: tuple[At, ...]
    conditions: tuple[Condition, ...]


@dataclass(eq=False)
class Region:
    """A loop, function or module with what runs in it; of a loop, in one turn."""

    effects: Effects
    node: cst.CSTNode
    file: int
    members: tuple[Member, ...]
    scopes: tuple[tuple[int, cst.CSTNode], ...]  # all that it runs code of

    @property
    def evaluation(self) -> Evaluation:
        """The values of the files."""
        return self.effects.evaluation

    def exclude(self, one: Member, other: Member) -> bool:
        """Whether two members are under a condition and its contrary."""
        needed = {(file, code, not truth) for file, code, truth in self.needs(other)}
        return not needed.isdisjoint(self.needs(one))

    def needs(self, member: Member) -> set[tuple[int, str, bool]]:
        """Return the conditions that a member is under, by their code and what it has to give."""
        found: set[tuple[int, str, bool]] = set()
        for one in member.conditions:
            test, truth = one.plain
            found.add((one.file, self.evaluation.module(one.file).code(test), truth))
        return found

    def of(self, *roles: Role) -> list[Member]:
        """Return the members of some roles."""
        return [one for one in self.members if one.role in roles]

    def speaks_of(self, word: str) -> Iterator[cst.Attribute]:
        """Yield the attributes of a name in its code."""
        for file, scope in self.scopes:
            index = self.evaluation.index(file)
            for name in index.named.get(word, ()):
                above = index.parent(name)
                if isinstance(above, cst.Attribute) and index.inside(name, above.attr):
                    yield from [above] if index.inside(name, scope) else []

    @cached_property
    def called(self) -> set[str]:
        """What its code calls of libraries, functions and objects."""
        return {
            getattr(one, "kind", getattr(one, "name", ""))
            for file, scope in self.scopes
            for call in self.evaluation.index(file).below(scope, cst.Call)
            for one in self.evaluation.value(call.func)
        }

    @cached_property
    def touches_gradients(self) -> bool:
        """Whether its code reads or changes ``.grad`` by hand."""
        values = map(self.evaluation.value, self.speaks_of("grad"))
        return any(not any(isinstance(one, Library) for one in value) for value in values)


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """How a function is reached from a step: by which calls, under what."""

    unit: Unit
    outer: cst.CSTNode  # what runs of it
    path: tuple[cst.Call, ...] = ()
    units: tuple[Unit, ...] = ()
    loops: tuple[At, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Steps:
    """The training steps of connected files."""

    def __init__(self, frequencies: Frequencies) -> None:
        self.frequencies, self.evaluation = frequencies, frequencies.evaluation
        self.effects = frequencies.effects
        self._regions: dict[At, Region] = {}
        self._orders: dict[int, tuple[CallSite, ...]] = {}  # by what runs of a function
        self._parts: dict[int, _Part | None] = {}  # by sites

    def __iter__(self) -> Iterator[Region]:
        """Yield the steps: loops that are in no other step, and functions that nobody calls."""
        return iter(self._found)

    @cached_property
    def _found(self) -> list[Region]:
        frequencies, found = self.frequencies, []
        for at in frequencies.loops:
            if frequencies.rate_of(at) is Rate.STEP:
                node = self.evaluation.node(at)
                around = frequencies.of(node, at.file)
                if around.rate is not Rate.STEP or not around.known:
                    found.append(self.region(node, at.file))
        alone = (unit for unit in self.evaluation.units.values() if not unit.callers)
        return [
            *found,
            *(self.region(one.node, one.at.file) for one in alone if self._is_step(one)),
        ]

    def _is_step(self, unit: Unit) -> bool:
        """Whether a function that nobody calls is a step, or accumulates in a loop and steps."""
        direct, inner = self.effects.direct[unit.at], self.effects.inner[unit.at]
        if Effect.BACKWARD in direct:
            return any(way.rate is Rate.STEP for way in self.frequencies.of_unit(unit))
        accumulates = Effect.BACKWARD in inner and Effect.STEP in direct - inner
        return accumulates and isinstance(unit.node, cst.FunctionDef)

    def region(self, node: cst.CSTNode, file: int) -> Region:
        """Return what runs in a turn of a loop, a function or a module."""
        at = self.evaluation.at(node, file)
        found = self._regions.get(at)
        if found is None:
            unit = self.evaluation.units.get(at) or unit_around(self.evaluation, node, file)
            scopes: dict[int, tuple[int, cst.CSTNode]] = {id(node): (file, node)}
            members = tuple(self._members(_Way(unit, node), scopes))
            found = Region(self.effects, node, file, members, tuple(scopes.values()))
            self._regions[at] = found
        return found

    def _members(self, way: _Way, scopes: dict[int, tuple[int, cst.CSTNode]]) -> Iterator[Member]:
        for site in self._in_order(way):
            member = self._member(way, site)
            for target in site.targets if len(way.path) < DEEPEST else ():
                inner = self.evaluation.units[target]
                if inner not in (way.unit, *way.units):
                    scopes.setdefault(id(inner.node), (target.file, inner.node))
                    yield from self._members(self._through(way, site.node, inner), scopes)
            if member is not None:
                yield member

    def _through(self, way: _Way, call: cst.Call, inner: Unit) -> _Way:
        """Return the way on through a call."""
        return _Way(
            inner,
            inner.node,
            (*way.path, call),
            (*way.units, way.unit),
            (*way.loops, *self._loops(way, call)),
            (*way.conditions, *conditions(self.evaluation, call, way.outer, way.unit.at.file)),
        )

    def _loops(self, way: _Way, call: cst.Call) -> list[At]:
        file = way.unit.at.file
        found = loops(self.evaluation, call, way.outer, file)
        return [self.evaluation.at(one, file) for one in found]

    def _in_order(self, way: _Way) -> Iterator[CallSite]:
        """Yield calls in the order in which they end: arguments before what gets them."""
        if id(way.outer) not in self._orders:
            self._orders[id(way.outer)] = tuple(self._ordered(way))
        yield from self._orders[id(way.outer)]

    def _ordered(self, way: _Way) -> Iterator[CallSite]:
        index = self.evaluation.index(way.unit.at.file)
        is_whole = way.outer is way.unit.node
        sites = self.effects.sites[way.unit.at]
        if not is_whole:
            sites = [one for one in sites if any(each is way.outer for each in one.loops)]
        open_: list[CallSite] = []
        for site in sorted(sites, key=lambda one: index.order(one.node)):
            while open_ and not index.inside(site.node, open_[-1].node):
                yield open_.pop()
            open_.append(site)
        yield from reversed(open_)

    def _member(self, way: _Way, site: CallSite) -> Member | None:
        if id(site) not in self._parts:
            self._parts[id(site)] = self._part(site, way.unit)
        part = self._parts[id(site)]
        if part is None:
            return None
        role, whose, by = part
        call, on = site.node, self._through(way, site.node, way.unit)
        owner, name = self.evaluation.value(whose), (way.unit.at, dotted(whose))
        return Member(
            role, call, way.unit.at.file, owner, name, by, on.path, on.loops, on.conditions
        )

    def _part(self, site: CallSite, unit: Unit) -> _Part | None:
        """Return what a call does in a step, to what, and what it does that by."""
        call, evaluation = site.node, self.evaluation
        whose = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        by: Value = ()
        role = self._role(site, evaluation.value(whose), unit)
        if role is Role.FORWARD:
            whose = call.func
        if call.args and (
            role is Role.UNSCALE
            or (role is Role.STEP and not self.is_kind(evaluation.value(whose), "optimizer"))
        ):
            by, whose = evaluation.value(whose), call.args[0].value
        if role is None and not site.targets and (given := self._handed_on(call)):
            role, whose = Role.UNSEEN, given[0]
        return None if role is None else (role, whose, by)

    def _role(self, site: CallSite, owner: Value, unit: Unit) -> Role | None:
        func = site.node.func
        name, effects = last_name(func), site.effects
        if self.evaluation.library(func).startswith("torch.nn.utils.clip_grad"):
            return Role.CLIP
        if name in ("clip_grad_norm_", "clip_grad_value_") and owner:
            return Role.CLIP
        if name in ("clamp_", "clip_") and "grad" in dotted(func).split("."):
            return Role.CLIP
        for effect in (Effect.BACKWARD, Effect.STEP, Effect.ZERO_GRAD):
            if effect in effects:
                return Role[effect.name]
        if Effect.FORWARD in effects and not unit.is_module_method:
            return Role.FORWARD
        for (method, kind), role in _METHODS.items():
            if name == method and (not kind or self.is_kind(owner, kind)):
                return role
        return None

    def _handed_on(self, call: cst.Call) -> list[cst.BaseExpression]:
        """Return the optimizers, scalers and schedulers that code gets which is not seen."""
        return [
            arg.value
            for arg in (call.args if is_unseen(self.evaluation.value(call.func)) else ())
            for kind in ("optimizer", "scaler", "scheduler")
            if self.is_kind(self.evaluation.value(arg.value), kind)
        ]

    def is_kind(self, value: Value, kind: str) -> bool:
        """Whether a value may be an "optimizer", a "scaler" ..."""
        return any(self.effects.kind(one) == kind for one in value)


def same(one: Member, other: Member) -> bool:
    """Whether two members are done to the same object, as far as is seen."""
    known = [{each for each in m.owner if getattr(each, "call", None)} for m in (one, other)]
    return bool(known[0] & known[1]) if all(known) else one.name == other.name
