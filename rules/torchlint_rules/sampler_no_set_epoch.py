"""Every epoch of a distributed training goes through the data in one and the same order.

## Why
`DistributedSampler` draws its order from a seed and the number of the epoch, so that all processes
agree on it. It does not count epochs by itself: unless `set_epoch` tells it, every epoch has the
order of the first, and every process gets the same part of the data each time.

TL804b: without a `DistributedSampler` each process of `DistributedDataParallel` goes through all of
the data, and an epoch takes as long as on one GPU.

## Bad
    from torch.utils.data import DataLoader, DistributedSampler

    def train(model, dataset, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=64, sampler=sampler)
        for epoch in range(epochs):
            for x, y in loader:
                model(x, y).backward()

## Good
    from torch.utils.data import DataLoader, DistributedSampler

    def train(model, dataset, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=64, sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                model(x, y).backward()

## Leaves alone
- Samplers with `shuffle=False` or an unknown value, that no training step draws from, or that are
  made anew in each epoch; training of a single epoch.
- Samplers that `set_epoch` may be called of, also by code that is not seen and gets the loader.
- Files that import a framework that calls `set_epoch` (all but DeepSpeed).
- TL804b: datasets that are unknown, iterated, or parts of something (`x[rank::2]`); loaders with a
  sampler of any kind.

No fix for TL804b, with DeepSpeed, or where the loop has no name for the epoch or the sampler.

## Fix safety
Unsafe: the data come in another order from the second epoch on, which is the point. Where the
sampler may be another one, or None, the call stands under a condition.

## Evidence
`torchlint bench TL804` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 256: 1.59 ms and 1.59 ms, 1.00 x (0.98 to 1.03): no measurable change; results as
  E3 allows.
- epoch, samples 2048: 12.4 ms and 12.3 ms, 1.00 x (0.98 to 1.03): no measurable change; results as
  E3 allows.

On a GPU: not measured yet.

On a CPU, torch 2.13.0, `python -c "from torch.utils.data import DistributedSampler as S; s =
S(range(8), 2, 0); print(list(s), list(s)); s.set_epoch(1); print(list(s))"`: `[4, 7, 2, 1]` twice,
then `[5, 2, 7, 1]`.

## References
- PyTorch documentation, "torch.utils.data.distributed.DistributedSampler"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import InsertBefore, Replace
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Nothing
from torchlint.syntax.calls import has_keyword
from torchlint.syntax.chains import root_of
from torchlint.syntax.line_layout import default_indent
from torchlint.training.frequency import Rate
from torchlint.training.hoisting import free_name, is_unchanged
from torchlint.training.loaders import loaders_in
from torchlint.training.samplers import epochs, is_distributed, may_be_told, may_divide, samplers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.passes import Around
    from torchlint.training.samplers import Sampler
    from torchlint.training.script import Script

LEAVES_LOADERS = frozenset({"deepspeed"})  # its engine takes batches, wherever they come from
WRAPPER = "torch.nn.parallel.DistributedDataParallel"


def sampler_no_set_epoch(script: Script) -> Iterator[Finding]:
    """Find distributed samplers that are not told the epoch, and training without a sampler."""
    if script.frameworks - LEAVES_LOADERS:
        return
    connected, asked = script.connected, set[cst.CSTNode]()
    for loader in connected.loaders:
        for sampler in samplers_of(connected.evaluation, loader):
            loops = epochs(connected, sampler)
            is_here = sampler.at.file == script.file and sampler.node not in asked
            if is_here and sampler.shuffles and loops and loader.told("shuffle") is not True:
                asked.add(sampler.node)
                if not may_be_told(connected.evaluation, sampler):
                    yield finding(script, sampler, loops)
    if not script.frameworks:
        yield from unsampled(script)


def finding(script: Script, sampler: Sampler, loops: list[Around]) -> Finding:
    """Return the finding for a sampler that shuffles every epoch alike."""
    given, home = sampler.loader.arguments.get("sampler"), sampler.loader.at.file
    name = "this DistributedSampler"
    if given and isinstance(given.node, (cst.Name, cst.Attribute)):
        name = f"`{script.connected.evaluation.module(home).brief(given.node)}`"
    return Finding(
        sampler.node,
        f"{name} gives every epoch the order of the first: nothing calls its `set_epoch`",
        None if script.frameworks else fix(script, sampler, loops),
        help="Call sampler.set_epoch(epoch) before each pass over the loader.",
    )


def fix(script: Script, sampler: Sampler, loops: list[Around]) -> Fix | None:
    """Return the fix: the call as the first statement of each loop over epochs."""
    rewrites: list[Rewrite] = []
    for one in loops:
        loop = one.loop
        if one.file != script.file or not isinstance(loop, cst.For):
            return None
        number, told = number_of(script, loop), handle(script, sampler, loop)
        if number is None or told is None or not isinstance(loop.body, cst.IndentedBlock):
            return None
        line = f"{told[0]}.set_epoch({number})"
        if told[1]:
            line = f"if {told[1]}:\n{default_indent(script.module)}{line}"
        first = loop.body.body[0]
        assert isinstance(first, cst.BaseStatement)
        rewrites.append(InsertBefore(first, line))
        if number != script.module.code(loop.target):
            rewrites.append(Replace(loop.target, number))
    changes = "from the second epoch on the data come in another order"
    return Fix("Tell the sampler the epoch", Safety.UNSAFE, tuple(rewrites), changes=changes)


def number_of(script: Script, loop: cst.For) -> str | None:
    """Return the name of an epoch's number, a new one where it has only been ``_``."""
    name = loop.target.value if isinstance(loop.target, cst.Name) else None
    if name != "_":
        return name
    if any(name.value == "_" for name in script.module.index.below(loop.body, cst.Name)):
        return None
    return free_name(script.module, ("epoch", "epoch_number"), loop)


def handle(script: Script, sampler: Sampler, loop: cst.For) -> tuple[str, str] | None:
    """Return how a loop can speak of the sampler, and under which condition it is one."""
    module, loader = script.module, sampler.loader
    given = loader.arguments.get("sampler")
    if given is None:
        return None
    node = given.node if loader.at.file == script.file else None
    below = module.index.below
    if isinstance(node, cst.Name) and is_unchanged(module, node, loop):
        return under(script, module.code(node), sampler, loop)
    for each in (*below(loop.body, cst.Name), *below(loop.body, cst.Attribute)):
        is_one = loader.at in loaders_in(script.value(each)) and len(script.value(each)) == 1
        if is_one and is_unchanged(module, each, loop):
            return under(script, f"{module.code(each)}.sampler", sampler, loop)
    return None


def under(script: Script, code: str, sampler: Sampler, loop: cst.For) -> tuple[str, str] | None:
    """Return code for the sampler of a loader, and when it is a distributed one."""
    others = [one for one in sampler.loader.value("sampler") if not is_distributed(one)]
    if not others:
        return code, ""
    if all(isinstance(one, Nothing) for one in others) and not code.endswith(".sampler"):
        return code, f"{code} is not None"
    root, scope = root_of(sampler.node.func), script.module.index.scope
    is_same = isinstance(root, cst.Name) and (
        scope(loop).owner(root.value) is scope(root).owner(root.value)
    )
    asks = f"isinstance({code}, {script.module.code(sampler.node.func)})"
    return (code, asks) if is_same else None


def unsampled(script: Script) -> Iterator[Finding]:
    """Find loaders that give each process of a distributed training all of the data (TL804b)."""
    evaluation = script.connected.evaluation
    wrapped = [node for _, node, name in evaluation.makings.values() if name == WRAPPER]
    is_one_group = not any(has_keyword(one, ("process_group", "device_mesh")) for one in wrapped)
    for loader in script.loaders if wrapped and is_one_group else ():
        if not loader.lacks("sampler", "batch_sampler", "generator"):
            continue
        datasets = script.datasets(loader)
        is_known = datasets.is_iterable is False and bool(datasets.found)
        steps = [one for one in script.connected.turns(loader) if one.rate is Rate.STEP]
        if is_known and steps and not may_divide(datasets):
            is_sure = any(one.certain for one in steps)
            yield Finding(
                loader.node,
                "each process of DistributedDataParallel goes through all of the data: "
                "this DataLoader has no DistributedSampler",
                severity=Severity.WARNING if is_sure else Severity.INFO,
                case="b",
                help="Pass sampler=DistributedSampler(dataset) in place of shuffle=True, and call "
                "its set_epoch(epoch) before each pass.",
            )
