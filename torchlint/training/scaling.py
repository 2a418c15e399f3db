"""Gradients that a scaler has multiplied: which clipping meets them as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Instance, Object, Truth
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

    ``late`` is the ``unscale_`` that comes after the clipping, if there is one.  ``depth`` is how
    many calls the clipping and the step have in common.
    """

    region: Region
    clip: Member
    step: Member
    late: Member | None
    depth: int

    @property
    def place(self) -> tuple[int, cst.Call]:
        """The clipping, or the call that makes it, in the function that lets the scaler step."""
        return self.clip.path[self.depth]

    def at(self, member: Member) -> cst.Call | None:
        """Return where this function has a member, or calls what has it."""
        path, own = member.path, self.clip.path[: self.depth]
        if len(path) <= self.depth:
            return None
        pairs = zip(path, own, strict=False)
        return path[self.depth][1] if all(one[1] is other[1] for one, other in pairs) else None


def scaled_clips(steps: Steps) -> Iterator[ScaledClip]:
    """Yield what clips scaled gradients."""
    for region in steps:
        if not region.of(Role.CLIP) or _asks_for_the_scale(region):
            continue
        for place, clip in enumerate(region.members):
            if clip.role is Role.CLIP and _is_scaled(region, place):
                found = _found(region, place)
                if found is not None:
                    yield found


def scaler_of(region: Region, backward: Member) -> cst.BaseExpression | None:
    """Return the scaler of ``scaler.scale(loss).backward()``."""
    func = backward.node.func
    node: cst.CSTNode | None = func.value if isinstance(func, cst.Attribute) else None
    if isinstance(node, cst.Name):
        bindings = region.evaluation.bindings(node)
        node = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    match node:
        case cst.Call(func=cst.Attribute(value=scaler, attr=cst.Name("scale"))):
            value = region.evaluation.value(scaler)
            return scaler if region.is_kind(value, "scaler") else None
    return None


def _is_scaled(region: Region, place: int) -> bool:
    """Whether the gradients that a clipping meets are scaled."""
    clip = region.members[place]
    for one in reversed(region.members[:place]):
        if one.role is Role.BACKWARD and not region.exclude(one, clip):
            scaler = scaler_of(region, one)
            return scaler is not None and not _is_off(region, scaler, clip)
        if one.role in (Role.UNSCALE, Role.UNSEEN) or (one.role is Role.STEP and one.by):
            return False
    return False


def _found(region: Region, place: int) -> ScaledClip | None:
    clip, late = region.members[place], None
    for one in region.members[place + 1 :]:
        if one.role is Role.UNSCALE:
            late = one
        elif one.role is Role.BACKWARD:
            return None
        elif one.role is Role.STEP and one.by and not region.exclude(one, clip):
            pairs = list(zip(clip.path, one.path, strict=False))
            depth = next((n for n, (a, b) in enumerate(pairs) if a[1] is not b[1]), 0)
            return ScaledClip(region, clip, one, late, depth)
    return None


def is_off(evaluation: Evaluation, value: Value) -> bool | None:
    """Whether a scaler is made with ``enabled=False``, None where an option says so by default."""
    answers = {_enabled(evaluation, one) for one in value}
    return None if len(answers) != 1 or None in answers else answers == {False}


def _enabled(evaluation: Evaluation, one: object) -> bool | None:
    """Return what a scaler is told, True where it is told nothing."""
    if not isinstance(one, (Object, Instance)):
        return True
    given = made(evaluation, one).get("enabled") if isinstance(one, Object) else None
    match given.value if given else ():
        case (Truth(value=bool(known), option=None),):
            return known
        case (Truth(value=False),):
            return None
    return True


def _is_off(region: Region, scaler: cst.BaseExpression, clip: Member) -> bool:
    """Whether a scaler does nothing where something is clipped: it is off, or off just then."""
    evaluation = region.evaluation
    value = evaluation.value(scaler)
    if is_off(evaluation, value):
        return True
    tests = region.conditions(clip)
    for one in value:
        given = made(evaluation, one).get("enabled") if isinstance(one, Object) else None
        if given is None or given.node is None or one.call is None:  # type: ignore[union-attr]
            continue
        module = evaluation.module(one.call.file)  # type: ignore[union-attr]
        wanted = module.code(given.node)
        for test in tests:
            node, truth = test.test, test.truth
            while isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
                node, truth = node.expression, not truth
            if not truth and evaluation.module(test.file).code(node) == wanted:
                return True
    return False


def _asks_for_the_scale(region: Region) -> bool:
    """Whether code of the region reads the scale: gradients or limits may be changed by it."""
    for file, scope in region.scopes:
        index = region.evaluation.index(file)
        if any(index.inside(name, scope) for name in index.named.get("get_scale", ())):
            return True
    return False
