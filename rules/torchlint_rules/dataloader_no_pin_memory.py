"""Batches go to a GPU from a DataLoader that does not pin its memory.

## Why
A GPU copies only from page-locked ("pinned") memory. A batch in ordinary memory is first copied by
the driver into a pinned buffer of its own, while Python waits. With `pin_memory=True` a thread of
the DataLoader pins each batch beforehand, and the copy can run beside other work (with
`non_blocking=True`).

## Bad
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4)
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()

## Good
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=device.type == "cuda")
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()

## Leaves alone
- Loaders that are told to pin, or may be: by an option, a variable, an unknown dictionary.
- Loaders whose batches are not seen to go to a GPU; scripts for the CPU, MPS or XLA.
- What goes to the GPU as a copy of the batch (`x[mask]`, `x.half()`): it is not pinned.
- Datasets and `collate_fn`s that make tensors on the GPU (TL108): pinning raises.

It is information without workers, where the main thread would pin; in evaluations; for an unknown
device, sparse tensors, or perhaps a copy (`x.float()`). No fix with a framework, for data in memory
without workers, and for objects of a class without a method `pin_memory`.

## Fix safety
Safe where there are workers and the code names CUDA. Unsafe where workers or device are not known,
`False` was written, batches may be sparse, or a `collate_fn` may return a tuple: pinning makes a
list of it. Where the device depends, so does what is written:
`device.type == "cuda"` or `torch.cuda.is_available()`.

## Evidence
A CPU has nothing to show: memory is pinned for copies to a GPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Memory Pinning"
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import AddArgument, AddImport, Replace, Rewrite
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Loaded
from torchlint.training.frequency import Rate
from torchlint.training.gpu_condition import condition_for_gpu
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.copies import Batches, DeviceCopy
    from torchlint.training.frequency import Frequency
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

WORD = "pin_memory"
TOGETHER = "Set num_workers above 0 as well: without workers the main thread does the pinning."
FASTER = "Pinned batches can be copied while the GPU works: pass non_blocking=True to the copies."
WAITS = "The copies wait as they are, though they are passed non_blocking=True."


def dataloader_no_pin_memory(script: Script) -> Iterator[Finding]:
    """Find loaders without pinned memory whose batches go to a GPU."""
    for loader in script.loaders:
        if not loader.is_optional(WORD):
            batches = script.batches(loader)
            if loader.is_pinned is False and (found := unpinned(script, loader, batches)):
                yield found
            yield from unpinned_class(script, loader, batches)


def unpinned(script: Script, loader: Loader, batches: Batches) -> Finding | None:
    """Return the finding for a loader that is not told to pin its memory, and should be."""
    datasets = script.datasets(loader)
    if datasets.gives_gpu_tensors:
        return None
    uploads = batches.uploads()
    if not uploads:
        return of_framework(script, loader)
    copy, loaded = max(uploads, key=lambda one: (rank(script, one[0]), one[1]))
    is_seen = any(one.is_seen for one, _ in uploads)
    is_plain = loaded is Loaded.YES
    is_told, alone = WORD in loader.arguments, loader.has_workers is False
    can_fix = not (alone and datasets.is_in_memory)
    is_dense = not script.connected.makes_sparse
    proved = is_seen, is_plain, not alone, is_dense, not script.frameworks - {"ignite"}
    copies = [one for one, _ in uploads]
    wait = all(one.non_blocking for one in copies)
    return Finding(
        loader.node,
        f"the batches of this DataLoader {'go to the' if is_seen else 'may go to a'} GPU "
        f"(`{code_of(script, copy)}`), but it "
        + ("is told not to pin its memory" if is_told else "does not pin its memory")
        + (": worth it together with workers, which pin apart from training" if alone else ""),
        fix(script, loader, copies, is_plain) if can_fix else None,
        judging.severity(often(script, copy), all(proved)),
        help=TOGETHER if alone else WAITS if wait else FASTER,
    )


def of_framework(script: Script, loader: Loader) -> Finding | None:
    """Return the finding for a loader whose batches a framework moves, in training."""
    turns = script.connected.turns(loader)
    is_run = any(one.fits and not one.fits.endswith("evaluator") for one in loader.passes)
    others = script.frameworks - {"ignite"}
    if not is_run and not (others and any(one.rate >= Rate.EVAL_STEP for one in turns)):
        return None
    return Finding(
        loader.node,
        "the framework that goes through this DataLoader copies its batches to the device, "
        "but it does not pin its memory",
        fix(script, loader, [], is_plain=False),
        Severity.INFO,
        help="Pass pin_memory=True: the framework does not add it.",
    )


def often(script: Script, copy: DeviceCopy) -> Frequency:
    """Return how often a copy is made."""
    return script.connected.frequencies.of(copy.node, copy.file)


def rank(script: Script, copy: DeviceCopy) -> tuple[bool, int, bool, bool]:
    """Return what makes a copy the one to name: nearest, most frequent, of the batch as it is."""
    frequency, is_near = often(script, copy), copy.file == script.file
    return is_near, frequency.rate, frequency.certain, not isinstance(copy.tensor, cst.Call)


def code_of(script: Script, copy: DeviceCopy) -> str:
    """Return the code of a copy, which may stand in another file."""
    return script.connected.evaluation.module(copy.file).brief(copy.node)


def unpinned_class(script: Script, loader: Loader, batches: Batches) -> Iterator[Finding]:
    """Find a class whose objects hold what goes to the GPU, and that nothing pins."""
    is_told = WORD in loader.arguments
    for cls in batches.classes:
        parts = batches.parts_of(cls) if batches.is_pinned(cls) is False else []
        if parts:
            copy = max(parts, key=lambda one: rank(script, one))
            yield Finding(
                loader.node,
                f"{'though this DataLoader is told to pin its memory, ' if is_told else ''}"
                f"nothing pins a `{cls.name}`, whose parts go to the GPU "
                f"(`{code_of(script, copy)}`): the class has no method `pin_memory`",
                severity=judging.severity(often(script, copy), is_told, copy.is_seen),
                help=f"Give `{cls.name}` a `pin_memory` that pins its tensors and returns it.",
            )


def fix(script: Script, loader: Loader, copies: list[DeviceCopy], is_plain: bool) -> Fix | None:
    """Return the fix: the argument, written so that it holds wherever the script runs."""
    evaluation, argument = script.connected.evaluation, loader.arguments.get(WORD)
    condition = condition_for_gpu(evaluation, loader.at, copies)
    if condition is None or script.frameworks - {"ignite"}:
        return None
    rewrite: Rewrite = AddArgument(loader.node, WORD, condition)
    if argument is not None:
        if argument.node is None or script.module.code(argument.node) != "False":
            return None
        rewrite = Replace(argument.node, condition)
    is_sparse = loader.gives_graphs or script.connected.makes_sparse
    has_workers = loader.has_workers and not loader.is_optional("num_workers")
    is_own = not loader.lacks("collate_fn")
    is_new = condition.startswith("torch.") and "torch" not in script.module.index.root.bindings
    doubts = (
        ("the main thread pins each batch, if there are no workers", not has_workers),
        ("a GPU is an assumption", not any(copy.is_seen for copy in copies)),
        ("what goes to the GPU may be a copy", not is_plain),
        ("False was written on purpose", argument is not None),
        ("batches may hold sparse tensors, which cannot be pinned", is_sparse),
        ("what `collate_fn` gives may be a tuple, of which pinning makes a list", is_own),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        f"{'Change to' if argument else 'Pass'} {WORD}={condition}",
        judging.safety(not changes),
        (rewrite, AddImport("torch")) if is_new else (rewrite,),
        changes=changes,
    )
