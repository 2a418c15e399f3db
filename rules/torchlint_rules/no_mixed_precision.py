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
- Files that say anything about precision: autocast, AMP, apex, half or double types, quantisation;
  and files that import one which speaks of autocast, of half types or of the scale of a loss, or
  are imported by one.
- Scripts and branches for the CPU, code that runs only on a torch before 1.10 (`loss.data[0]`,
  `torchtext.data.Field`), and models that are not seen to be called in the loop.
- What needs exact numbers: LBFGS, gradients of gradients (`create_graph=True`), complex numbers,
  simulations; models that invert matrices, take their determinants or compute a part of it in
  double precision (normalizing flows), losses that keep a probability below one by `1 - eps`, and
  neighbours by distances that are expanded into a product (`-2 * torch.matmul(x, y)`), here or in a
  file that is imported, be it by others.
- Reinforcement learning (`env.step`, also in a script that imports the file), and gradients that
  are asked for by hand (`torch.autograd.grad`).
- Custom autograd functions, which have to say themselves which type they take, also in a file
  that an option may name (`import_module(args.model)`); libraries of kernels that autocast does not
  know (torch_geometric, torch_scatter, spconv, MinkowskiEngine, DGL), here or in such a file.
- Scripts that switch cuDNN off, and models of a single linear layer, or of none: casts take longer
  there than what they save.
- Tests, and trials of 200 steps or fewer that are not repeated: there is nothing to gain.
- Gradients that are only looked at: neither the function that goes back nor what calls it takes a
  step or updates anything.
- Classes of training frameworks where they are given a precision, or options that are not seen.
- A `Trainer` of Lightning on which no `fit()` is seen, here or in functions of the project that get
  it: it tests and predicts.

It is advice, once for each training loop, at the first call of the model, rather than at a part or
a loss that is called with its output, or at a module that nobody trains (a fixed blur, a
spectrogram): where there is no other, it is silent.  Where a framework runs
the training, its own switch is named: `Trainer(precision="bf16-mixed")` of Lightning,
`Accelerator(mixed_precision="bf16")`, `TrainingArguments(bf16=True)`, `"bf16"` in the configuration
of DeepSpeed, `to_bf16()` of fastai, `amp_mode="amp"` of Ignite.

## Fix safety
Unsafe, and only for the plainest of steps: one model, one loss of torch that autocast computes in
float32, one backward pass and one update, all lines of one block, a model whose code is seen and
has nothing that a lower precision breaks, and outputs of which only shapes, places and comparisons
are used.  `BCELoss` raises under autocast on a GPU, and `DataParallel` forgets the type, so that
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

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.autocast import autocast_rewrites
from torchlint.analysis.debugging import in_test
from torchlint.analysis.framework_precision import unset_switches
from torchlint.analysis.lower_precision import (
    chosen,
    chosen_nearby,
    has_recurrence,
    is_proved,
    is_without_cudnn,
    needs_exact,
    refused_loss,
)
from torchlint.analysis.once import runs_once
from torchlint.analysis.profiling import is_short
from torchlint.analysis.reach import callers
from torchlint.analysis.single_layers import runs_one_layer
from torchlint.analysis.training_steps import models, plain_step, training_steps
from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.framework_precision import Unset
    from torchlint.analysis.program import Program
    from torchlint.analysis.training_steps import TrainingStep

FIRST = Version("1.10")  # has `torch.autocast`
CHANGES = "products are computed in {dtype}, which rounds more coarsely: compare the losses"
# What may update parameters, be it by hand.
UPDATES = re.compile(r"step\(|optim|engine|no_grad|\.data\b", re.IGNORECASE)
AMPERE = "; bfloat16 is slow on a GPU of compute capability below 8.0"


def no_mixed_precision(program: Program) -> Iterator[Finding]:
    """Find training steps that compute in full precision on a GPU."""
    if chosen(program) or (program.target is not None and program.target < FIRST):
        return
    for unset in unset_switches(program):
        if not in_test(program, unset.call):
            yield of_framework(program, unset)
    if program.frameworks or not program.devices.gpu or chosen_nearby(program):
        return
    for step in training_steps(program):
        if is_trial(program, step) or runs_one_layer(program, step) or only_looks(program, step):
            continue
        if program.reaches(FIRST) and not needs_exact(program) and not is_without_cudnn(program):
            yield of_loop(program, step)


def is_trial(program: Program, step: TrainingStep) -> bool:
    """Whether a training is a test, or takes a few steps that are not repeated."""
    if in_test(program, step.forward):
        return True
    if isinstance(step.place, cst.FunctionDef):
        return runs_once(program, step.forward)
    return is_short(program, step.place) and runs_once(program, step.place)


def only_looks(program: Program, step: TrainingStep) -> bool:
    """Whether gradients are only looked at: neither the function nor what calls it takes a step."""
    inside = isinstance(step.place, cst.FunctionDef)
    function = step.place if inside else program.function(step.place)
    if not isinstance(function, cst.FunctionDef) or UPDATES.search(program.code(function)):
        return False
    sites = list(callers(program, function))
    return bool(sites) and not any(
        UPDATES.search(home.code(home.function(site) or home.module)) for home, site in sites
    )


def of_framework(program: Program, unset: Unset) -> Finding:
    """Name the switch of the framework that runs the training."""
    unless = f", unless {unset.switch.unless} says otherwise" if unset.switch.unless else ""
    return Finding(
        unset.call,
        f"`{program.brief(unset.call)}` trains in float32{unless}: a GPU computes faster in a "
        "lower precision",
        help=f"Try {unset.switch.advice}, and compare the losses.",
    )


def of_loop(program: Program, step: TrainingStep) -> Finding:
    """Advise autocast, and write it where the step is plain."""
    refused = refused_loss(program, step)
    first = f", once `{refused}` has become one of logits" if refused else ""
    return Finding(
        step.forward,
        f"`{program.brief(step.forward)}` computes in float32 in every training step: under "
        f"`torch.autocast` a GPU computes faster, in less memory{first}",
        fix(program, step),
        help=advice(program, step),
    )


def advice(program: Program, step: TrainingStep) -> str:
    """Say how to go about it."""
    refused = refused_loss(program, step)
    if refused:
        logits = "BCEWithLogitsLoss" if refused == "BCELoss" else f"{refused}_with_logits"
        return f"`{refused}` raises under autocast: give `{logits}` what goes into the sigmoid."
    if "FullyShardedDataParallel" in program.text or "fully_shard" in program.text:
        return "Give FSDP a policy of its own: MixedPrecision, or MixedPrecisionPolicy."
    if "nn.DataParallel" in program.text:
        return "First replace DataParallel: its threads would compute in float16, unscaled."
    dtype = program.preferences.amp_dtype
    if has_recurrence(program):
        dtype = "float16"  # on CUDA recurrent layers know no other
    scaled = ", and scale the loss with torch.amp.GradScaler" if dtype == "float16" else ""
    return (
        "Run the forward pass and the loss, not the backward pass, in `with torch.autocast("
        f'device_type="cuda", dtype=torch.{dtype}):`{scaled}.'
    )


def fix(program: Program, step: TrainingStep) -> Fix | None:
    """Return the block around the forward pass and the loss; in float16, the gradient scaler."""
    plain = plain_step(program, step)
    if plain is None or not is_proved(program, plain, models(program, step)):
        return None
    rewrites = autocast_rewrites(program, step, plain)
    if rewrites is None:
        return None
    dtype = program.preferences.amp_dtype
    changes = CHANGES.format(dtype=dtype) + AMPERE * (dtype == "bfloat16")
    return Fix(f"Train in {dtype}", Safety.UNSAFE, rewrites, changes)
