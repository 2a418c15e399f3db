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
from torchlint.semantics.values import Instance, Nothing, Object, Unknown
from torchlint.syntax.calls import last_name
from torchlint.training.effects import leading_to
from torchlint.training.guards import is_open
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.steps import Member, Region, Steps

PLATEAU = f"{SCHEDULERS}ReduceLROnPlateau"
DEEPEST = 4  # names that stand for another expression


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

    def moves(self, file: int) -> Iterator[tuple[cst.Call, Value]]:
        """Yield the calls of a file that move a schedule on to its next step, and the schedule."""
        for call in self.evaluation.index(file).of(cst.Call):
            if last_name(call.func) == "step" and not call.args:
                value = self.evaluation.value(getattr(call.func, "value", None))
                is_optimizer = self.steps.is_kind(value, "optimizer")
                if any(map(self._is_scheduler, value)) and not is_optimizer:
                    yield call, value

    def _is_scheduler(self, one: Alternative) -> bool:
        classes = self.evaluation.classes
        if isinstance(one, Instance) and classes.method(one.cls, "step") is not None:
            return False
        is_plateau = isinstance(one, Object) and one.kind == PLATEAU
        return not is_plateau and self.steps.effects.kind(one) == "scheduler"

    # -- too early ----------------------------------------------------------------------------

    def early(self, call: cst.Call, value: Value, file: int) -> Early | None:
        """Return how a call comes before the first step of the optimizer, None if it does not."""
        starts = {one.at: one.node for one, _ in leading_to(self.evaluation, call, file)
                  if not one.callers}  # fmt: skip
        found = [self._early_from(at, node, call) for at, node in sorted(starts.items())]
        if not found or None in found or self._sets_count():
            return None
        known = all(one.known for one in found if one) and all(map(self._is_plain, value))
        return Early(any(one.in_step for one in found if one), known)

    def _early_from(self, at: At, start: cst.CSTNode, call: cst.Call) -> Early | None:
        region = self._regions.get(at)
        if region is None:
            region = self._regions[at] = self.steps.region(start, at.file)
        members = region.members
        place = next((n for n, one in enumerate(members) if one.node is call), None)
        if place is None:
            return None
        move = members[place]
        around, known = move.loops, bool(move.loops)
        for one in members[:place]:
            if region.exclude(one, move) or self._is_for(move, one, region) is False:
                continue
            is_unseen = one.role is Role.UNSEEN and self.steps.is_kind(one.owner, "optimizer")
            if one.role is Role.STEP or (is_unseen and one.loops[: len(around)] == around != ()):
                return None
            known = known and not is_unseen
        for one in members[place:]:
            is_inside = one.role is Role.STEP and one.loops[: len(around)] == around
            mine = is_inside and not region.exclude(one, move) and self._is_for(move, one, region)
            if mine is not False:
                shared = [each.test for each in one.conditions]
                own = [each for each in move.conditions if each.test not in shared]
                if any(is_open(self.evaluation, each) for each in own):
                    return None  # the first turn may do without it
                return Early(one.loops == around, known and bool(mine))
        return None

    def _is_for(self, move: Member, step: Member, region: Region) -> bool | None:
        """Whether a step is of the optimizer that a schedule is for, None where it may be."""
        mine = {at for one in move.owner for at in self._optimizers(one)}
        yours = {call for one in step.owner if (call := getattr(one, "call", None))}
        if mine and yours:
            return bool(mine & yours)
        return None if all(same(one, step) for one in region.of(Role.STEP)) else False

    def _optimizers(self, one: Alternative) -> Iterator[At]:
        at = getattr(one, "call", None)
        made = self.evaluation.node(at) if at else None
        args = (
            given_to(self.evaluation, made, ("optimizer",))[0] if isinstance(made, cst.Call) else {}
        )
        for each in args["optimizer"].value if "optimizer" in args else ():
            if call := getattr(each, "call", None):
                yield call

    def _is_plain(self, one: Alternative) -> bool:
        """Whether a schedule is one of a library, or has its rates from one."""
        if isinstance(one, Instance):
            return self.evaluation.classes.method(one.cls, "get_lr") is None
        return isinstance(one, (Object, Nothing))

    def _sets_count(self) -> bool:
        """``scheduler.last_epoch = start - 1``: the next step is meant to be the first."""
        return any(
            isinstance(module.parent(module.parent(name) or name), cst.AssignTarget)
            for module in self.evaluation.files.modules
            for name in module.index.named.get("last_epoch", ())
        )

    # -- too seldom ---------------------------------------------------------------------------

    def counts_batches(self, value: Value) -> bool:
        """Whether a schedule certainly counts the batches of a loader: ``steps=len(loader)``."""
        schedules = [one for one in value if not isinstance(one, Nothing)]
        return bool(schedules) and all(map(self._counts, schedules))

    def _counts(self, one: Alternative) -> bool:
        at = one.call if isinstance(one, Object) and one.kind.startswith(SCHEDULERS) else None
        call = self.evaluation.node(at) if at else None
        args = call.args if isinstance(call, cst.Call) else ()
        return any(self._has_length(arg.value, at.file, 0) for arg in args) if at else False

    def _has_length(self, node: cst.CSTNode | None, file: int, depth: int) -> bool:
        """Whether the length of a loader goes into a number."""
        if node is None or depth > DEEPEST:
            return False
        index, evaluation = self.evaluation.index(file), self.evaluation
        return any(
            evaluation.library(call.func) == "builtins.len"
            and evaluation.loader_of(evaluation.value(call.args[0].value)) is not None
            for call in index.below(node, cst.Call)
        ) or any(
            self._has_length(one.value, file, depth + 1)
            for name in index.below(node, cst.Name)
            for one in evaluation.bindings(name)
            if one.is_plain
        )

    def is_alone(self, call: cst.Call, value: Value) -> bool:
        """Whether nothing else is seen to move a schedule on, or gets it and may do so."""
        mine = {one for one in value if isinstance(one, Object)}
        return not any(
            other is not call and self._may_move(other, mine)
            for module in self.evaluation.files.modules
            for other in module.index.of(cst.Call)
        )

    def _may_move(self, call: cst.Call, mine: set[Object]) -> bool:
        value, func = self.evaluation.value, call.func
        if last_name(func) == "step" and mine & {*value(getattr(func, "value", None))}:
            return True
        is_unseen = not value(func) or any(isinstance(one, Unknown) for one in value(func))
        return is_unseen and any(mine & {*value(arg.value)} for arg in call.args)
