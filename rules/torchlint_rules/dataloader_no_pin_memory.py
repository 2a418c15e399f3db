"""Batches go to a GPU from a DataLoader that does not pin its memory.

## Why
A GPU copies only from page-locked ("pinned") memory.  A batch in ordinary memory is first copied by
the driver into a pinned buffer of its own, while Python waits.  With `pin_memory=True` a thread of
the DataLoader puts each batch into pinned memory beforehand, and the copy to the GPU can run beside
other work (with `non_blocking=True`).

## Bad
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4)
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=device.type == "cuda")
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Loaders that are told to pin, or may be: by an option, a variable, a dictionary that is not known.
- Loaders whose batches are not seen to go to a GPU in this project, and scripts for the CPU, MPS or
  XLA.
- What goes to the GPU as a copy of the batch (`x[mask]`, `torch.cat`, `x + 1`, `x.half()`): such a
  copy lies in ordinary memory.
- Datasets and `collate_fn`s that make tensors on the GPU (TL108) or sparse ones: asking to pin
  those raises.

Reported as information: loaders without workers, where the main thread would do the pinning; those
that only evaluations go through; batches that go to a device that is not known, or perhaps as a
copy (`x.float()`).

Reported without a fix: loaders that a framework goes through and moves the batches of, those
without workers of a dataset that is in memory, a `False` in a dictionary or a variable, and batches
that are objects of a class of the project without a method `pin_memory`: PyTorch hands such objects
on unpinned, without a word, whatever the loader is told.

## Fix safety
Safe where `num_workers` is known to be above 0 and the code names CUDA: the values are the same,
and the pinning is done beside the training.  It takes page-locked memory for a few batches.  Unsafe
without workers, or where their number or the device is not known; where `False` was written; where
the project works with sparse tensors, and for PyTorch Geometric's graphs, which may hold some; and
where a `collate_fn` may return a tuple that the loop does not take apart, of which pinning makes a
list.

Where the device depends, so does what is written: `device.type == "cuda"` if `device` is known to
be a `torch.device` made before the loader, else `torch.cuda.is_available()`.

## Evidence
A CPU has nothing to show: memory is pinned for copies to a GPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Memory Pinning"
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
- PyTorch Performance Tuning Guide, "Enable asynchronous data loading and augmentation"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, AddImport, Replace, Rewrite
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Loaded, Number, Truth
from torchlint.training.datasets import datasets_of
from torchlint.training.frequency import Frequency, Rate
from torchlint.training.gpu_condition import condition_for_gpu
from torchlint.training.sparse import gives_sparse, is_graph, makes_sparse
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.copies import Batches, DeviceCopy
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

TOGETHER = "Set num_workers above 0 as well: without workers the main thread does the pinning."
FASTER = "Pinned batches can be copied while the GPU works: pass non_blocking=True to the copies."
WAITS = "The copies wait as they are, though they are passed non_blocking=True."


def dataloader_no_pin_memory(script: Script) -> Iterator[Finding]:
    """Find loaders without pinned memory whose batches go to a GPU."""
    for loader in script.loaders:
        batches = script.batches(loader)
        argument = loader.arguments.get("pin_memory")
        options = argument.value if argument else ()
        is_option = any(isinstance(one, Truth) and one.option for one in options)
        found = list(unpinned(script, loader, batches)) if loader.is_pinned is False else []
        if not is_option:
            yield from found or unpinned_class(script, loader, batches)


def unpinned(script: Script, loader: Loader, batches: Batches) -> Iterator[Finding]:
    """Find a loader that is not told to pin its memory, and should be."""
    effects = script.connected.frequencies.effects
    datasets = datasets_of(effects, loader)
    if datasets.gives_gpu_tensors or gives_sparse(effects, loader):
        return
    uploads = batches.uploads()
    if not uploads:
        if is_wrapped(script, loader):
            yield Finding(
                loader.node,
                "the framework that goes through this DataLoader copies its batches to the device, "
                "but it does not pin its memory",
                None if script.frameworks - {"ignite"} else fix(script, loader, [], is_plain=False),
                Severity.INFO,
                help="Pass pin_memory=True: the framework does not add it.",
            )
        return
    copy, loaded = max(uploads, key=lambda one: (rank(script, one[0]), one[1]))
    is_seen = any(one.is_seen for one, _ in uploads)
    is_plain = loaded is Loaded.YES and not batches.is_whole(copy)
    told = "is told not to pin its memory" if "pin_memory" in loader.arguments else ""
    go = "go to the GPU" if is_seen else "may go to a GPU"
    alone = loader.has_workers is False
    worth = ": worth it together with workers, which pin apart from training" if alone else ""
    yield Finding(
        loader.node,
        f"the batches of this DataLoader {go} (`{code_of(script, copy)}`), but it "
        f"{told or 'does not pin its memory'}{worth}",
        None
        if alone and datasets.is_in_memory
        else fix(script, loader, [one for one, _ in uploads], is_plain=is_plain),
        judging.severity(
            often(script, copy),
            is_seen,
            loaded is Loaded.YES,
            not alone,
            not script.frameworks - {"ignite"},
        ),
        help=TOGETHER
        if alone
        else WAITS
        if all(one.non_blocking for one, _ in uploads)
        else FASTER,
    )


def often(script: Script, copy: DeviceCopy) -> Frequency:
    """Return how often a copy is made."""
    return script.connected.frequencies.of(copy.node, copy.file)


def rank(script: Script, copy: DeviceCopy) -> tuple[int, bool, int]:
    """Return what makes a copy the one to name: the most frequent, of the batch as it is."""
    frequency = often(script, copy)
    is_plain = not isinstance(copy.tensor, cst.Call)
    return frequency.rate, frequency.certain, is_plain


def code_of(script: Script, copy: DeviceCopy) -> str:
    """Return the code of a copy, which may stand in another file."""
    return script.connected.files.modules[copy.file].brief(copy.node)


def unpinned_class(script: Script, loader: Loader, batches: Batches) -> Iterator[Finding]:
    """Find a class whose objects hold what goes to the GPU, and that nothing pins."""
    for cls in batches.classes:
        parts = batches.parts_of(cls) if batches.is_pinned(cls) is False else []
        if not parts:
            continue
        copy = max(parts, key=lambda one: rank(script, one))
        is_told = "pin_memory" in loader.arguments
        told = "though this DataLoader is told to pin its memory, " if is_told else ""
        yield Finding(
            loader.node,
            f"{told}nothing pins a `{cls.name}`, whose parts go to the GPU "
            f"(`{code_of(script, copy)}`): the class has no method `pin_memory`",
            severity=judging.severity(often(script, copy), is_told, copy.is_seen),
            help=f"Give `{cls.name}` a method `pin_memory` that pins its tensors and returns it.",
        )


def is_wrapped(script: Script, loader: Loader) -> bool:
    """Whether a framework goes through the loader in training, and moves its batches."""
    if any(one.fits and not one.fits.endswith("evaluator") for one in loader.passes):
        return True
    turns = [script.connected.frequencies.of(one.node, one.file) for one in loader.turns]
    others = script.frameworks - {"ignite"}
    return bool(others) and any(one.rate >= Rate.EVAL_STEP for one in turns)


def fix(script: Script, loader: Loader, copies: list[DeviceCopy], *, is_plain: bool) -> Fix | None:
    """Return the fix: the argument, written so that it holds wherever the script runs."""
    evaluation, argument = script.connected.evaluation, loader.arguments.get("pin_memory")
    condition = condition_for_gpu(evaluation, loader.at, copies)
    is_written = argument is None or isinstance(argument.node, cst.Name)
    if condition is None or not is_written or script.frameworks - {"ignite"}:
        return None
    rewrite: Rewrite = AddArgument(loader.node, "pin_memory", condition.code)
    if argument is not None and argument.node is not None:
        if script.module.brief(argument.node) != "False":
            return None
        rewrite = Replace(argument.node, condition.code)
    doubts = (
        ("the main thread pins each batch, if there are no workers", not are_sure(loader)),
        ("a GPU is an assumption", not any(copy.is_seen for copy in copies)),
        ("what goes to the GPU may be a copy", not is_plain),
        ("False was written on purpose", argument is not None),
        (
            "batches may hold sparse tensors, which cannot be pinned",
            makes_sparse(evaluation) or is_graph(evaluation, loader),
        ),
        ("a batch that is a tuple becomes a list", script.batches(loader).becomes_list()),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        f"{'Change to' if argument else 'Pass'} pin_memory={condition.code}",
        Safety.UNSAFE if changes else Safety.SAFE,
        (rewrite, *((AddImport("torch"),) if condition.needs_torch else ())),
        changes=changes,
    )


def are_sure(loader: Loader) -> bool:
    """Whether there are workers, whatever options say."""
    numbers = loader.value("num_workers")
    is_option = any(isinstance(one, Number) and one.option for one in numbers)
    return bool(loader.has_workers) and not is_option
