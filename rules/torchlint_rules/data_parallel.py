"""A model is trained on several GPUs by one process.

## Why
`nn.DataParallel` copies the whole model from the first GPU to all others in every forward pass,
splits the batch there, gathers the outputs there and adds up the gradients there, and one Python
process with one interpreter lock drives all of it.  `DistributedDataParallel` starts one process a
GPU: each keeps its own copy of the model, and only gradients travel, while the backward pass is
still running.  It is also what works on more than one machine.

## Bad
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    import os

    import torch
    from torch import nn

    # started with: torchrun --nproc-per-node=gpu train.py
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:  # of a DataLoader with a DistributedSampler
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Leaves alone
- One device (`device_ids=[0]`): the model is then called as it is.
- Models that are not run in a training step: those that only evaluate, and all in files that are
  not seen to train.
- Losses, which have no weights to copy.
- Branches that run without a GPU.
- `isinstance(model, nn.DataParallel)`, classes derived from it that run or copy the model in their
  own way (`forward`, `replicate`), and wrappers of other libraries.

It is information where the step is not seen to call the wrapped model, where code of the connected
files has a process a GPU as well, and under a training framework, which has its own way for it.

## Fix safety
There is no fix: processes have to be started, each needs its part of the data (a
`DistributedSampler`) and its share of the batch size, and statistics, such as those of batch
normalisation, are then those of a process.  The keys of a checkpoint stay the same: both wrappers
put `module.` before them.

## Evidence
A CPU has nothing to show: DataParallel calls the model as it is where there is no GPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.nn.DataParallel`, and "Use nn.parallel.DistributedDataParallel
  instead of multiprocessing or nn.DataParallel"
- PyTorch Performance Tuning Guide, "Use efficient data-parallel backend"
- PyTorch tutorial, "Getting Started with Distributed Data Parallel"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.rule import Finding
from torchlint.semantics.values import Dictionary, Instance, Number, Sequence
from torchlint.syntax.calls import argument_of, has_keyword
from torchlint.training.frequency import Rate
from torchlint.training.trained import may_be_trained
from torchlint_rules.judging import severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.frequency import Frequency
    from torchlint.training.script import Script

WRAPPER, FUNCTION = "torch.nn.DataParallel", "torch.nn.parallel.data_parallel"
BETTER = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.init_process_group")
GPU = ("torch.cuda.is_available", "torch.cuda.device_count")
OWN = ("forward", "__call__", "replicate", "parallel_apply")
TORCHRUN = Version("1.10")  # has it
DISTRIBUTED = (
    "Start one process a GPU{}, wrap the model in DistributedDataParallel, and give "
    "the DataLoader a DistributedSampler."
)
# What each framework has for it; the first that the file imports counts.
FRAMEWORKS = {
    "lightning": 'Trainer(strategy="ddp")',
    "pytorch_lightning": 'Trainer(strategy="ddp")',
    "accelerate": "`accelerate launch`, and accelerator.prepare wraps the model",
    "transformers.Trainer": "torchrun: started with plain python the Trainer takes DataParallel",
    "transformers.trainer": "torchrun: started with plain python the Trainer takes DataParallel",
    "ignite": "idist.Parallel and idist.auto_model",
}


def data_parallel(script: Script) -> Iterator[Finding]:
    """Find models that one process trains on several GPUs."""
    for call in script.module.index.of(cst.Call):
        if not spreads(script, call) or not call.args:
            continue
        module, devices = argument(call, "module", 0), argument(call, "device_ids", 1)
        if script.name(call.func) == FUNCTION:
            devices = argument(call, "device_ids", 2)
        if devices is not None and is_one(script, devices):
            continue
        if module is None or script.kind(module) == "criterion" or without_gpu(script, call):
            continue
        frequency = trains(script, call)
        if frequency is None:
            continue
        better = any(script.connected.calls(name) for name in BETTER)
        is_plain = not better and not script.frameworks and frequency.rate is Rate.STEP
        yield Finding(
            call,
            f"`{script.module.brief(call.func)}` copies `{script.module.brief(module)}` to every "
            "GPU in each forward pass, and one Python process drives them all",
            severity=severity(frequency, is_plain),
            help=advice(script),
        )


def spreads(script: Script, call: cst.Call) -> bool:
    """Whether a call is one of torch's two, or makes an instance of a class derived from one."""
    if script.name(call.func) in (WRAPPER, FUNCTION):
        return True
    classes = script.connected.evaluation.classes
    return any(
        isinstance(one, Instance)
        and script.connected.evaluation.at(call, script.file) == one.call
        and WRAPPER in classes.library_bases(one.cls)
        and not any(classes.method(one.cls, name) for name in OWN)
        for one in script.value(call)
    )


def argument(call: cst.Call, keyword: str, place: int) -> cst.BaseExpression | None:
    """Return an argument of a call."""
    stars = [arg.value for arg in call.args if arg.star]
    if stars and place and not has_keyword(call, (keyword,)):
        return stars[0]
    return argument_of(call, keyword, place)


def is_one(script: Script, devices: cst.BaseExpression) -> bool:
    """Whether devices are a single one, wherever that is told."""
    value = script.value(devices)
    if isinstance(devices, cst.Call) and script.name(devices.func) == "builtins.range":
        ends = [arg.value for arg in devices.args]  # a number that is told elsewhere is a default
        return [script.value(end) for end in ends if isinstance(end, cst.Integer)] == [(Number(1),)]
    entries = dict(value[0].entries) if value and isinstance(value[0], Dictionary) else {}
    value = entries.get("device_ids", value)
    return bool(value) and all(
        isinstance(one, Sequence) and one.elements is not None and len(one.elements) == 1
        for one in value
    )


def trains(script: Script, call: cst.Call) -> Frequency | None:
    """Return how often a wrapped model runs in training, None where it does not train."""
    connected = script.connected
    if not connected.frequencies.effects.train:
        return None
    if script.name(call.func) == FUNCTION:
        return script.frequency(call)
    made = connected.evaluation.at(call, script.file)
    if not may_be_trained(connected.uses, made):
        return None
    uses, frequencies = connected.uses, connected.frequencies
    met = uses.of(made)
    runs = [frequencies.of(one.node, one.file) for one in met if uses.is_run(one)]
    steps = [one for one in runs if one.rate is Rate.STEP]
    if steps:
        return next((one for one in steps if one.in_every_step), steps[0])
    leaves = (cst.Arg, cst.Return, cst.Element)
    stored = any(
        isinstance(one.parent, cst.Assign)
        and isinstance(one.parent.targets[0].target, (cst.Attribute, cst.Subscript))
        for one in met
    )
    is_open = stored or any(isinstance(one.parent, leaves) for one in met)
    return script.frequency(call) if is_open and not runs else None


def without_gpu(script: Script, call: cst.Call) -> bool:
    """Whether a call stands where there is no GPU."""
    child: cst.CSTNode = call
    for above in script.module.index.ancestors(call):
        if isinstance(above, cst.If) and child is above.orelse and isinstance(above.test, cst.Call):
            return script.name(above.test.func) in GPU
        child = above
    return False


def advice(script: Script) -> str:
    """Say what to use instead: the framework's own way, where there is one."""
    own = [FRAMEWORKS[name] for name in sorted(script.frameworks) if name in FRAMEWORKS]
    target = script.settings.target
    started = " with torchrun" if target is None or target >= TORCHRUN else ""
    return f"Use {own[0]}." if own else DISTRIBUTED.format(started)
