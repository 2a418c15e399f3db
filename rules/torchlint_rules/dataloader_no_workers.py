"""A DataLoader without worker processes reads and prepares every batch while training waits.

## Why
With `num_workers=0`, the default, the process that trains also opens, decodes and transforms every
sample, one after the other, and the GPU has nothing to do until the batch is complete. Worker
processes prepare the next batches while the current one is computed.

## Bad
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model):
        for x, y in DataLoader(ImageFolder("a"), 64):
            model(x.cuda(), y.cuda()).backward()

## Good
    import os

    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model):
        for x, y in DataLoader(ImageFolder("a"), 64, num_workers=min(4, os.cpu_count() or 1)):
            model(x.cuda(), y.cuda()).backward()

## Leaves alone
- Loaders that may have workers, and those that nothing takes more than one batch from.
- Datasets in memory, which workers make slower: tensors (TL104), lists, arrays, classes whose
  `__getitem__` only takes rows.
- Datasets and `collate_fn`s that make tensors on the GPU (TL108), which workers cannot.

It is information for samples of unknown cost, options that are 0 by default, outside of training
steps, and without a GPU. No fix for a 0 in a variable, what cannot be sent to workers (a `lambda`),
training on import, datasets that are iterated, and under a framework.

## Fix safety
Unsafe. The samples come in the same order, but each worker draws its own random numbers, has its
own copy of the dataset and of what that remembers, and must not share an open file. The number is
the project's `num-workers`, else what the machine says.

## Evidence
`torchlint bench TL101` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 256, side 192: 270 ms and 244 ms, 1.11 x (1.04 to 1.18): faster; results bitwise
  equal.
- epoch, samples 64, side 32: 8.82 ms and 46.2 ms, 0.19 x (0.16 to 0.22): slower here; results
  bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Single- and Multi-process Data Loading"
- PyTorch Performance Tuning Guide, "Enable asynchronous data loading and augmentation"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, AddImport, Replace, Rewrite
from torchlint.rule import Finding
from torchlint.training.frequency import Frequency, Rate
from torchlint.training.spelling import name_at
from torchlint.training.workers import started_by_import, unpicklable
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.datasets import Datasets
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

TRY = "How many workers are best depends on the machine: try a few numbers."
UNSEEN = "Try num_workers above 0, if samples are read, decoded or transformed."
DEFAULT = "The option has 0 as its default: give it a few workers for who does not ask."
SHARE = "Have the dataset share its samples out by get_worker_info(), and pass num_workers above 0."
IMPORTED = (
    'Put what trains under `if __name__ == "__main__":` and pass num_workers above 0: '
    "workers that are not forked import this file again."
)
CHANGES = (
    "random numbers drawn for a sample come from each worker's own generator, "
    "and each worker holds a copy of the dataset, with what it remembers"
)


def dataloader_no_workers(script: Script) -> Iterator[Finding]:
    """Find loaders that prepare costly samples in the main process."""
    for loader in script.loaders:
        turns = batches(script, loader) if loader.has_workers is False else []
        datasets = script.datasets(loader)
        cost = datasets.cost if turns else ""
        if cost == "" or datasets.gives_gpu_tensors:
            continue
        often = max(turns, key=lambda one: (one.rate, one.certain))
        is_optional = loader.is_optional("num_workers")
        first = obstacle(script, loader, datasets) if cost else UNSEEN
        is_plain = bool(cost) and not is_optional and datasets.is_iterable is False
        proved = is_plain, script.connected.uses_gpu, not is_wrapped(script, loader)
        waits = "training" if often.rate is Rate.STEP else "what goes through it"
        yield Finding(
            loader.node,
            f"this DataLoader prepares its samples{f' (`{cost}`)' if cost else ''} in the main "
            f"process{', unless an option says otherwise' if is_optional else ''}: "
            f"{waits} waits for every batch",
            fix(script, loader) if is_plain and not first else None,
            judging.severity(often, *proved),
            help=first or (DEFAULT if is_optional else TRY),
        )


def batches(script: Script, loader: Loader) -> list[Frequency]:
    """Return how often batches are taken, without looks at a single one."""
    found = script.connected.turns(loader)
    found = [one for one in found if one.rate > Rate.EPOCH]
    for one in loader.passes:
        if one.fits:
            rate = Rate.EVAL_STEP if one.fits.endswith("evaluator") else Rate.STEP
            found.append(Frequency(rate))
    unseen = Frequency(Rate.ONCE, known=False)
    return found or ([unseen] if loader.is_handed_on else [])


def is_wrapped(script: Script, loader: Loader) -> bool:
    """Whether a framework goes through the loader in a way of its own."""
    fits = (one.fits for one in loader.passes)
    others = script.frameworks - {"ignite"}
    return bool(others) or any(one and not one.startswith("ignite.") for one in fits)


def obstacle(script: Script, loader: Loader, datasets: Datasets) -> str:
    """Return what has to be done before workers can be used, or ""."""
    evaluation = script.connected.evaluation
    if datasets.is_iterable is not False:
        return SHARE
    if is_wrapped(script, loader):
        return "Pass num_workers above 0: the framework does not choose it."
    if any(started_by_import(evaluation, one.node, one.file) for one in loader.passes):
        return IMPORTED
    local = unpicklable(evaluation, loader)
    to_send = "at the level of the module, so that it can be sent to workers"
    return f"Define `{local.text}` {to_send}." if local else ""


def fix(script: Script, loader: Loader) -> Fix | None:
    """Return the fix: the project's number of workers, or one that asks the machine."""
    argument, number = loader.arguments.get("num_workers"), script.settings.preferences.num_workers
    code, imports = str(number), tuple[AddImport, ...]()
    if number is None:
        asks = name_at(script, loader.node, "os", "cpu_count")
        code = f"min(4, {asks}() or 1)"
        if not asks or script.module.index.scope(loader.node).owner("min"):
            return None
        imports = (AddImport("os"),) if asks.startswith("os.") else ()
    if number == 0 or (argument and not isinstance(argument.node, cst.Integer)):
        return None
    rewrite: Rewrite = AddArgument(loader.node, "num_workers", code)
    if argument and argument.node:
        rewrite = Replace(argument.node, code)
    title = f"{'Change to' if argument else 'Pass'} num_workers={code}"
    return Fix(title, Safety.UNSAFE, (rewrite, *imports), changes=CHANGES)
