"""Trained: whether a model may be trained at all, or is only evaluated."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Instance, Method, Truth
from torchlint.syntax.calls import last_name
from torchlint.training.effects import Effect, unit_around
from torchlint.training.models import MethodCall

if TYPE_CHECKING:
    from torchlint.semantics.values import At
    from torchlint.training.models import Uses


class Trained(enum.Enum):
    """Whether a model is trained: it may be, or it is put into evaluation where it is made."""

    MAYBE = enum.auto()
    NO = enum.auto()


def trained(uses: Uses, made: At) -> Trained:
    """Whether something may be trained: NO where all that it is part of only evaluates."""
    whole = uses.around(made)
    calls = [call for one in whole for call in uses.methods(one) if call.name == "train"]
    if any(_mode(uses, call) is not False for call in calls):
        return Trained.MAYBE
    return Trained.NO if _evaluates(uses, made, ()) else Trained.MAYBE


def _stays_in_evaluation(uses: Uses, made: At) -> bool:
    """``def train(uses: Uses, mode=True): return super().train(False)``."""
    classes = uses.evaluation.classes
    node = uses.evaluation.node(made)
    made_here = uses.value(node) if isinstance(node, cst.Call) else ()
    owners = [made, *(one.cls for one in made_here if isinstance(one, Instance))]
    for home, function in filter(None, (classes.method(one, "train") for one in owners)):
        calls = [
            call
            for call in home.module.index.below(function, cst.Call)
            for each in uses.value(call.func)
            if isinstance(each, Method) and getattr(each.owner, "kind", "") == "super"
        ]
        blocks = {id(home.module.parent(home.module.statement(call))) for call in calls}
        takes_mode = len(function.params.params) > 1
        modes = {_told(uses, call) for call in calls}
        if takes_mode and modes == {False} and blocks == {id(function.body)}:
            return True
    return False


def _told(uses: Uses, call: cst.Call) -> bool | None:
    name = last_name(call.func)
    return False if name == "eval" else _mode(uses, MethodCall(name, call, 0))


def _evaluates(uses: Uses, made: At, inside: tuple[At, ...]) -> bool:
    if _stays_in_evaluation(uses, made):
        return True
    for call in uses.methods(made):
        sets = call.name == "eval" or (call.name == "train" and _mode(uses, call) is False)
        if sets and _before_training(uses, call, made):
            return True
    holders = [one for one in uses.holders(made) if one not in inside]
    return bool(holders) and all(_evaluates(uses, one, (*inside, made)) for one in holders)


def _mode(uses: Uses, call: MethodCall) -> bool | None:
    """Return what ``train(mode)`` is told; True where it is told nothing."""
    match [uses.value(arg.value) for arg in call.node.args]:
        case []:
            return True
        case [(Truth(value=mode),)]:
            return mode
    return None


def _before_training(uses: Uses, call: MethodCall, made: At) -> bool:
    """Whether a mode is set before anything trains, where the model is made."""
    backward = Effect.BACKWARD
    if not any(
        backward in uses.effects.direct[at] or backward in uses.effects.inner[at]
        for at in uses.effects.direct
    ):
        return True
    unit = unit_around(uses.evaluation, call.node, call.file)
    making = unit_around(uses.evaluation, uses.evaluation.node(made), made.file)
    if unit is not making:
        return False
    order = unit.module.index.order
    return not any(
        order(site.node) < order(call.node)
        and backward in frozenset[Effect]().union(*uses.effects.of_site(site))
        for site in uses.effects.sites[unit.at]
    )
