"""Training steps: the turn of a loop, or a function, that goes back and lets an optimizer step.

The members of a step are the calls that matter to training, in the order in which they run, through
the functions that the step calls.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Library, Unknown
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted
from torchlint.training.between import conditions, loops
from torchlint.training.effects import Effect, unit_around
from torchlint.training.frequency import Rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.between import Condition
    from torchlint.training.effects import CallSite, Effects
    from torchlint.training.frequency import Frequencies

DEEPEST = 5  # calls from the step
CLIPS = frozenset(
    f"torch.nn.utils.{module}clip_grad_{what}"
    for module in ("", "clip_grad.")
    for what in ("norm", "norm_", "value_")
)


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


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A call that matters in a step.

    ``owner`` is whose method it is: of `scaler.step(optimizer)` the optimizer, and ``by`` is the
    scaler.  ``path`` has the calls that lead to it, from the step inwards, itself last.
    """

    role: Role
    node: cst.Call
    file: int
    owner: Value
    name: tuple[At, str]  # how its function speaks of the owner
    by: Value
    path: tuple[tuple[int, cst.Call], ...]


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

    def is_kind(self, value: Value, kind: str) -> bool:
        """Whether a value may be an "optimizer", a "scaler" ..."""
        return any(self.effects.kind(one) == kind for one in value)

    def exclude(self, one: Member, other: Member) -> bool:
        """Whether two members are under a condition and its contrary."""
        return any(
            mine.truth is not yours.truth and self._is_same(mine, yours)
            for mine in self.conditions(one)
            for yours in self.conditions(other)
        )

    def _is_same(self, one: Condition, other: Condition) -> bool:
        if one.test is other.test or one.file != other.file:
            return one.test is other.test
        module = self.evaluation.module(one.file)
        return module.code(one.test) == module.code(other.test)

    def of(self, *roles: Role) -> list[Member]:
        """Return the members of some roles."""
        return [one for one in self.members if one.role in roles]

    def conditions(self, member: Member) -> list[Condition]:
        """Return the conditions under which a member runs, from the outside in."""
        found: list[Condition] = []
        for place, (file, call) in enumerate(member.path):
            outer = self._outer(place, file, call)
            found += conditions(self.evaluation, call, outer, file)
        return found

    def loops(self, member: Member) -> list[tuple[int, cst.CSTNode]]:
        """Return the loops between the region and a member, from the outside in."""
        found: list[tuple[int, cst.CSTNode]] = []
        for place, (file, call) in enumerate(member.path):
            outer = self._outer(place, file, call)
            found += [(file, loop) for loop in loops(self.evaluation, call, outer, file)]
        return found

    def _outer(self, place: int, file: int, call: cst.Call) -> cst.CSTNode:
        return unit_around(self.evaluation, call, file).node if place else self.node

    def ways_to(self, file: int) -> list[cst.CSTNode]:
        """Return the step and the calls that lead to it, where they stand in a file."""
        found, units = (
            [(self.file, self.node)],
            [unit_around(self.evaluation, self.node, self.file)],
        )
        for unit in units:
            for caller, call in unit.callers.values():
                found.append((caller.at.file, call))
                units += [caller] if caller not in units else []
        return [node for home, node in found if home == file]

    @cached_property
    def touches_gradients(self) -> bool:
        """Whether its code reads or changes ``.grad`` by hand."""
        for file, scope in self.scopes:
            index = self.evaluation.index(file)
            for name in index.named.get("grad", ()):
                above = index.parent(name)
                if isinstance(above, cst.Attribute) and above.attr is name:
                    value = self.evaluation.value(above)
                    is_library = any(isinstance(one, Library) for one in value)
                    if not is_library and index.inside(name, scope):
                        return True
        return False


@dataclass(slots=True, eq=False)
class Steps:
    """The training steps of connected files."""

    frequencies: Frequencies
    _called: dict[int, list[At]] = field(default_factory=dict)
    _found: list[Region] | None = None

    def __post_init__(self) -> None:
        for unit in self.evaluation.units.values():
            for _, call in unit.callers.values():
                self._called.setdefault(id(call), []).append(unit.at)

    @property
    def evaluation(self) -> Evaluation:
        """The values of the files."""
        return self.frequencies.evaluation

    def __iter__(self) -> Iterator[Region]:
        """Yield the steps: loops that are in no other step, and functions that nobody calls."""
        if self._found is None:
            self._found = list(self._steps())
        yield from self._found

    def _steps(self) -> Iterator[Region]:
        frequencies = self.frequencies
        for at in frequencies.loops:
            if frequencies.rate_of(at) is Rate.STEP:
                node = self.evaluation.node(at)
                around = frequencies.of(node, at.file)
                if around.rate is not Rate.STEP or not around.ways[0].known:
                    yield self.region(node, at.file)
        for unit in self.evaluation.units.values():
            ways = () if unit.callers else frequencies.of_unit(unit)
            if not unit.callers and self._accumulates(unit):
                yield self.region(unit.node, unit.at.file)
            elif any(way.rate is Rate.STEP for way in ways):
                region = self.region(unit.node, unit.at.file)
                if any(not region.loops(one) for one in region.of(Role.BACKWARD)):
                    yield region

    def _accumulates(self, unit: Unit) -> bool:
        """Whether a function goes back in a loop and lets an optimizer step outside of loops."""
        direct, inner = (each[unit.at] for each in (self.frequencies.effects.direct,
                                                    self.frequencies.effects.inner))  # fmt: skip
        is_function = isinstance(unit.node, cst.FunctionDef)
        steps_once = Effect.STEP in direct and Effect.STEP not in inner
        return is_function and steps_once and Effect.BACKWARD in inner - direct

    def region(self, node: cst.CSTNode, file: int) -> Region:
        """Return what runs in a turn of a loop, a function or a module."""
        is_scope = isinstance(node, (cst.FunctionDef, cst.Lambda, cst.Module))
        unit = self.evaluation.units[self.evaluation.at(node, file)] if is_scope else None
        unit = unit or unit_around(self.evaluation, node, file)
        scopes: dict[int, tuple[int, cst.CSTNode]] = {id(node): (file, node)}
        members = self._members(unit, None if is_scope else node, (), scopes)
        return Region(self.frequencies.effects, node, file, tuple(members), tuple(scopes.values()))

    def _members(
        self,
        unit: Unit,
        loop: cst.CSTNode | None,
        path: tuple[tuple[int, cst.Call], ...],
        scopes: dict[int, tuple[int, cst.CSTNode]],
    ) -> Iterator[Member]:
        file = unit.at.file
        sites = self.frequencies.effects.sites[unit.at]
        inside = [one for one in sites if loop is None or any(each is loop for each in one.loops)]
        for site in self._in_order(inside, file):
            here = (*path, (file, site.node))
            targets = [*site.targets]
            targets += [at for at in self._called.get(id(site.node), ()) if at not in targets]
            member = self._member(unit, site, here, is_seen=bool(targets))
            for target in targets if len(here) <= DEEPEST else ():
                inner = self.evaluation.units.get(target)
                around = (unit_around(self.evaluation, one, at) for at, one in here)
                if inner is not None and all(one is not inner for one in around):
                    scopes.setdefault(id(inner.node), (target.file, inner.node))
                    yield from self._members(inner, None, here, scopes)
            if member is not None:
                yield member

    def _in_order(self, sites: Sequence[CallSite], file: int) -> Iterator[CallSite]:
        """Yield calls in the order in which they end: arguments before what gets them."""
        index = self.evaluation.index(file)
        open_: list[CallSite] = []
        for site in sorted(sites, key=lambda one: index.order(one.node)):
            while open_ and not index.inside(site.node, open_[-1].node):
                yield open_.pop()
            open_.append(site)
        yield from reversed(open_)

    def _member(
        self, unit: Unit, site: CallSite, path: tuple[tuple[int, cst.Call], ...], *, is_seen: bool
    ) -> Member | None:
        call, evaluation = site.node, self.evaluation
        func = call.func
        receiver = func.value if isinstance(func, cst.Attribute) else func
        owner = evaluation.value(receiver)
        by: Value = ()
        role = self._role(site, owner, is_module_method=unit.is_module_method)
        is_by_scaler = role is Role.STEP and not self._is(owner, "optimizer")
        if call.args and (is_by_scaler or role is Role.UNSCALE):
            by, receiver = owner, call.args[0].value
            owner = evaluation.value(receiver)
        if role is Role.FORWARD:
            receiver = func
            owner = evaluation.value(func)
        if role is None and not is_seen:
            role, owner = self._handed_on(call)
        if role is None:
            return None
        name = unit.at, dotted(receiver)
        return Member(role, call, unit.at.file, owner, name, by, path)

    def _role(self, site: CallSite, owner: Value, *, is_module_method: bool) -> Role | None:
        func = site.node.func
        value = self.evaluation.value(func)
        name = last_name(func)
        if any(isinstance(one, Library) and one.name in CLIPS for one in value):
            return Role.CLIP
        if name in ("clip_grad_norm_", "clip_grad_value_") and owner:
            return Role.CLIP
        if name in ("clamp_", "clip_") and isinstance(func, cst.Attribute):
            inner = func.value
            while isinstance(inner, cst.Attribute) and inner.attr.value == "data":
                inner = inner.value
            if last_name(inner) == "grad":
                return Role.CLIP
        if Effect.BACKWARD in site.effects:
            return Role.BACKWARD
        if Effect.STEP in site.effects:
            return Role.STEP
        if Effect.ZERO_GRAD in site.effects or (name == "zero_grad" and not site.targets):
            return Role.ZERO_GRAD
        if Effect.FORWARD in site.effects and not is_module_method:
            return Role.FORWARD
        if name == "unscale_":
            return Role.UNSCALE
        if name == "update" and self._is(owner, "scaler"):
            return Role.UPDATE
        return Role.SCHEDULE if name == "step" and self._is(owner, "scheduler") else None

    def _handed_on(self, call: cst.Call) -> tuple[Role | None, Value]:
        value = self.evaluation.value(call.func)
        if value and not any(_is_unseen(one) for one in value):
            return None, ()
        for arg in call.args:
            given = self.evaluation.value(arg.value)
            if any(self._is(given, kind) for kind in ("optimizer", "scaler", "scheduler")):
                return Role.UNSEEN, given
        return None, ()

    def _is(self, value: Value, kind: str) -> bool:
        return any(self.frequencies.effects.kind(one) == kind for one in value)


def _is_unseen(one: Alternative) -> bool:
    """Whether calling something runs code that is not seen, and no code of torch."""
    if isinstance(one, Library):
        return not one.name.startswith(("torch.", "builtins.")) and not kind_of(one.name)
    return isinstance(one, Unknown)


def same(one: Member, other: Member) -> bool:
    """Whether two members are done to the same object, as far as is seen."""
    known = [_known(one.owner), _known(other.owner)]
    if all(known):
        return bool(set(known[0]) & set(known[1]))
    return one.name == other.name


def _known(value: Value) -> list[Alternative]:
    return [one for one in value if getattr(one, "call", None) is not None]
