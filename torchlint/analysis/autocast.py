"""Writing ``torch.autocast`` around a plain training step, with a gradient scaler for float16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.blocks import line_of
from torchlint.analysis.hoisting import free_name
from torchlint.analysis.scaling import clips
from torchlint.analysis.values import Device
from torchlint.edits.arguments import MAX_LINE
from torchlint.edits.rewrites import (
    AddImport,
    InsertAfter,
    InsertBefore,
    Replace,
    Rewrite,
    Wrap,
)
from torchlint.syntax.line_layout import indent_of
from torchlint.syntax.scopes import Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.training_steps import PlainStep, TrainingStep

_MOVED = Version("2.3")  # has `torch.amp.GradScaler`


def autocast_rewrites(
    program: Program, step: TrainingStep, plain: PlainStep
) -> tuple[Rewrite, ...] | None:
    """Return what makes a plain step compute in the preferred type, or None."""
    first = plain.forward[0]
    torch = program.devices.torch_name(first)
    if not torch and program.index.scope(first).owner("torch") is not None:
        return None
    enabled = _enabled(program, step, first)
    if enabled is None:
        return None
    imports = () if torch else (AddImport("torch"),)
    torch = torch or "torch"
    dtype = program.preferences.amp_dtype
    header = f'with {torch}.autocast(device_type="cuda", dtype={torch}.{dtype}{enabled}):'
    if len(indent_of(program, first) + header) > MAX_LINE:
        header = header.replace("device_type=", "")
    rewrites: tuple[Rewrite, ...] = (Wrap(plain.forward, header), *imports)
    if dtype != "float16":
        return rewrites
    scaled = _scaled(program, step, plain, torch)
    return None if scaled is None else (*rewrites, *scaled)


def _enabled(program: Program, step: TrainingStep, at: cst.CSTNode) -> str | None:
    """Return the argument that switches it off where the script runs without CUDA, if it may."""
    inputs = [arg.value for arg in step.forward.args]
    if "is_available" not in program.text and any(
        program.value(value).device is Device.CUDA for value in inputs
    ):
        return ""
    condition = program.devices.condition(at, _devices(program, step))
    if condition is None or "accelerator" in condition.code:
        return None
    return f", enabled={condition.code}"


def _devices(program: Program, step: TrainingStep) -> Iterator[cst.BaseExpression]:
    """Yield what tensors are moved to in a step."""
    for call in program.index.below(step.place, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to" and call.args:
            yield call.args[0].value


# -- float16 ----------------------------------------------------------------------------------


def _scaled(
    program: Program, step: TrainingStep, plain: PlainStep, torch: str
) -> tuple[Rewrite, ...] | None:
    """Return the rewrites that scale the loss, and unscale what is clipped."""
    scaler = free_name(program, ("scaler", "grad_scaler"), step.place)
    made = _optimizer_line(program, plain)
    enabled = None if made is None else _enabled(program, step, made)
    line, backward = line_of(program, plain.step), plain.backward.func
    if scaler is None or made is None or enabled is None or line is None:
        return None
    if not isinstance(backward, cst.Attribute) or not _only_clips(program, plain):
        return None
    optimizer = program.code(plain.optimizer)
    unscale = [InsertBefore(one, f"{scaler}.unscale_({optimizer})") for one in plain.after[:1]]
    return (
        InsertAfter(made, f"{scaler} = {_maker(program, torch, enabled)}"),
        Replace(backward.value, f"{scaler}.scale({plain.loss.value})"),
        *unscale,
        Replace(plain.step, f"{scaler}.step({optimizer})"),
        InsertAfter(line, f"{scaler}.update()"),
    )


def _only_clips(program: Program, plain: PlainStep) -> bool:
    """Whether nothing but clipping comes between the backward pass and the update."""
    clipping = [line_of(program, call) for call in clips(program)]
    return all(any(one is line for line in clipping) for one in plain.after)


def _maker(program: Program, torch: str, enabled: str) -> str:
    if program.target is not None and program.target < _MOVED:
        return f"{torch}.cuda.amp.GradScaler({enabled.lstrip(', ')})"
    return f'{torch}.amp.GradScaler("cuda"{enabled})'


def _optimizer_line(program: Program, plain: PlainStep) -> cst.SimpleStatementLine | None:
    """Return the one line that makes the optimizer, where the step sees what is bound there."""
    if not isinstance(plain.optimizer, cst.Name):
        return None
    match program.flow.reaching(plain.optimizer):
        case (Binding(is_plain=True, value=cst.Call() as made),):
            fused = any(arg.keyword and arg.keyword.value == "fused" for arg in made.args)
            return None if fused else line_of(program, made)
        case _:
            return None
