"""The training step on the GPU computes everything in float32.

## Why
GPUs multiply matrices in bfloat16 or float16 several times faster than in float32, and such numbers
take half the memory.  `torch.autocast` runs those operations that bear it in the lower precision
and the others in float32; the weights stay in float32.  With bfloat16, which has the range of
float32, that is all.  In float16 small gradients vanish, so that the loss has to be scaled.

## Bad
    import torch
    from torch import nn

    def train(loader, epochs):
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x, y in loader:
                output = model(x.cuda())
                loss = nn.functional.cross_entropy(output, y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

## Good
    import torch
    from torch import nn

    def train(loader, epochs):
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x, y in loader:
                with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                    output = model(x.cuda())
                    loss = nn.functional.cross_entropy(output, y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

## Leaves alone
- Scripts in which anything connected to them chooses a precision by value: autocast or a gradient
  scaler that is not certainly off, types of models and defaults, what a framework is told.
- Scripts in which nothing is seen to be on a GPU, and models whose output is on the CPU.
- Models that are one layer: casts take as long there as what they save.
- Models that run without gradients, and those that nobody trains.
- Versions of torch before 1.10, which has no `torch.autocast`.
- Frameworks that are told to train elsewhere, or on which no training is seen.

It is advice, once for each training step, at the first model that multiplies anything.  Where a
framework runs the training, its own switch is named: `Trainer(precision="bf16-mixed")` of
Lightning, `Accelerator(mixed_precision="bf16")`, `TrainingArguments(bf16=True)`, `"bf16"` in the
configuration of DeepSpeed, `to_bf16()` of fastai, `amp_mode="amp"` of Ignite.

## Fix safety
Unsafe, and only for the plainest of steps: one loss of torch that autocast computes in float32, one
backward pass and one update, all lines of one block, models whose code is seen and has nothing that
a lower precision breaks, and outputs that do not become arrays; they have the lower precision.
`BCELoss` raises under autocast on a GPU, and the threads of `DataParallel` forget the type, so that
there is no fix beside them.

The numbers are rounded differently, so that training takes a slightly different course.  bfloat16
is fast from compute capability 8.0 (Ampere) on.  With `amp-dtype = "float16"` in the configuration
the fix writes float16 and a `GradScaler`; a checkpoint should then hold `scaler.state_dict()` too.
On a CPU nothing changes: autocast is switched off there.

## Evidence
A CPU has nothing to show: autocast for CUDA is switched off on a CPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic Mixed Precision package - torch.amp"
- PyTorch recipe, "Automatic Mixed Precision"
- PyTorch Performance Tuning Guide, "Use mixed precision and AMP"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding
from torchlint.semantics.run import GRAD
from torchlint.semantics.tables.torch_classes import LAYERS
from torchlint.semantics.values import Library, Object, Truth
from torchlint.training.framework_precision import unset_switches
from torchlint.training.plain_steps import plain_step, rounds_only
from torchlint.training.trained import may_be_trained
from torchlint_rules.autocasting import autocasting
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.framework_precision import Switch
    from torchlint.training.script import Script
    from torchlint.training.step_models import StepModel

FIRST = Version("1.10")  # has `torch.autocast`
REFUSED = ("BCELoss", "binary_cross_entropy")
MULTIPLY = ("Linear", "Bilinear", "Conv", "RNN", "LSTM", "GRU", "Transformer", "Multihead",
            "matmul", "bmm", "mm", "einsum", "scaled_dot", "linear", "conv", "baddbmm",
            "addmm", "multi_head")  # fmt: skip
SINGLE = ("torch.nn.Linear", "torch.nn.Conv", "torch.nn.Bilinear")
RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
SPREADS = "torch.nn.DataParallel"
FSDP = ("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard")
CHANGES = "products are computed in {dtype}, which rounds more coarsely: compare the losses"
AMPERE = "; bfloat16 is slow on a GPU of compute capability below 8.0"


def no_mixed_precision(script: Script) -> Iterator[Finding]:
    """Find training steps that compute in full precision on a GPU."""
    target = script.settings.target
    if target is not None and target < FIRST:
        return
    is_mixed = script.connected.precisions.are_mixed
    for call, switch in unset_switches(script):
        if not is_mixed or "deepspeed" in switch.packages:
            yield of_framework(script, call, switch)
    if script.frameworks or is_mixed:
        return
    first: dict[int, StepModel] = {}
    for wanted in (True, False):
        for model in script.connected.step_models:
            uses, made = script.connected.uses, model.made
            may_be = made is None or may_be_trained(uses, made) or not wanted
            if may_be and computes(script, model):
                first.setdefault(id(model.step), model)
    for model in first.values():
        if model.run.file == script.file and script.connected.precisions.in_float32(model):
            yield of_step(script, model)


def computes(script: Script, model: StepModel) -> bool:
    """Whether a model runs with gradients, and multiplies in more than one layer."""
    modes = script.connected.evaluation.modes.get(id(model.run.node), {})
    if modes.get(GRAD) == (Truth(False),):
        return False
    parts = script.connected.parts.of(model.value)
    count = sum(one.name.rpartition(".")[2].startswith(MULTIPLY) for one in parts)
    layers = [one.kind for one in model.value if isinstance(one, Object) and one.kind in LAYERS]
    if len(layers) < len(model.value):
        return True
    return count > 0 and not all(one.startswith(SINGLE) for one in layers)


def of_framework(script: Script, call: cst.Call, switch: Switch) -> Finding:
    """Name the switch of the framework that runs the training."""
    unless = f", unless {switch.unless} says otherwise" if switch.unless else ""
    return Finding(
        call,
        f"`{script.module.brief(call)}` trains in float32{unless}: a GPU computes faster in a "
        "lower precision",
        help=f"Try {switch.advice}, and compare the losses.",
    )


def of_step(script: Script, model: StepModel) -> Finding:
    """Advise autocast, and write it where the step is plain."""
    call, refused = model.run.node, refused_loss(script, model)
    first = f", once `{refused}` has become one of logits" if refused else ""
    return Finding(
        call,
        f"`{script.module.brief(call)}` computes in float32{often(script.frequency(call))}: under "
        f"`torch.autocast` a GPU computes faster, in less memory{first}",
        fix(script, model),
        help=advice(script, model, refused),
    )


def refused_loss(script: Script, model: StepModel) -> str:
    """Return the loss of a step that raises under autocast on a GPU, or ""."""
    for file, scope in model.step.scopes:
        module = script.connected.files.modules[file]
        for call in module.index.below(scope, cst.Call):
            for one in script.connected.parts.of(script.value(call.func)):
                if one.name.startswith("torch.nn.") and one.name.endswith(REFUSED):
                    return one.name.rpartition(".")[2]
            for each in script.value(call.func):
                if isinstance(each, Library) and each.name == f"torch.nn.functional.{REFUSED[1]}":
                    return REFUSED[1]
    return ""


def advice(script: Script, model: StepModel, refused: str) -> str:
    """Say how to go about it."""
    calls = script.connected.calls
    if refused:
        logits = "BCEWithLogitsLoss" if refused == "BCELoss" else f"{refused}_with_logits"
        return f"`{refused}` raises under autocast: give `{logits}` what goes into the sigmoid."
    if any(map(calls, FSDP)):
        return "Give FSDP a policy of its own: MixedPrecision, or MixedPrecisionPolicy."
    if calls(SPREADS):
        return "First replace DataParallel: its threads would compute in float16, unscaled."
    dtype = script.settings.preferences.amp_dtype
    if any(one.name.startswith(RECURRENT) for one in script.connected.parts.of(model.value)):
        dtype = "float16"  # on CUDA recurrent layers know no other
    scaled = ", and scale the loss with torch.amp.GradScaler" if dtype == "float16" else ""
    return (
        "Run the forward pass and the loss, not the backward pass, in `with torch.autocast("
        f'device_type="cuda", dtype=torch.{dtype}):`{scaled}.'
    )


def fix(script: Script, model: StepModel) -> Fix | None:
    """Return the block around the forward pass and the loss; in float16, the gradient scaler."""
    step = model.step
    plain = plain_step(step, model.run)
    if plain is None or not rounds_only(script.connected, step, plain):
        return None
    rewrites = autocasting(script, step, plain)
    if rewrites is None:
        return None
    dtype = script.settings.preferences.amp_dtype
    changes = CHANGES.format(dtype=dtype) + AMPERE * (dtype == "bfloat16")
    return Fix(f"Train in {dtype}", Safety.UNSAFE, rewrites, changes)
