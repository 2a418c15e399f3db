"""The workers of a DataLoader are stopped and started anew in every epoch.

## Why
Each time a loop over a DataLoader starts, its worker processes start too: they are forked, or
import the script again, get a copy of the dataset, and have to fill their queues before the first
batch comes. When the loop ends, they end. With `persistent_workers=True` they stay.

## Bad
    from torch.utils.data import DataLoader

    def train(dataset, model, epochs):
        loader = DataLoader(dataset, batch_size=64, num_workers=4)
        for epoch in range(epochs):
            for x, y in loader:
                model(x, y).backward()

## Good
    from torch.utils.data import DataLoader

    def train(dataset, model, epochs):
        loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
        for epoch in range(epochs):
            for x, y in loader:
                model(x, y).backward()

## Leaves alone
- Loaders without workers, or that are given `persistent_workers=True`, perhaps by a dictionary.
- Loaders that are made as often as they are gone through, and passes that one turn alone makes.
- Datasets that the script changes between passes (`dataset.set_epoch(epoch)`): persistent workers
  would go on with their first copy.
- Loops over one loader inside of each other, which would share the workers; torch below 1.7.

Without a fix: loaders that a framework goes through, those that are told
`persistent_workers=False`, and a number of workers that is computed in the call.

## Fix safety
Unsafe: random numbers differ from the second epoch on (a shuffled order, what workers draw), and
the workers keep the dataset as it was when they started. Where their number may be 0, the fix
writes `persistent_workers=workers > 0`.

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
from torchlint.training.passes import repeating

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.loaders import Loader
    from torchlint.training.passes import Around
    from torchlint.training.script import Script

FIRST = Version("1.7")  # the release that has the argument
WORD = "persistent_workers"


def dataloader_no_persistent_workers(script: Script) -> Iterator[Finding]:
    """Find loaders whose workers are started in every epoch."""
    target = script.settings.target
    for loader in script.loaders if target is None or target >= FIRST else ():
        is_asked = loader.is_whole and loader.told(WORD, default=False) is False
        where = turns(script, loader) if is_asked and loader.has_workers is not False else ""
        if where:
            are = "" if loader.has_workers else ", if it has any,"
            yield Finding(
                loader.node,
                f"the workers of this DataLoader{are} are started anew {where}",
                None if WORD in loader.arguments else fix(script, loader),
                help=f"Pass {WORD}=True: the workers then wait for the next pass.",
            )


def turns(script: Script, loader: Loader) -> str:
    """Say what goes through the loader again and again; "" where nothing does."""
    if any(one.fits for one in loader.passes):
        return "in every epoch"
    found = [around for _, around in repeating(script.connected.evaluation, loader)]
    region, datasets = script.connected.steps.region, script.datasets(loader)
    if not found or any(
        goes_over(script, one, loader) or datasets.is_changed_in(region(one.loop, one.file).scopes)
        for one in found
    ):
        return ""
    brief, loop = script.connected.evaluation.module(found[0].file).brief, found[0].loop
    if isinstance(loop, cst.While):
        first = f"while {brief(loop.test)}"
    else:
        assert isinstance(loop, (cst.For, cst.CompFor))
        first = f"for {brief(loop.target)} in {brief(loop.iter)}"
    return f"{'for each of its passes in' if found[0].is_rare else 'in every turn of'} `{first}`"


def goes_over(script: Script, around: Around, loader: Loader) -> bool:
    """Whether a loop goes over the loader itself: a pass inside would take its workers away."""
    index, over = script.connected.evaluation.index(around.file), getattr(around.loop, "iter", None)
    here = [one.node for one in loader.passes if one.file == around.file]
    return over is not None and any(index.inside(one, over) for one in here)


def fix(script: Script, loader: Loader) -> Fix | None:
    """Return the fix, which asks for persistent workers only where there are any."""
    if script.frameworks or any(one.fits for one in loader.passes):
        return None
    node, code = loader.arguments["num_workers"].node, "True"
    if node is not None and is_simple(node):
        code = f"{script.module.code(node)} > 0"
    elif not loader.has_workers or loader.is_optional("num_workers"):
        return None
    return Fix(
        f"Pass {WORD}={code}",
        Safety.UNSAFE,
        (AddArgument(loader.node, WORD, code),),
        changes="random numbers differ from the second epoch on, and "
        " workers do not see what happens to the dataset between epochs",
    )


def is_simple(node: cst.BaseExpression) -> bool:
    """Whether an expression can be written twice: ``workers``, ``args.workers``, ``int(n)``."""
    match node:
        case cst.Call(func=cst.Name(value="int"), args=[only]):
            return bool(dotted(only.value))
    return bool(dotted(node))
