"""Schedules of learning rates: what moves one on before its optimizer has stepped, or too seldom.

The order is that of the calls from where the code starts: a module, or a function or method that
nobody is seen to call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.tables.torch_classes import SCHEDULERS
from torchlint.semantics.values import Instance, Library, Nothing, Object, Unknown
from torchlint.training.effects import unit_around
from torchlint.training.options import varying
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.steps import Member, Region, Steps

PLATEAU = f"{SCHEDULERS}ReduceLROnPlateau"
DEEPEST = 4  # names that stand for another expression
# The parameters of schedules, in their order, and those that count steps of the schedule.
COUNTED = {
    "OneCycleLR": (("optimizer", "max_lr", "total_steps", "epochs", "steps_per_epoch"),
                   ("total_steps", "steps_per_epoch")),
    "CyclicLR": (("optimizer", "base_lr", "max_lr", "step_size_up", "step_size_down"),
                 ("step_size_up", "step_size_down")),
    "CosineAnnealingLR": (("optimizer", "T_max"), ("T_max",)),
    "CosineAnnealingWarmRestarts": (("optimizer", "T_0"), ("T_0",)),
    "LinearLR": (("optimizer", "start_factor", "end_factor", "total_iters"), ("total_iters",)),
    "PolynomialLR": (("optimizer", "total_iters"), ("total_iters",)),
    "StepLR": (("optimizer", "step_size"), ("step_size",)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Early:
    """A schedule that is moved on before its optimizer: in the same loop as that, or around it."""

    in_step: bool
    known: bool  # whether that is so for certain


@dataclass(slots=True, eq=False)
class Schedules:
    """The calls of connected files that move schedules on."""

    steps: Steps
    _regions: dict[At, Region] = field(default_factory=dict)

    @property
    def evaluation(self) -> Evaluation:
        """The values of the files."""
        return self.steps.evaluation

    def moves(self, file: int) -> Iterator[cst.Call]:
        """Yield the calls of a file that move a schedule on to its next step, in their order."""
        for call in self.evaluation.index(file).of(cst.Call):
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value == "step" and not call.args:
                value = self.evaluation.value(func.value)
                if any(self._is_scheduler(one) for one in value) and not any(
                    self.steps.frequencies.effects.kind(one) == "optimizer" for one in value
                ):
                    yield call

    def _is_scheduler(self, one: Alternative) -> bool:
        classes = self.evaluation.classes
        if isinstance(one, Instance) and classes.method(one.cls, "step") is not None:
            return False
        is_plateau = isinstance(one, Object) and one.kind == PLATEAU
        return not is_plateau and self.steps.frequencies.effects.kind(one) == "scheduler"

    # -- too early ----------------------------------------------------------------------------

    def early(self, call: cst.Call, file: int) -> Early | None:
        """Return how a call comes before the first step of the optimizer, None if it does not."""
        found = [self._early_from(one, call) for one in self._entries(call, file)]
        seen = [one for one in found if one is not None]
        if not seen or any(self._sets_count()):
            return None
        known = len(seen) == len(found) and all(one.known for one in seen)
        return Early(seen[0].in_step, known and self._is_plain(call))

    def _entries(self, call: cst.Call, file: int) -> list[Unit]:
        """Return where the code starts that leads to a call."""
        around = unit_around(self.evaluation, call, file)
        entries: list[Unit] = []
        seen, open_ = {around.at}, [around]
        while open_:
            unit = open_.pop()
            callers = [one for one, _ in unit.callers.values()]
            entries += [] if callers else [unit]
            for one in callers:
                if one.at not in seen:
                    seen.add(one.at)
                    open_.append(one)
        return sorted(entries, key=lambda one: one.at)

    def _early_from(self, entry: Unit, call: cst.Call) -> Early | None:
        region = self._regions.get(entry.at)
        if region is None:
            region = self._regions[entry.at] = self.steps.region(entry.node, entry.at.file)
        members = region.members
        place = next((n for n, one in enumerate(members) if one.node is call), None)
        if place is None:
            return None
        move, around = members[place], region.loops(members[place])
        known = bool(around)
        for one in members[:place]:
            if one.role in {Role.STEP, Role.UNSEEN} and not region.exclude(one, move):
                moved = self._is_for(move, one, region)
                if moved is False or (one.role is Role.UNSEEN and not self._gets_optimizer(one)):
                    continue
                if one.role is Role.STEP or (around and around[-1] in region.loops(one)):
                    return None
                known = False
        for one in members[place:]:
            inside = region.loops(one)
            if one.role is Role.STEP and inside[: len(around)] == around:
                moved = self._is_for(move, one, region)
                if moved is not False and not region.exclude(one, move):
                    first = self._runs_first(region, move, one)
                    is_sure = known and bool(first and moved)
                    return None if first is None else Early(inside == around, is_sure)
        return None

    def _gets_optimizer(self, one: Member) -> bool:
        return any(self.steps.frequencies.effects.kind(each) == "optimizer" for each in one.owner)

    def _is_for(self, move: Member, step: Member, region: Region) -> bool | None:
        """Whether a step is of the optimizer that a schedule is for, None where it may be."""
        mine = {at for one in move.owner for at in self._optimizers(one)}
        yours = {one.call for one in step.owner if isinstance(one, (Object, Instance)) if one.call}
        if mine and yours:
            return bool(mine & yours)
        only = all(same(one, step) for one in region.of(Role.STEP))
        return None if only else False

    def _optimizers(self, one: Alternative) -> Iterator[At]:
        if isinstance(one, (Object, Instance)) and one.call is not None:
            call = self.evaluation.node(one.call)
            assert isinstance(call, cst.Call)
            given = given_to(self.evaluation, call, ("optimizer",))[0].get("optimizer")
            for each in given.value if given else ():
                if isinstance(each, (Object, Instance)) and each.call is not None:
                    yield each.call

    def _is_plain(self, call: cst.Call) -> bool:
        """Whether a schedule is one of a library, whatever way leads to it."""
        assert isinstance(call.func, cst.Attribute)
        value = self.evaluation.value(call.func.value)
        return all(
            isinstance(one, (Object, Nothing))
            or (isinstance(one, Instance) and self._counts_on(one))
            for one in value
        )

    def _counts_on(self, one: Instance) -> bool:
        """Whether a class of the project has its rates from torch, or its own do not begin at 0.

        ``rate * self.last_epoch / steps`` does: its first rate may be left out on purpose.
        """
        found = self.evaluation.classes.method(one.cls, "get_lr")
        if found is None:
            return True
        index = self.evaluation.index(found[0].at.file)
        reads = [a for a in index.below(found[1], cst.Attribute) if a.attr.value == "last_epoch"]
        return bool(reads) and all(
            (
                isinstance(index.parent(read), cst.BinaryOperation)
                and isinstance(getattr(index.parent(read), "operator", None), cst.Add)
            )
            or any(
                isinstance(above, cst.BinaryOperation)
                and isinstance(above.operator, cst.Power)
                and index.inside(read, above.right)
                for above in index.ancestors(read)
            )
            for read in reads
        )

    def _sets_count(self) -> Iterator[bool]:
        """``scheduler.last_epoch = start - 1``: the next step is meant to be the first."""
        for module in self.evaluation.files.modules:
            for name in module.index.named.get("last_epoch", ()):
                above = module.parent(name)
                if isinstance(above, cst.Attribute) and above.attr is name:
                    value = self.evaluation.value(above.value)
                    is_self = isinstance(above.value, cst.Name) and above.value.value == "self"
                    if isinstance(module.parent(above), cst.AssignTarget) and not is_self:
                        yield any(map(self._is_scheduler, value))

    def _runs_first(self, region: Region, move: Member, step: Member) -> bool | None:
        """Whether a schedule is moved on in the first turn in which the optimizer steps.

        True where nothing but options decides, None where the turn may, False where it is not seen.
        """
        shared = [one.test for one in region.conditions(step)]
        found = varying(self.evaluation, move.path, shared)
        return None if found is True else found is False

    # -- too seldom ---------------------------------------------------------------------------

    def counts_batches(self, value: Value) -> bool:
        """Whether a schedule certainly counts the batches of a loader: ``steps=len(loader)``."""
        made = [one for one in value if not isinstance(one, Nothing)]
        return bool(made) and all(isinstance(o, Object) and self._counts(o) for o in made)

    def _counts(self, one: Object) -> bool:
        kind = one.kind.removeprefix(SCHEDULERS)
        if kind not in COUNTED or one.call is None:
            return False
        names, counted = COUNTED[kind]
        call = self.evaluation.node(one.call)
        assert isinstance(call, cst.Call)
        given, _ = given_to(self.evaluation, call, names)
        nodes = [arg.node for name in counted if (arg := given.get(name)) and arg.node]
        return any(self._has_length(node, one.call.file, 0) for node in nodes)

    def _has_length(self, node: cst.BaseExpression, file: int, depth: int) -> bool:
        """Whether the length of a loader goes into a number."""
        index, values = self.evaluation.index(file), self.evaluation.values
        for call in index.below(node, cst.Call):
            is_len = values.get(id(call.func), ()) == (Library("builtins.len"),)
            length_of = values.get(id(call.args[0].value), ()) if is_len and call.args else ()
            if self.evaluation.loader_of(length_of) is not None:
                return True
        for name in index.below(node, cst.Name) if depth < DEEPEST else ():
            owner = index.scope(name).owner(name.value)
            for one in owner.bindings[name.value] if owner else ():
                value = one.value if one.is_plain else None
                if isinstance(value, cst.BaseExpression) and self._has_length(
                    value, file, depth + 1
                ):
                    return True
        return False

    def is_alone(self, call: cst.Call, value: Value) -> bool:
        """Whether nothing else is seen to move a schedule on, or gets it and may do so."""
        mine = {one for one in value if isinstance(one, Object)}
        return not any(
            other is not call and self._may_move(other, mine)
            for module in self.evaluation.files.modules
            for other in module.index.of(cst.Call)
        )

    def _may_move(self, call: cst.Call, mine: set[Object]) -> bool:
        values, func = self.evaluation.values, call.func
        match func:
            case cst.Attribute(value=owner, attr=cst.Name("step")) if mine & {
                *values.get(id(owner), ())
            }:
                return True
        called = values.get(id(func), ())
        is_unseen = not called or any(isinstance(one, Unknown) for one in called)
        return is_unseen and any(mine & {*values.get(id(arg.value), ())} for arg in call.args)
