"""Writing ``torch.autocast`` around a plain training step, with a gradient scaler for float16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.arguments import MAX_LINE
from torchlint.edits.rewrites import (
    AddImport,
    InsertAfter,
    InsertBefore,
    Replace,
    Rewrite,
    Wrap,
)
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
    evaluation, first = script.connected.evaluation, plain.forward[0]
    torch = name_of_torch(evaluation, evaluation.at(plain.loss_call, script.file))
    enabled = switched_on(script, step, plain.loss_call)
    if torch is None or enabled is None:
        return None
    imports = () if torch else (AddImport("torch"),)
    torch = torch or "torch"
    dtype = script.settings.preferences.amp_dtype
    header = f'with {torch}.autocast(device_type="cuda", dtype={torch}.{dtype}{enabled}):'
    if len(indent_of(script.module, first) + header) > MAX_LINE:
        header = header.replace("device_type=", "")
    rewrites: tuple[Rewrite, ...] = (Wrap(plain.forward, header), *imports)
    if dtype != "float16":
        return rewrites
    scaled = scaling(script, step, plain, torch)
    return None if scaled is None else (*rewrites, *scaled)


def switched_on(script: Script, step: Region, call: cst.Call) -> str | None:
    """Return the argument that switches it off where the script runs without CUDA, if it may."""
    evaluation, index = script.connected.evaluation, script.module.index
    copies = [
        copy
        for copy in script.connected.copies
        if copy.file == script.file and copy.is_upload and index.inside(copy.node, step.node)
    ]
    owners = [one for run in step.of(Role.FORWARD) for one in run.owner]
    copies += moves_of(script.connected.uses, filter(None, map(made_by, owners)))
    there = condition_for_gpu(evaluation, evaluation.at(call, script.file), copies)
    if there is None or "accelerator" in there.code:
        return None
    return "" if there.code == "True" else f", enabled={there.code}"


def scaling(
    script: Script, step: Region, plain: PlainStep, torch: str
) -> tuple[Rewrite, ...] | None:
    """Return the rewrites that scale the loss, and unscale what is clipped."""
    module, target = script.module, script.settings.target
    scaler = free_name(module, ("scaler", "grad_scaler"), step.node)
    made = optimizer_of(script, plain)
    enabled = None if made is None else switched_on(script, step, made)
    clips = [module.statement(one.node) for one in step.of(Role.CLIP)]
    others = [one for one in plain.after if not any(one is clip for clip in clips)]
    func = plain.backward.func
    if scaler is None or made is None or enabled is None or others:
        return None
    assert isinstance(func, cst.Attribute)
    optimizer = module.code(plain.optimizer)
    maker = f'{torch}.amp.GradScaler("cuda"{enabled})'
    if target is not None and target < MOVED:
        maker = f"{torch}.cuda.amp.GradScaler({enabled.lstrip(', ')})"
    unscale = [InsertBefore(one, f"{scaler}.unscale_({optimizer})") for one in plain.after[:1]]
    line, last = module.statement(made), module.statement(plain.step)
    assert isinstance(line, cst.BaseStatement)
    assert isinstance(last, cst.BaseStatement)
    return (
        InsertAfter(line, f"{scaler} = {maker}"),
        Replace(func.value, f"{scaler}.scale({plain.loss.value})"),
        *unscale,
        Replace(plain.step, f"{scaler}.step({optimizer})"),
        InsertAfter(last, f"{scaler}.update()"),
    )


def optimizer_of(script: Script, plain: PlainStep) -> cst.Call | None:
    """Return the one call, a line of its own, that makes the optimizer, where it is not fused."""
    bindings = script.connected.evaluation.bindings(plain.optimizer)
    made = bindings[0].value if len(bindings) == 1 and bindings[0].is_plain else None
    if not isinstance(made, cst.Call) or script.kind(made) != "optimizer":
        return None
    is_made_here = script.name(made.func).startswith("torch.optim.")
    is_fused = has_keyword(made, ("fused",))
    return made if is_made_here and not is_fused else None
