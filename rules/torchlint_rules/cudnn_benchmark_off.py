"""Convolutions use the algorithms that cuDNN guesses.

## Why
cuDNN has several algorithms for a convolution, and which is the fastest depends on the shapes and
on the GPU.  By default it chooses by a rule of thumb.  With `torch.backends.cudnn.benchmark = True`
the first call with new shapes tries the algorithms, and the fastest is remembered.  That pays where
the shapes stay the same, as in a training on images of one size.

## Bad
    import torch
    from torch import nn
    from torchvision import datasets, transforms

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)

    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    import torch
    from torch import nn
    from torchvision import datasets, transforms

    torch.backends.cudnn.benchmark = True

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)

    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Leaves alone
- Trainings for which cuDNN is told to try, or by an option, here or in a connected file, and those
  that are told to be deterministic.
- Models in which no convolution is seen, and those that run on the host.
- Training loops that no optimizer's step or backward pass shows.

Where a loader of torch stacks the samples, those of a batch have one size; that all batches have it
is seen of a dataset in memory and of what a loop leaves as it is.  There is no fix where neither is
seen, nor with frameworks, which have their own switch (`Trainer(benchmark=True)` of Lightning).

## Fix safety
Unsafe: which algorithm is the fastest can differ from run to run, and the results with it, by
rounding.  The first step with each shape takes longer, that of a last and smaller batch as well
(`drop_last=True` avoids it), and a faster algorithm may take more memory.

## Evidence
A CPU has nothing to show: cuDNN runs on a GPU only.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Enable cuDNN auto-tuner"
- PyTorch documentation, `torch.backends.cudnn.benchmark`, and "Reproducibility: CUDA convolution
  benchmarking"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Nothing, Number
from torchlint.training.hoisting import is_unchanged
from torchlint.training.samplers import SEEDS
from torchlint.training.step_models import firsts, loader_of
from torchlint_rules.top_line import at_the_top

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script
    from torchlint.training.settings import Setting
from torchlint.training.step_models import StepModel

SWITCH = "torch.backends.cudnn.benchmark"
REPEATABLE = ("torch.backends.cudnn.deterministic", "torch.use_deterministic_algorithms")
LINE = f"{SWITCH} = True"
FAMILIES = (
    "resnet", "resnext", "wide_resnet", "efficientnet", "mobilenet", "densenet", "vgg", "convnext",
    "regnet", "inception", "googlenet", "alexnet", "squeezenet", "shufflenet", "mnasnet",
)  # fmt: skip
ALL = ", though their inputs have one size"
EACH = ", though the samples of each batch have one size"
TRAINER = ("lightning.Trainer", "pytorch_lightning.Trainer")
CHANGES = (
    "which algorithm is the fastest can differ from run to run, and the rounding with it; the "
    "first step with each shape takes longer, as does a smaller last batch; it may need more memory"
)


def cudnn_benchmark_off(script: Script) -> Iterator[Finding]:
    """Find trainings of convolutions for which cuDNN may not look for the fastest algorithm."""
    models = script.connected.step_models
    models = tuple(one for one in models if is_convolutional(script, one))
    if not models:
        return
    told = [one for one in script.connected.set_switches if one.written is not None]
    if any(one.name in REPEATABLE and not one.is_off for one in told):
        return
    switches = [one for one in told if one.name == SWITCH]
    if any(not one.is_off for one in switches) or any(map(script.connected.calls, TRAINER)):
        return
    switches = [one for one in switches if is_run(script, one)]
    if switches:
        yield from (told_off(script, one, models) for one in switches if one.file == script.file)
        return
    yield from (left_off(script, model) for model in firsts(models, script.file))


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


def left_off(script: Script, model: StepModel) -> Finding:
    """The script says nothing."""
    size = sizes(script, model)
    line = at_the_top(script, LINE) if size and is_run(script, model) else None
    return Finding(
        model.node,
        f"the convolutions of `{script.module.brief(model.node)}` use the algorithms that cuDNN "
        f"guesses{size}",
        None if line is None else fix(script, f"Set `{LINE}`", line),
        help=f"{LINE} tries the algorithms once for each shape, and keeps the fastest"
        f"{'.' if size else ': that pays where the inputs keep their size.'}",
    )


def is_run(script: Script, one: StepModel | Setting) -> bool:
    """Whether the script is seen to make a model or to set a switch."""
    return script.connected.frequencies.of(one.node, one.file).known


def told_off(script: Script, switch: Setting, models: tuple[StepModel, ...]) -> Finding:
    """``benchmark = False``."""
    found = [sizes(script, one) for one in models]
    is_stacked = all(found)
    is_literal = switch.written is not None and script.module.code(switch.written) == "False"
    frequency = script.frequency(switch.node)
    is_seeded = any(map(script.connected.calls, SEEDS))
    can_fix = is_stacked and is_literal and frequency.certain and not is_seeded
    assert switch.written is not None
    model = models[0]
    name = script.connected.evaluation.module(model.file).brief(model.node)
    return Finding(
        switch.node,
        f"`{script.module.brief(switch.node)}` keeps cuDNN from trying which algorithm is the "
        f"fastest for the convolutions of `{name}`"
        f"{next(size for size in ('', EACH, ALL) if size in found)}",
        fix(script, "Set it to True", Replace(switch.written, "True")) if can_fix else None,
        help="Let cuDNN try where the inputs keep their size.",
    )


def sizes(script: Script, model: StepModel) -> str:
    """Say of what a model gets that it has one size: of all, or of the samples of a batch.

    Samples that a loader stacks have; so has what a loop leaves as it is.
    """
    loader = loader_of(script.connected.loaders, model.step)
    if loader is None:
        loop, call = model.step.node, model.run
        if not isinstance(loop, (cst.For, cst.While)) or model.step.file != call.file:
            return ""
        module = script.connected.evaluation.module(call.file)
        given = [arg.value for arg in call.node.args]
        stays = bool(given) and all(is_unchanged(module, one, loop) for one in given)
        return ALL if stays else ""
    if script.datasets(loader).is_in_memory:
        return ALL
    size = loader.arguments.get("batch_size")
    is_one = size is None or any(each in (Nothing(), Number(1.0)) for each in size.value)
    is_stacked = loader.lacks("collate_fn", "batch_sampler") and not is_one
    return EACH if is_stacked else ""


def fix(script: Script, title: str, rewrite: Rewrite) -> Fix | None:
    """Return the fix; a framework has its own switch."""
    if script.frameworks:
        return None
    return Fix(title, Safety.UNSAFE, (rewrite,), CHANGES)
