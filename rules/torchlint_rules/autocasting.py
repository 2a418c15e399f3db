"""Writing ``torch.autocast`` around a plain training step, with a gradient scaler for float16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.arguments import MAX_LINE
from torchlint.edits.rewrites import AddImport, InsertAfter, InsertBefore, Replace, Rewrite, Wrap
from torchlint.syntax.calls import has_keyword
from torchlint.syntax.line_layout import indent_of
from torchlint.training.copies import moves_of
from torchlint.training.gpu_condition import condition_for_gpu, name_of_torch
from torchlint.training.hoisting import free_name
from torchlint.training.models import made_by
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from torchlint.training.plain_steps import PlainStep
    from torchlint.training.script import Script
    from torchlint.training.steps import Region

MOVED = Version("2.3")  # has `torch.amp.GradScaler`


def autocasting(script: Script, step: Region, plain: PlainStep) -> tuple[Rewrite, ...] | None:
    """Return what makes a plain step compute in the preferred type, or None."""
    evaluation, dtype = script.connected.evaluation, script.settings.preferences.amp_dtype
    torch = name_of_torch(evaluation, evaluation.at(plain.loss_call, script.file))
    enabled = switched_on(script, step, plain.loss_call)
    if torch is None or enabled is None:
        return None
    imports = () if torch else (AddImport("torch"),)
    torch = torch or "torch"
    header = f'with {torch}.autocast(device_type="cuda", dtype={torch}.{dtype}{enabled}):'
    if len(indent_of(script.module, plain.forward[0]) + header) > MAX_LINE:
        header = header.replace("device_type=", "")
    scaled = scaling(script, step, plain, torch) if dtype == "float16" else ()
    return None if scaled is None else (Wrap(plain.forward, header), *imports, *scaled)


def switched_on(script: Script, step: Region, call: cst.Call) -> str | None:
    """Return the argument that switches it off where the script runs without CUDA, if it may."""
    connected = script.connected
    copies = [one for one in connected.uploads if one.file == script.file]
    owners = [one for run in step.of(Role.FORWARD) for one in run.owner]
    copies += moves_of(connected.uses, filter(None, map(made_by, owners)))
    at = connected.evaluation.at(call, script.file)
    there = condition_for_gpu(connected.evaluation, at, copies)
    if there is None or "accelerator" in there:
        return None
    return "" if there == "True" else f", enabled={there}"


def scaling(
    script: Script, step: Region, plain: PlainStep, torch: str
) -> tuple[Rewrite, ...] | None:
    """Return the rewrites that scale the loss, and unscale what is clipped.

    The scaler is made behind the one line that makes the optimizer, which is not fused.
    """
    module, target = script.module, script.settings.target
    bindings = script.connected.evaluation.bindings(plain.optimizer)
    made = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    if not isinstance(made, cst.Call) or not script.name(made.func).startswith("torch.optim."):
        return None
    scaler = free_name(module, ("scaler", "grad_scaler"), step.node)
    enabled = switched_on(script, step, made)
    clips = {id(module.statement(one.node)) for one in step.of(Role.CLIP)}
    is_fused = has_keyword(made, ("fused",))
    if scaler is None or enabled is None or is_fused or {*map(id, plain.after)} - clips:
        return None
    optimizer, maker = module.code(plain.optimizer), f'{torch}.amp.GradScaler("cuda"{enabled})'
    if target is not None and target < MOVED:
        maker = f"{torch}.cuda.amp.GradScaler({enabled.lstrip(', ')})"
    line, last, func = module.statement(made), module.statement(plain.step), plain.backward.func
    assert isinstance(line, cst.BaseStatement)
    assert isinstance(last, cst.BaseStatement)
    assert isinstance(func, cst.Attribute)
    return (
        InsertAfter(line, f"{scaler} = {maker}"),
        Replace(func.value, f"{scaler}.scale({plain.loss.value})"),
        *(InsertBefore(one, f"{scaler}.unscale_({optimizer})") for one in plain.after[:1]),
        Replace(plain.step, f"{scaler}.step({optimizer})"),
        InsertAfter(last, f"{scaler}.update()"),
    )
