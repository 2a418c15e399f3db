"""Gradient scalers: where a file scales the loss, unscales gradients, steps and updates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_METHODS = ("scale", "unscale_", "step", "update")
_ASKS_FOR_SCALING = re.compile(r"amp|fp16|half|scal|mixed|precision", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class ScalerCall:
    """One ``scaler.method(...)``; ``optimizer`` is the code of the first argument of a step."""

    call: cst.Call
    scaler: str
    method: str
    optimizer: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledClip:
    """Gradients are clipped after the loss was scaled and before the step, still scaled.

    ``late`` is the ``unscale_`` that comes after the clipping, if there is one.
    """

    clip: cst.Call
    step: ScalerCall
    late: ScalerCall | None


def _first(program: Program, call: cst.Call) -> str:
    return program.code(call.args[0].value) if call.args else ""


def clips(program: Program) -> Iterator[cst.Call]:
    """Yield calls that clip gradients: torch's, functions of the project, ``p.grad.clamp_()``."""
    for call in program.index.of(cst.Call):
        match call.func:
            case cst.Attribute(value=value, attr=cst.Name(value="clamp_" | "clip_")):
                if ".grad" in dotted(value):
                    yield call
            case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)) if "clip" in name:
                if program.qualified(call.func) in torch_api.CLIPS or _clips_itself(program, call):
                    yield call
            case _:
                pass


def _clips_itself(program: Program, call: cst.Call) -> bool:
    return any(
        other.qualified(inner.func) in torch_api.CLIPS
        or (
            isinstance(inner.func, cst.Attribute)
            and inner.func.attr.value in ("clamp_", "clip_")
            and ".grad" in dotted(inner.func.value)
        )
        for other, function in _run(program, call)
        for inner in other.index.below(function, cst.Call)
    )


def _run(program: Program, call: cst.Call) -> Iterator[tuple[Program, cst.FunctionDef]]:
    """Yield the function of this project that a call runs, with the program it belongs to."""
    function = program.calls.target(call)
    if function is not None:
        yield program, function
    elif (target := program.calls.elsewhere(call)) is not None:
        yield target.program, target.function


def scaled_clips(program: Program, calls: list[ScalerCall]) -> Iterator[ScaledClip]:
    """Find the first clipping of gradients that are still scaled, for each scaled loss."""
    steps = [one for one in calls if one.method == "step"]
    if not steps:
        return
    order = program.index.order
    candidates = sorted(clips(program), key=order)
    seen: set[int] = set()
    for step in steps:
        scale = _last_scale(program, calls, step)
        if scale is None or id(scale) in seen:
            continue
        for clip in candidates:
            if order(scale.call) < order(clip) < order(step.call) and _still_scaled(
                program, scale, clip, step
            ):
                seen.add(id(scale))
                yield ScaledClip(clip, step, _late(program, calls, clip, step))
                break


def _last_scale(program: Program, calls: list[ScalerCall], step: ScalerCall) -> ScalerCall | None:
    """Return the last loss that was scaled before a step, on the same path of one function."""
    order = program.index.order
    found = [
        one
        for one in calls
        if one.method == "scale"
        and one.scaler == step.scaler
        and order(one.call) < order(step.call)
        and program.function(one.call) is program.function(step.call)
        and not exclusive(program, one.call, step.call)
    ]
    return found[-1] if found else None


def _still_scaled(program: Program, scale: ScalerCall, clip: cst.Call, step: ScalerCall) -> bool:
    function = program.function(clip)
    if function is not program.function(step.call):
        return False
    if exclusive(program, clip, scale.call) or exclusive(program, clip, step.call):
        return False
    if _under_option(program, clip, scale.call) or step.scaler in program.code(clip):
        return False
    if _scales_by_hand(program, function or program.module):
        return False
    first, last = program.index.order(scale.call), program.index.order(clip)
    between = [
        call
        for call in program.index.below(function or program.module, cst.Call)
        if first < program.index.order(call) <= last
    ]
    return not any(_unscales(program, call, step.scaler) for call in between)


def _scales_by_hand(program: Program, place: cst.CSTNode) -> bool:
    return any(
        node.attr.value in ("get_scale", "_scale", "_get_scale_async")
        for node in program.index.below(place, cst.Attribute)
    )


def _unscales(program: Program, call: cst.Call, scaler: str) -> bool:
    """Whether a call unscales gradients, or may: it is given the scaler."""
    if isinstance(call.func, cst.Attribute) and "unscale" in call.func.attr.value:
        return True
    if any(dotted(arg.value) == scaler for arg in call.args):
        return True
    return any(
        node.attr.value == "unscale_"
        for other, function in _run(program, call)
        for node in other.index.below(function, cst.Attribute)
    )


def _late(
    program: Program, calls: list[ScalerCall], clip: cst.Call, step: ScalerCall
) -> ScalerCall | None:
    order = program.index.order
    for one in calls:
        after = order(clip) < order(one.call) < order(step.call)
        if after and (one.method, one.scaler) == ("unscale_", step.scaler):
            return one
    return None


def exclusive(program: Program, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Whether two nodes stand in different branches of one condition."""
    inside = program.index.inside
    for above in program.index.ancestors(first):
        if isinstance(above, cst.If) and inside(second, above):
            return inside(first, above.body) != inside(second, above.body)
        if isinstance(above, cst.FunctionDef):
            return False
    return False


def _under_option(program: Program, node: cst.CSTNode, outside: cst.CSTNode) -> bool:
    """Whether a condition on scaling stands around a node, and not around the other one."""
    for above in program.index.ancestors(node):
        if program.index.inside(outside, above):
            return False
        if isinstance(above, cst.If) and _ASKS_FOR_SCALING.search(program.code(above.test)):
            return True
    return False
