"""The workers of a DataLoader are stopped and started anew in every epoch.

## Why
Each time that a loop over a DataLoader starts, its worker processes start too: they are forked, or
import the script again, get a copy of the dataset, and have to fill their queues before the first
batch comes.  When the loop ends they end.  With `persistent_workers=True` they wait for the next
epoch instead.

## Bad
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer, epochs):
        loader = DataLoader(dataset, batch_size=64, num_workers=4)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()

## Good
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer, epochs):
        loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()

## Leaves alone
- Loaders without workers, or that have none unless an option asks for them.
- Loaders that are given `persistent_workers=True`, or may be given it by a dictionary.
- Loaders that are made as often as they are gone through, and passes in a loop of a single turn or
  in one turn only (`if epoch == last`).
- Datasets that the script changes between passes (`dataset.set_epoch(epoch)`): persistent workers
  would go on with their first copy.
- Loops over one loader inside of each other, which would share the workers.
- Projects for a torch below 1.7; below 1.8 loaders that pin, whose second pass breaks down there.

Reported without a fix: loaders that a framework goes through, those that are told
`persistent_workers=False`, and a number of workers that is computed in the call.

## Fix safety
Unsafe.  From the second epoch on random numbers differ: the order of a shuffled epoch, and what
workers draw for a sample.  The workers keep the dataset as it was when they started, and their
memory between epochs.  Where the number of workers may be 0, what is written is
`persistent_workers=workers > 0`.

## Evidence
`torchlint bench TL103` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 32: 31.9 ms and 2.09 ms, 15.26 x (13.15 to 17.71): faster; results bitwise equal.
- epoch, samples 256: 42.6 ms and 15.5 ms, 2.74 x (2.15 to 3.49): faster; results bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data.DataLoader: persistent_workers"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.syntax.chains import dotted
from torchlint.training.dataset_changes import changes_dataset
from torchlint.training.loaders import is_positive
from torchlint.training.passes import header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.loaders import Loader
    from torchlint.training.passes import Around
    from torchlint.training.script import Script

FIRST = Version("1.7")  # the release that has the argument
PINS = Version("1.8")  # the first one whose persistent workers outlive a pass that pins


def dataloader_no_persistent_workers(script: Script) -> Iterator[Finding]:
    """Find loaders whose workers are started in every epoch."""
    target = script.settings.target
    for loader in script.loaders:
        if target is not None and (
            target < FIRST or (target < PINS and loader.is_pinned is not False)
        ):
            continue
        told = loader.arguments.get("persistent_workers")
        if told and not loader.is_told("persistent_workers", truth=False):
            continue
        asked = loader.has_workers is not False and loader.is_whole
        where = turns(script, loader) if asked else ""
        if where:
            are = "" if loader.has_workers else ", if it has any,"
            since = " (from torch 1.7 on)" if target is None else ""
            yield Finding(
                loader.node,
                f"the workers of this DataLoader{are} are started anew {where}",
                None if told else fix(script, loader),
                help=f"Pass persistent_workers=True{since}: the workers then wait for the next "
                "pass.",
            )


def turns(script: Script, loader: Loader) -> str:
    """Say what goes through the loader again and again; "" where nothing does."""
    if any(one.fits for one in loader.passes):
        return "in every epoch"
    passes = script.connected.passes
    if passes.is_nested(loader):
        return ""  # a pass inside of another one, which would share the workers
    found = passes.repeating(loader)
    if any(changes(script, loader, around) for _, around in found):
        return ""
    for _, around in found[:1]:
        first = header(script.connected.files.modules[around.file], around.loop)
        return f"{'for each of its passes in' if around.is_rare else 'in every turn of'} `{first}`"
    return ""


def changes(script: Script, loader: Loader, around: Around) -> bool:
    """Whether the turns of a loop change the dataset of a loader."""
    effects = script.connected.frequencies.effects
    return changes_dataset(effects, loader, around.loop, around.file)


def fix(script: Script, loader: Loader) -> Fix | None:
    """Return the fix, which asks for persistent workers only where there are any."""
    if script.frameworks or any(one.fits for one in loader.passes):
        return None
    argument = loader.arguments["num_workers"]
    code = "True"
    if argument.node is None:
        if not loader.has_workers or any(getattr(one, "option", None) for one in argument.value):
            return None
    elif not is_positive(script.connected.evaluation, argument.node, script.file):
        if not is_simple(argument.node):
            return None
        code = f"{script.module.code(argument.node)} > 0"
    return Fix(
        f"Pass persistent_workers={code}",
        Safety.UNSAFE,
        (AddArgument(loader.node, "persistent_workers", code),),
        changes="random numbers differ from the second epoch on, "
        "and workers do not see what happens to the dataset between epochs"
        + ("; torch below 1.7 has no such argument" if script.settings.target is None else ""),
    )


def is_simple(node: cst.BaseExpression) -> bool:
    """Whether an expression can be written twice: ``workers``, ``args.workers``, ``int(n)``."""
    match node:
        case cst.Call(func=cst.Name(value="int"), args=[only]):
            return bool(dotted(only.value))
        case _:
            return bool(dotted(node))
