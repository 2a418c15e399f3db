"""The flag ``fused`` of optimizers: what to pass for it, and how loaded states keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.rewrites import AddImport, InsertBefore
from torchlint.semantics.values import Text
from torchlint.syntax.chains import dotted
from torchlint.training.gpu_condition import condition_for_gpu

if TYPE_CHECKING:
    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script
    from torchlint.training.updates import Optimizer

ADAGRAD = "torch.optim.Adagrad"
ON_CPU, ON_MPS = Version("2.4"), Version("2.5")  # the first versions with kernels there


def written(script: Script, one: Optimizer) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return the value to pass and the import it needs; None where nothing is right."""
    connected, target = script.connected, script.settings.target
    oldest = ON_MPS if connected.may_use_mps else ON_CPU
    is_apple = connected.may_use_mps and ADAGRAD in one.kinds
    if target is not None and target >= oldest and not is_apple:
        return "True", ()
    behind = [one.is_behind(move) for move in one.moves]
    if one.on_gpu is False or False in behind:
        return None
    uploads = [copy for copy in connected.copies if copy.is_upload]
    there = condition_for_gpu(connected.evaluation, one.at, one.moves or uploads)
    is_seen = bool(behind) and all(behind)
    model = model_at_hand(one)
    if model and (there is None or not is_seen or there.code.endswith(".cuda.is_available()")):
        return f"next({model}.parameters()).is_cuda or None", ()  # False turns foreach off
    if there is None:
        return None
    return there.code, (AddImport("torch"),) if there.needs_torch else ()


def model_at_hand(one: Optimizer) -> str:
    """``model`` of ``AdamW(model.parameters())``."""
    given = one.given[0].get("params")
    match given.node if given else None:
        case cst.Call(func=cst.Attribute(value=model, attr=cst.Name("parameters"))):
            return dotted(model)
    return ""


def keeping(script: Script, load: cst.Call) -> Rewrite | None:
    """Return the lines that put the flag into a state before it is loaded, if it has a name."""
    assert isinstance(load.func, cst.Attribute)
    state = load.args[0].value
    place = state
    while isinstance(place, cst.Attribute | cst.Subscript):
        place = place.value
    line = script.module.statement(load)
    is_plain = script.is_statement(load) and len(load.args) == 1 and isinstance(place, cst.Name)
    if not is_plain or sets_flag(script) or not isinstance(line, cst.BaseStatement):
        return None
    name = "group" if script.module.index.scope(load).owner("group") is None else "saved_group"
    code = script.module.code
    return InsertBefore(
        line,
        f'for {name} in {code(state)}["param_groups"]:\n'
        f'    {name}["fused"] = {code(load.func.value)}.defaults["fused"]',
    )


def sets_flag(script: Script) -> bool:
    """Whether connected files write the flag into groups of parameters themselves."""
    modules = script.connected.files.modules
    return any(
        isinstance(target.target, cst.Subscript)
        and any(
            isinstance(item.slice, cst.Index) and script.value(item.slice.value) == (Text("fused"),)
            for item in target.target.slice
        )
        for module in modules
        for target in module.index.of(cst.AssignTarget)
    )
