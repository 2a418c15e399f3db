"""Trained: whether a model may be trained at all, or is only evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.values import Truth
from torchlint.training.effects import Effect, unit_around

if TYPE_CHECKING:
    from torchlint.semantics.values import At
    from torchlint.training.models import MethodCall, Uses


def may_be_trained(uses: Uses, made: At) -> bool:
    """Whether something may be trained: not where all that it is part of only evaluates."""
    modes = [
        _mode(uses, call)
        for one in uses.around(made)
        for call in uses.methods(one)
        if call.name == "train"
    ]
    return any(mode is not False for mode in modes) or not _evaluates(uses, made, ())


def _evaluates(uses: Uses, made: At, inside: tuple[At, ...]) -> bool:
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
    effects = uses.effects
    if not effects.train:
        return True
    unit = unit_around(uses.evaluation, call.node, call.file)
    order = unit.module.index.order
    return unit is unit_around(uses.evaluation, uses.evaluation.node(made), made.file) and not any(
        order(site.node) < order(call.node)
        and any(Effect.BACKWARD in each for each in effects.of_site(site))
        for site in effects.sites[unit.at]
    )
