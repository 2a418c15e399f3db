"""Gradients that a scaler has multiplied: which clipping meets them as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Object, Truth
from torchlint.training.optimizers import made
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.training.steps import Member, Region, Steps


@dataclass(frozen=True, slots=True, eq=False)
class ScaledClip:
    """Gradients are clipped after the loss was scaled and before the step, still scaled.

    ``place`` is the clipping, or the call that makes it, in the function that lets the scaler
    step; ``after`` has what this function does itself from there on, the step and a late
    ``unscale_`` included.
    """

    place: cst.Call
    step: Member
    after: tuple[Member, ...]

    @property
    def late(self) -> Member | None:
        """The ``unscale_`` between the clipping and the step."""
        before = self.after[: self.after.index(self.step)]
        return next((one for one in before if one.role is Role.UNSCALE), None)


def scaled_clips(steps: Steps) -> Iterator[ScaledClip]:
    """Yield what clips scaled gradients."""
    for region in steps:
        members = region.members
        for place, clip in enumerate(members):
            step = _step_after(region, place) if clip.role is Role.CLIP else None
            # who asks for the scale may change gradients or limits by it
            if step and _is_scaled(region, place) and not any(region.speaks_of("get_scale")):
                outer = step.path[:-1]
                after = tuple(one for one in members[place:] if one.path[:-1] == outer)
                if clip.path[: len(outer)] == outer:
                    yield ScaledClip(clip.path[len(outer)], step, after)


def _is_scaled(region: Region, place: int) -> bool:
    """Whether the gradients that a clipping meets are scaled."""
    clip = region.members[place]
    for one in reversed(region.members[:place]):
        if one.role is Role.BACKWARD and not region.exclude(one, clip):
            scaler = _scaler_of(region, one)
            return scaler is not None and not _is_off(region, scaler, clip)
        if one.role in (Role.UNSCALE, Role.UNSEEN) or (one.role is Role.STEP and one.by):
            return False
    return False


def _scaler_of(region: Region, backward: Member) -> Value | None:
    """Return the scaler of ``scaler.scale(loss).backward()``."""
    func = backward.node.func
    node: cst.CSTNode | None = func.value if isinstance(func, cst.Attribute) else None
    if isinstance(node, cst.Name):
        bindings = region.evaluation.bindings(node)
        node = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    match node:
        case cst.Call(func=cst.Attribute(value=scaler, attr=cst.Name("scale"))):
            value = region.evaluation.value(scaler)
            is_scaler = any(region.effects.kind(one) == "scaler" for one in value)
            return value if is_scaler else None
    return None


def _step_after(region: Region, place: int) -> Member | None:
    """Return the step of a scaler that gets what is clipped."""
    clip = region.members[place]
    for one in region.members[place + 1 :]:
        if one.role is Role.BACKWARD:
            return None
        if one.role is Role.STEP and one.by and not region.exclude(one, clip):
            return one
    return None


def is_off(evaluation: Evaluation, scaler: Value) -> bool | None:
    """Whether a scaler is made with ``enabled=False``, None where an option says so by default."""
    calls = [made(evaluation, one) if isinstance(one, Object) else {} for one in scaler]
    told = [one["enabled"].value if "enabled" in one else (Truth(True),) for one in calls]
    values = [each for value in told for each in value]
    if not values or any(getattr(one, "value", True) is not False for one in values):
        return False
    return None if any(isinstance(one, Truth) and one.option for one in values) else True


def _is_off(region: Region, scaler: Value, clip: Member) -> bool:
    """Whether a scaler does nothing where something is clipped: it is off, or off just then."""
    evaluation = region.evaluation
    asked = {
        evaluation.module(one.call.file).code(given.node)
        for one in scaler
        if isinstance(one, Object) and one.call
        if (given := made(evaluation, one).get("enabled")) and given.node
    }
    is_else = any(code in asked and not truth for _, code, truth in region.needs(clip))
    return is_else or bool(is_off(evaluation, scaler))
