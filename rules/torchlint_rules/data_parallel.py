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
- One device (`device_ids=[0]`, or a parameter that is `[0]` wherever it can be seen, or an
  assertion that there is but one): the model is then called as it is.
- Files that are not seen to train: evaluation and export scripts, tests, definitions of models; and
  functions and branches of training scripts that only evaluate (`if args.test_only:`).
- Models that only evaluations get from there on, in a script that trains above: functions that
  evaluate and take no step (`evaluate(model, loader)`), and loops that evaluate.
- Models that are wrapped for their weights alone, and neither called nor passed on, or not before
  the wrapper is taken off (`model = model.module`).
- Models run where gradients of weights are asked for with their graph, to go back through the steps
  of a training (`torch.autograd.grad(loss, weights, create_graph=True)`, and `w - lr * g`):
  DistributedDataParallel only works with gradients that `backward()` adds up.
- Losses, which have no weights to copy.
- Branches that tell their user to start processes instead, and those that run without a GPU.
- `isinstance(model, nn.DataParallel)`, classes derived from it that run or copy the model in their
  own way (`forward`, `replicate`), and wrappers of other libraries.

Under a training framework it is information: the framework has its own way to start processes.  So
it is in a file that can also be started with a process a GPU, in one that scripts import where the
project has such a way, and where an option names the devices, be it those that the script can see
(`CUDA_VISIBLE_DEVICES`), and its default is one.

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

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.branches import without_gpu
from torchlint.analysis.debugging import in_test
from torchlint.analysis.device_lists import asserts_one, by_default_one, is_one_device, sees_one
from torchlint.analysis.loops import ends_script
from torchlint.analysis.own_parallel import DATA_PARALLEL, own_wraps
from torchlint.analysis.profiling import loops_inside
from torchlint.analysis.scripts import is_script
from torchlint.analysis.unrolled import is_unrolled
from torchlint.analysis.unrun import is_never_run, is_only_evaluated, is_taken_off
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

WRAPPER, FUNCTION = "torch.nn.DataParallel", "torch.nn.parallel.data_parallel"
# Where each of the two can be imported from.
NAMES = {
    **dict.fromkeys(sorted(DATA_PARALLEL), WRAPPER),
    FUNCTION: FUNCTION,
    "torch.nn.parallel.data_parallel.data_parallel": FUNCTION,
}
# The file has, or was given, a process for each GPU: this is what is left without them.
BETTER = re.compile(
    r"DistributedDataParallel|DDP\b|torchrun|init_process_group|distributed\.(launch|run)\b|horovod"
)
SIBLINGS = ("DistributedDataParallel", "DDP(", "torchrun", "init_process_group", "horovod")
EVALUATES = re.compile(
    r"([\w.]+\.)?(test|eval|evaluate|inference|infer)(_?only)?( is True| == True)?", re.IGNORECASE
)
LOSS = re.compile(r"(?!.*(?:model|net))\w*(?:loss|criterion)", re.IGNORECASE)
SAYS = re.compile(r"\bDDP\b|[Dd]istributed")
TORCHRUN = Version("1.10")  # has it
DISTRIBUTED = (
    "Start one process a GPU{}, wrap the model in DistributedDataParallel, and give "
    "the DataLoader a DistributedSampler."
)
# What each framework has for it; the first that the file imports counts.
OWN = {
    "lightning": 'Trainer(strategy="ddp")',
    "pytorch_lightning": 'Trainer(strategy="ddp")',
    "accelerate": "`accelerate launch`, and accelerator.prepare wraps the model",
    "transformers.Trainer": "torchrun: started with plain python the Trainer takes DataParallel",
    "transformers.trainer": "torchrun: started with plain python the Trainer takes DataParallel",
    "ignite": "idist.Parallel and idist.auto_model",
}


@dataclass(frozen=True, slots=True, eq=False)
class Wrap:
    """One call that spreads a model; ``one``: on one device, ``asked``: on more on request only."""

    call: cst.Call
    function: str
    one: bool
    asked: bool


def data_parallel(program: Program) -> Iterator[Finding]:
    """Find models that one process trains on several GPUs."""
    found = list(wraps(program))
    for wrap in found if found and trains(program) else ():
        call, function = wrap.call, wrap.function
        if wrap.one or in_test(program, call):
            continue
        if without_gpu(program, call) or is_not_trained(program, call) or is_told(program, call):
            continue
        module = program.argument(call, "module", function)
        if function == WRAPPER and (
            is_spared(program, call) or any(is_loss(program, one) for one in module.values)
        ):
            continue
        what = f"`{program.brief(module.values[0])}`" if module.values else "the model"
        yield Finding(
            call,
            f"`{program.brief(call.func)}` copies {what} to every GPU in each forward pass, and "
            "one Python process drives them all",
            severity=severity(program, wrap),
            help=advice(program),
        )


def wraps(program: Program) -> Iterator[Wrap]:
    """Yield the calls of torch's two, and of the project's classes that are derived from one."""
    if asserts_one(program):
        return
    for call in program.calls_of(*NAMES):
        function = NAMES[program.qualified(call.func)]
        named = program.argument(call, "device_ids", function).values
        one = bool(named) and all(is_one_device(program, node) for node in named)
        asked = bool(named) and all(by_default_one(program, node) for node in named)
        if call.args:
            yield Wrap(call, function, one, asked)
    for call, devices in own_wraps(program):
        one = any(is_one_device(*place) for place in devices)
        yield Wrap(call, WRAPPER, one, any(by_default_one(*place) for place in devices))


def is_spared(program: Program, wrap: cst.Call) -> bool:
    """Whether a wrapped model is not trained with, or in a way that needs this wrapper."""
    return (
        is_never_run(program, wrap)
        or is_only_evaluated(program, wrap)
        or is_taken_off(program, wrap)
        or is_unrolled(program, wrap)
    )


def is_loss(program: Program, module: cst.BaseExpression) -> bool:
    """Whether what is wrapped computes a loss, by its name or class: it has no weights to copy.

    A model with its loss does (`model_and_loss`, `NetLoss(net)`).
    """
    names = (dotted(module), program.value(module).type)
    return any(LOSS.fullmatch(name.rpartition(".")[2]) for name in names)


def severity(program: Program, wrap: Wrap) -> Severity | None:
    """Information where the file has another way, or names several GPUs on request only."""
    asked = wrap.asked or sees_one(program)
    known = program.frameworks or BETTER.search(program.text) or has_sibling(program)
    return Severity.INFO if known or asked else None


def has_sibling(program: Program) -> bool:
    """Whether scripts that import the file have a process a GPU at hand, in another file."""
    if program.project is None or is_script(program):
        return False
    return bool(program.project.imports.having(SIBLINGS))


def trains(program: Program) -> bool:
    """Whether the file is seen to train, itself or in what it calls in other files."""
    loops = program.loops
    return any(program.method_calls("backward", "manual_backward")) or loops.leads or loops.starts


def is_not_trained(program: Program, call: cst.Call) -> bool:
    """Whether what is wrapped is only evaluated: in such a function, or in such a branch."""
    function = program.function(call)
    if function is not None and program.loops.evaluates(function):
        return True
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If) and child is above.body and evaluates(program, above):
            return not loops_inside(program, above.body)
        child = above
    return False


def evaluates(program: Program, branch: cst.If) -> bool:
    """``if args.test_only:``, or a branch after which the script ends."""
    return bool(EVALUATES.fullmatch(program.code(branch.test))) or ends_script(branch.body)


def is_told(program: Program, call: cst.Call) -> bool:
    """Whether the branch itself says that processes are better: a last resort, and known as one."""
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If) and child is not above.test:
            texts = program.index.below(child, cst.SimpleString)
            return any(SAYS.search(text.value) for text in texts if " " in text.value)
        if isinstance(above, cst.FunctionDef):
            return False
        child = above
    return False


def advice(program: Program) -> str:
    """Say what to use instead: the framework's own way, where there is one."""
    own = [OWN[name] for name in sorted(program.frameworks) if name in OWN]
    started = " with torchrun" if program.reaches(TORCHRUN) else ""
    return f"Use {own[0]}." if own else DISTRIBUTED.format(started)
