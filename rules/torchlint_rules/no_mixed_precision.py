"""The training step on the GPU computes everything in float32.

## Why
GPUs multiply matrices in bfloat16 or float16 several times faster than in float32, and such numbers
take half the memory. `torch.autocast` runs the operations that bear it in the lower precision and
the others in float32; the weights stay in float32. With bfloat16, which has the range of float32,
that is all. In float16 small gradients vanish, so the loss has to be scaled.

## Bad
    import torch
    from torch import nn

    def train(loader):
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

## Good
    import torch
    from torch import nn

    def train(loader):
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

## Leaves alone
- Scripts in which anything that runs with them chooses a precision: autocast or a gradient scaler
  that may be on, types of models and defaults, what a framework is told.
- Scripts in which nothing is seen to be on a GPU, and models whose output is on the CPU.
- Models that are one layer, that run without gradients, or that nobody trains.
- Versions of torch before 1.10, which has no `torch.autocast`.

Of Lightning, Accelerate, transformers and Ignite their own switch is named.

## Fix safety
Unsafe, since numbers are rounded differently, and only for plain steps: one loss of torch, one
backward pass and one update, all lines of one block, of models whose code is seen and has nothing
that a lower precision breaks. bfloat16 is fast from compute capability 8.0 (Ampere) on. With
`amp-dtype = "float16"` in the configuration the fix writes float16 and a `GradScaler`; a checkpoint
should then hold `scaler.state_dict()` too.

## Evidence
A CPU has nothing to show: autocast for CUDA is switched off on a CPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic Mixed Precision package - torch.amp"
- PyTorch Performance Tuning Guide, "Use mixed precision and AMP"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding
from torchlint.semantics.run import GRAD
from torchlint.semantics.tables.torch_classes import LAYERS
from torchlint.semantics.values import Object, Truth
from torchlint.training.framework_switches import Switch, unset_switches
from torchlint.training.plain_steps import plain_step, rounds_only
from torchlint.training.trained import may_be_trained
from torchlint_rules.autocasting import autocasting
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script
    from torchlint.training.step_models import StepModel

FIRST = Version("1.10")  # has `torch.autocast`
_TRANSFORMERS = Switch("bf16 fp16 deepspeed", "train", "TrainingArguments(bf16=True)")
SWITCHES = {
    "lightning.Trainer": Switch(
        "precision plugins amp_backend amp_level", "fit", 'Trainer(precision="bf16-mixed")'
    ),
    "accelerate.Accelerator": Switch(
        "mixed_precision fp16 fsdp_plugin megatron_lm_plugin deepspeed_plugin",
        "backward",
        'Accelerator(mixed_precision="bf16")',
        ", unless `accelerate config` or `accelerate launch` says otherwise",
    ),
    "transformers.TrainingArguments": _TRANSFORMERS,
    "transformers.Seq2SeqTrainingArguments": _TRANSFORMERS,
    "ignite.engine.create_supervised_trainer": Switch(
        "amp_mode", "run", 'create_supervised_trainer(amp_mode="amp", scaler=True)'
    ),
}
# Losses that raise under autocast on a GPU, and what takes their place.
REFUSED = {
    "torch.nn.BCELoss": "BCEWithLogitsLoss",
    "torch.nn.functional.binary_cross_entropy": "binary_cross_entropy_with_logits",
}
RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
SEVERAL = (*RECURRENT, "torch.nn.Transformer", "torch.nn.Multihead")  # layers that are several
CHANGES = "products are computed in {dtype}, which rounds more coarsely: compare the losses"
AMPERE = "; bfloat16 is slow on a GPU of compute capability below 8.0"


def no_mixed_precision(script: Script) -> Iterator[Finding]:
    """Find training steps that compute in full precision on a GPU."""
    connected, target = script.connected, script.settings.target
    if (target is not None and target < FIRST) or connected.precisions.are_mixed(script.file):
        return
    for call, switch in unset_switches(script, SWITCHES):
        yield Finding(
            call,
            f"`{script.module.brief(call)}` trains in float32{switch.unless}: a GPU computes "
            "faster in a lower precision",
            help=f"Try {switch.advice}, and compare the losses.",
        )
    first: dict[int, StepModel] = {}
    models = connected.step_models if not script.frameworks else ()
    here = {id(one.step) for one in models if one.run.file == script.file}
    for model in models:
        if id(model.step) in here and id(model.step) not in first and computes(script, model):
            first[id(model.step)] = model
    for model in first.values():
        if model.run.file == script.file and connected.precisions.in_float32(model):
            yield of_step(script, model)


def computes(script: Script, model: StepModel) -> bool:
    """Whether a model runs with gradients, may be trained, and is more than one layer."""
    connected = script.connected
    modes = connected.evaluation.modes.get(id(model.run.node), {})
    is_trained = model.made is None or may_be_trained(connected.uses, model.made)
    layers = [one.kind for one in model.value if isinstance(one, Object) and one.kind in LAYERS]
    is_small = len(layers) == len(model.value) and not any(
        one.startswith(SEVERAL) for one in layers
    )
    return modes.get(GRAD) != (Truth(False),) and is_trained and not is_small


def of_step(script: Script, model: StepModel) -> Finding:
    """Advise autocast, and write it where the step is plain."""
    call, called = model.run.node, model.step.called
    refused = next((name for name in REFUSED if name in called), "")
    loss = refused.rpartition(".")[2]
    help_ = advice(script, model)
    if loss:
        help_ = (
            f"`{loss}` raises under autocast: give `{REFUSED[refused]}` what goes into the sigmoid."
        )
    elif "torch.nn.DataParallel" in called:
        help_ = "First replace DataParallel: its threads would compute in float16, unscaled."
    return Finding(
        call,
        f"`{script.module.brief(call)}` computes in float32{often(script.frequency(call))}: under "
        "`torch.autocast` a GPU computes faster, in less memory"
        f"{f', once `{loss}` has become one of logits' if loss else ''}",
        fix(script, model),
        help=help_,
    )


def advice(script: Script, model: StepModel) -> str:
    """Say how to go about it."""
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
    plain = plain_step(model.step, model.run)
    if plain is None or not rounds_only(script.connected, model.step, plain):
        return None
    rewrites = autocasting(script, model.step, plain)
    dtype = script.settings.preferences.amp_dtype
    changes = CHANGES.format(dtype=dtype) + AMPERE * (dtype == "bfloat16")
    return Fix(f"Train in {dtype}", Safety.UNSAFE, rewrites, changes) if rewrites else None
