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
- Loaders without workers, or with a number of them that is not known here to be above 0: to ask
  for persistent workers would raise.  A number that comes from an option or a parameter counts
  where its default is above 0.
- Loaders that are given `persistent_workers`, or may be given it by a dictionary.
- Loaders that are gone through once, as a loop whose number of turns no caller raises above 1 does,
  or three times at most, as the code itself says (`for epoch in range(3)`, but no option), or in a
  single turn of a loop (`if epoch == last`); those that only training steps go through under
  `if step % n == 0`, where `n` is neither seen to be small nor a part of an epoch, or where such a
  step saves as well; those whose sampler is told the number of epochs (it draws all of them in one
  pass), and those that are made anew for each pass.
- Datasets that the script changes between epochs (`dataset.set_epoch(epoch)`), be it in a function
  that the loop calls: persistent workers would go on with their first copy.  A method that is seen
  to read only changes nothing.
- Loops over one loader inside of each other, which would share the workers.
- Tensors in memory (`TensorDataset`): they need no workers at all.
- Projects for a torch below 1.7, by what they declare, a README names or the code uses
  (`correct[:k].view(-1)` of a transposed tensor); for one below 1.8, loaders that pin, or may, or
  should, as their batches go to a GPU: there persistent workers break down in the second pass over
  pinned batches.

Reported without a fix: loaders that a framework wraps, and a number of workers that is computed in
the call.

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

from torchlint.analysis.dataset_changes import changes_dataset
from torchlint.analysis.datasets import IN_MEMORY, TENSOR_DATASET
from torchlint.analysis.origins import origins
from torchlint.analysis.passes import repeating
from torchlint.analysis.workers import Workers, in_hook, workers_of
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

FIRST = Version("1.7")  # the release that has the argument
PINS = Version("1.8")  # the first one whose persistent workers outlive a pass that pins


def dataloader_no_persistent_workers(program: Program) -> Iterator[Finding]:
    """Find loaders whose workers are started in every epoch."""
    if (program.target or program.named or FIRST) < FIRST:
        return
    since = " (from torch 1.7 on)" if program.target is None else ""
    for call in program.loaders.calls:
        if not program.argument(call, "persistent_workers").absent:
            continue
        workers = workers_of(program, call)
        if workers not in (Workers.SOME, Workers.ASKED) or in_memory(program, call):
            continue
        if (program.target or program.named or PINS) < PINS and may_pin(program, call):
            continue
        where = "" if draws_all_epochs(program, call) else turns(program, call)
        if where and program.reaches(FIRST):
            yield Finding(
                call,
                f"the workers of this DataLoader are started anew {where}",
                None if is_wrapped(program, call) else fix(program, call, workers),
                help=f"Pass persistent_workers=True{since}: the workers then wait for the next "
                "pass.",
            )


def is_wrapped(program: Program, call: cst.Call) -> bool:
    """Whether a framework goes through the loader, or may."""
    loops = program.loaders.loops_everywhere(call)
    return bool(program.frameworks) or any(home.frameworks for home, _ in loops)


def may_pin(program: Program, call: cst.Call) -> bool:
    """Whether a loader pins its batches, or is to pin them (TL102), as far as it is known."""
    pinned = program.argument(call, "pin_memory")
    if pinned.absent:
        return bool(program.loaders.moves(call))
    return pinned.literal() not in ("False", "0")


def in_memory(program: Program, call: cst.Call) -> bool:
    """Whether the dataset consists of tensors, or may: then workers are the problem."""
    types = {dataset.type for dataset in program.datasets.of_loader(call)}
    return bool(types & {IN_MEMORY, TENSOR_DATASET})


def draws_all_epochs(program: Program, call: cst.Call) -> bool:
    """Whether a sampler is told the number of epochs: it draws all of them in one pass."""
    return any(
        isinstance(made, cst.Call)
        and any("epochs" in dotted(arg.value).lower() for arg in made.args)
        for name in ("sampler", "batch_sampler")
        for given in program.argument(call, name).values
        for made in origins(program, given)
    )


def turns(program: Program, call: cst.Call) -> str:
    """Say what goes through the loader again and again; "" where nothing does."""
    if in_hook(program, call):
        return "in every epoch"
    outer = repeating(program, call)
    if outer is None or changes_dataset(program, call, outer):
        return ""
    how = "for each of its passes in" if outer.rarely else "in every turn of"
    return f"{how} `{outer.header}`"


def fix(program: Program, call: cst.Call, workers: Workers) -> Fix | None:
    """Return the fix, which asks for persistent workers only where there are any."""
    code = "True"
    if workers is not Workers.SOME:
        arg = program.argument(call, "num_workers").arg
        if arg is None or not is_simple(arg.value):
            return None
        code = f"{program.code(arg.value)} > 0"
    return Fix(
        f"Pass persistent_workers={code}",
        Safety.UNSAFE,
        (AddArgument(call, "persistent_workers", code),),
        changes="random numbers differ from the second epoch on, "
        "and workers do not see what happens to the dataset between epochs"
        + ("; torch below 1.7 has no such argument" if program.target is None else ""),
    )


def is_simple(node: cst.BaseExpression) -> bool:
    """Whether an expression can be written twice: ``workers``, ``args.workers``, ``int(n)``."""
    match node:
        case cst.Call(func=cst.Name(value="int"), args=[only]):
            return bool(dotted(only.value))
        case _:
            return bool(dotted(node))
