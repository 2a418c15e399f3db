"""Convolutions use the algorithms that cuDNN guesses.

## Why
cuDNN has several algorithms for a convolution, and which is fastest depends on the shapes and the
GPU. By default it guesses. With `torch.backends.cudnn.benchmark = True` the first call with new
shapes tries them, and the fastest is remembered. That pays for images of one size.

## Bad
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Good
    import torch
    from torch import nn

    torch.backends.cudnn.benchmark = True

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Leaves alone
- Trainings that set the switch, by an option as well, or are told to be deterministic.
- Models in which no convolution is seen, and those that run on the host.
- Loops that neither an optimizer's step nor a backward pass shows to train.

There is a fix where a loader of torch stacks the samples, whose batches therefore have one size;
but none where `benchmark = False` is written, nor with a framework.

## Fix safety
Unsafe: which algorithm is fastest can differ from run to run, and the results with it, by rounding.
The first step with each shape takes longer, also that of a smaller last batch (`drop_last=True`
avoids it), and a faster algorithm may take more memory.

## Evidence
A CPU has nothing to show: cuDNN runs on a GPU only.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Enable cuDNN auto-tuner"
- PyTorch documentation, `torch.backends.cudnn.benchmark`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Number
from torchlint.training.hoisting import is_unchanged
from torchlint.training.step_models import firsts
from torchlint_rules.top_line import at_the_top

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script
    from torchlint.training.step_models import StepModel

SWITCH = "torch.backends.cudnn.benchmark"
REPEATABLE = ("torch.backends.cudnn.deterministic", "torch.use_deterministic_algorithms")
LINE = f"{SWITCH} = True"
FAMILIES = tuple(
    """resnet resnext wide_resnet efficientnet mobilenet densenet vgg convnext regnet inception
    googlenet alexnet squeezenet shufflenet mnasnet""".split()
)
CHANGES = (
    "which algorithm is the fastest can differ from run to run, and the rounding with it; the "
    "first step with each shape takes longer, as does a smaller last batch; it may need more memory"
)


def cudnn_benchmark_off(script: Script) -> Iterator[Finding]:
    """Find trainings of convolutions for which cuDNN may not look for the fastest algorithm."""
    connected = script.connected
    for model in firsts(
        connected.step_models, script.file, lambda one: is_convolutional(script, one)
    ):
        told = connected.switches(script.file, model.run.file)
        is_on = any(one.name in (SWITCH, *REPEATABLE) and not one.is_off for one in told)
        if is_on or connected.evaluation.calls("lightning.Trainer"):
            continue
        is_open = not script.frameworks and not any(one.name == SWITCH for one in told)
        is_one_size = has_one_size(script, model)
        line = at_the_top(script, LINE) if is_one_size and is_open else None
        size = ", though the samples of each batch have one size" if is_one_size else ""
        yield Finding(
            model.node,
            f"the convolutions of `{script.module.brief(model.node)}` use the algorithms that "
            f"cuDNN guesses{size}",
            Fix(f"Set `{LINE}`", Safety.UNSAFE, (line,), CHANGES) if line else None,
            help=f"{LINE} tries the algorithms once for each shape, and keeps the fastest: that "
            "pays where the inputs keep their size.",
        )


def is_convolutional(script: Script, model: StepModel) -> bool:
    """Whether a model has a convolution, or is one of the known models that are made of them."""
    for part in script.connected.parts.of(model.value):
        package, _, last = part.name.rpartition(".")
        if package.startswith("torch.nn") and last.lower().startswith(("conv", "lazyconv")):
            return True
        if package.startswith("torchvision.models") and last.lower().startswith(FAMILIES):
            return True
        if part.name == "timm.create_model" and part.call is not None:
            call = script.connected.evaluation.node(part.call)
            assert isinstance(call, cst.Call)
            given = given_to(script.connected.evaluation, call, ("model_name",))[0]
            names = given["model_name"].value if "model_name" in given else ()
            if any(str(getattr(one, "value", "")).startswith(FAMILIES) for one in names):
                return True
    return False


def has_one_size(script: Script, model: StepModel) -> bool:
    """Whether a step takes what a loader of torch stacks, or the same batch in each turn."""
    step, run = model.step, model.run
    for loader in script.connected.loaders:
        if any(
            turn.file == step.file and turn.node in (step.node, getattr(step.node, "body", None))
            for turn in loader.turns
        ):
            size = loader.arguments.get("batch_size")
            is_one = size is None or Number(1.0) in size.value
            return loader.lacks("collate_fn", "batch_sampler") and not is_one
    if not isinstance(step.node, (cst.For, cst.While)) or step.file != run.file:
        return False
    loop, module = step.node, script.connected.evaluation.module(run.file)
    return all(is_unchanged(module, arg.value, loop) for arg in run.node.args)
