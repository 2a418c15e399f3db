"""A model is trained on several GPUs by one process.

## Why
`nn.DataParallel` copies the whole model from the first GPU to all others in every forward pass, and
one Python process drives them all. `DistributedDataParallel` has one process a GPU: each keeps its
own copy, and only gradients travel, while the backward pass is still running.

## Bad
    from torch import nn

    model = nn.DataParallel(nn.Linear(64, 10)).cuda()
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Good
    import os

    import torch
    from torch import nn

    # started with: torchrun --nproc-per-node=gpu train.py
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10).cuda())
    for x, y in loader:  # of a DataLoader with a DistributedSampler
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Leaves alone
- One device (`device_ids=[0]`): the model is then called as it is.
- Models that only evaluate, files that are not seen to train, and losses.
- Classes derived from it, and wrappers of other libraries.

It is information where no step is seen to call the wrapped model, where connected code has one
process a GPU as well, and under a framework, which has its own way.

## Fix safety
No fix: processes have to be started, and each needs its part of the data (a `DistributedSampler`)
and its share of the batch size. The keys of a checkpoint stay the same.

## Evidence
A CPU has nothing to show: DataParallel calls the model as it is where there is no GPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.nn.DataParallel`
- PyTorch Performance Tuning Guide, "Use efficient data-parallel backend"
- PyTorch tutorial, "Getting Started with Distributed Data Parallel"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Sequence
from torchlint.training.frequency import Rate
from torchlint.training.trained import may_be_trained
from torchlint_rules.judging import severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.frequency import Frequency
    from torchlint.training.models import Use
    from torchlint.training.script import Script

WRAPPER, FUNCTION = "torch.nn.DataParallel", "torch.nn.parallel.data_parallel"
BETTER = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.init_process_group")
HELP = (
    "Start one process a GPU (torchrun, before torch 1.10 torch.distributed.launch), wrap the "
    "model in DistributedDataParallel, and give the DataLoader a DistributedSampler."
)
OWN = "Use the framework's own way to train on several GPUs."


def data_parallel(script: Script) -> Iterator[Finding]:
    """Find models that one process trains on several GPUs."""
    connected = script.connected
    for call, name in script.calls_of(WRAPPER, FUNCTION):
        if not connected.frequencies.effects.train:
            continue
        inputs = ("inputs",) if name == FUNCTION else ()
        given, _ = given_to(connected.evaluation, call, ("module", *inputs, "device_ids"))
        model, devices = given.get("module"), given.get("device_ids")
        if model is None or model.node is None or script.kind(model.node) == "criterion":
            continue
        is_one = devices is not None and {
            len(one.elements or ()) if isinstance(one, Sequence) else 0 for one in devices.value
        } == {1}
        frequency = None if is_one else how_often(script, call)
        if frequency is not None:
            is_plain = not script.frameworks and not any(map(connected.evaluation.calls, BETTER))
            yield Finding(
                call,
                f"on several GPUs, `{script.module.brief(call.func)}` copies "
                f"`{script.module.brief(model.node)}` to each in every forward pass, and one "
                "Python process drives them all",
                severity=severity(frequency, is_plain, frequency.rate is Rate.STEP),
                help=OWN if script.frameworks else HELP,
            )


def how_often(script: Script, call: cst.Call) -> Frequency | None:
    """Return how often a wrapped model runs in training, None where it does not."""
    uses, frequencies = script.connected.uses, script.connected.frequencies
    made = script.connected.evaluation.at(call, script.file)
    if script.name(call.func) == FUNCTION:
        return script.frequency(call)
    met = uses.of(made) if may_be_trained(uses, made) else []
    runs = [frequencies.of(one.node, one.file) for one in met if uses.is_run(one)]
    steps = [one for one in runs if one.rate is Rate.STEP]
    if steps:
        return next((one for one in steps if one.in_every_step), steps[0])
    is_open = any(map(leaves, met))
    return script.frequency(call) if is_open and not runs else None


def leaves(use: Use) -> bool:
    """Whether a model is stored or handed on, so that others may run it."""
    match use.parent:
        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
            return isinstance(target, cst.Attribute)
    return isinstance(use.parent, (cst.Arg, cst.Return, cst.Element))
