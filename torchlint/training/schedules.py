"""Schedules of learning rates: what moves one on before its optimizer has stepped, or too seldom.

The order is that of the calls from where the code starts: a module, or a function or method that
nobody is seen to call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.tables.torch_classes import SCHEDULERS
from torchlint.semantics.values import Instance, Nothing, Object
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


def moves(steps: Steps, file: int) -> Iterator[tuple[cst.Call, Value]]:
    """Yield the calls of a file that move a schedule on to its next step, and the schedule."""
    for call in steps.evaluation.index(file).of(cst.Call):
        if last_name(call.func) == "step" and not call.args:
            value = steps.evaluation.value(getattr(call.func, "value", None))
            is_optimizer = steps.is_kind(value, "optimizer")
            if not is_optimizer and any(_is_scheduler(steps, one) for one in value):
                yield call, value


def _is_scheduler(steps: Steps, one: Alternative) -> bool:
    classes = steps.evaluation.classes
    if isinstance(one, Instance) and classes.method(one.cls, "step") is not None:
        return False
    is_plateau = isinstance(one, Object) and one.kind == PLATEAU
    return not is_plateau and steps.effects.kind(one) == "scheduler"


# -- too early --------------------------------------------------------------------------------


def is_early(steps: Steps, call: cst.Call, value: Value, file: int) -> bool | None:
    """Whether a call comes before the first step of the optimizer, None if perhaps."""
    evaluation = steps.evaluation
    ways = leading_to(evaluation, call, file)
    starts = {unit.at: unit.node for unit, _ in ways if not unit.callers}
    found = [_is_first(steps.region(node, at.file), steps, call) for at, node in starts.items()]
    sets_count = any(  # `scheduler.last_epoch = start - 1`: the next step is meant to be the first
        isinstance(evaluation.index(at).parent(one), cst.AssignTarget)
        for one, at in evaluation.files.attributes("last_epoch")
    )
    if not found or False in found or sets_count:
        return False
    is_plain = all(
        isinstance(one, (Object, Nothing))
        or (isinstance(one, Instance) and evaluation.classes.method(one.cls, "get_lr") is None)
        for one in value
    )
    return True if is_plain and all(found) else None


def _is_first(region: Region, steps: Steps, call: cst.Call) -> bool | None:
    """Whether a schedule is moved on before its optimizer steps, None if perhaps."""
    members = region.members
    place = next((n for n, one in enumerate(members) if one.node is call), None)
    if place is None:
        return False
    move = members[place]
    known = bool(move.loops)
    for one in members[:place]:
        is_unseen = one.role is Role.UNSEEN and steps.is_kind(one.owner, "optimizer")
        if is_unseen or one.role is Role.STEP:
            if region.exclude(one, move) or _is_for(steps, move, one, region) is False:
                continue
            if not is_unseen or (move.loops and _is_within(one, move)):
                return False
            known = False
    for one in members[place:]:
        if one.role is Role.STEP and _is_within(one, move) and not region.exclude(one, move):
            mine = _is_for(steps, move, one, region)
            shared = [each.test for each in one.conditions]
            own = [each for each in move.conditions if each.test not in shared]
            if mine is not False:  # the first turn may do without the move
                is_sure = True if known and mine else None
                return False if any(is_open(steps.evaluation, each) for each in own) else is_sure
    return False


def _is_within(one: Member, move: Member) -> bool:
    """Whether a member runs in the turns of the loops around another."""
    return one.loops[: len(move.loops)] == move.loops


def _is_for(steps: Steps, move: Member, step: Member, region: Region) -> bool | None:
    """Whether a step is of the optimizer that a schedule is for, None where it may be."""
    evaluation = steps.evaluation
    calls = [call for at in _made(move.owner) if isinstance(call := evaluation.node(at), cst.Call)]
    given = [given_to(evaluation, one, ("optimizer",))[0].get("optimizer") for one in calls]
    mine = {at for one in given if one for at in _made(one.value)}
    if mine and _made(step.owner):
        return bool(mine & _made(step.owner))
    return None if all(same(one, step) for one in region.of(Role.STEP)) else False


def _made(value: Value) -> set[At]:
    return {call for one in value if (call := getattr(one, "call", None))}


# -- too seldom -------------------------------------------------------------------------------


def counts_batches(evaluation: Evaluation, value: Value) -> bool:
    """Whether a schedule certainly counts the batches of a loader: ``steps=len(loader)``."""
    schedules = [one for one in value if not isinstance(one, Nothing)]
    return bool(schedules) and all(_counts(evaluation, one) for one in schedules)


def _counts(evaluation: Evaluation, one: Alternative) -> bool:
    if not isinstance(one, Object) or not one.call or not one.kind.startswith(SCHEDULERS):
        return False
    args = getattr(evaluation.node(one.call), "args", ())
    return any(_has_length(evaluation, arg.value, one.call.file, 0) for arg in args)


def _has_length(evaluation: Evaluation, node: cst.CSTNode | None, file: int, depth: int) -> bool:
    """Whether the length of a loader goes into a number."""
    if node is None or depth > DEEPEST:
        return False
    index = evaluation.index(file)
    return any(
        evaluation.library(call.func) == "builtins.len"
        and evaluation.loader_of(evaluation.value(call.args[0].value)) is not None
        for call in index.below(node, cst.Call)
    ) or any(
        _has_length(evaluation, one.value, file, depth + 1)
        for name in index.below(node, cst.Name)
        for one in evaluation.bindings(name)
        if one.is_plain
    )
