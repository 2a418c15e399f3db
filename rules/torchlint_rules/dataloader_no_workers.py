"""A DataLoader without worker processes reads and prepares every batch while training waits.

## Why
With `num_workers=0`, the default, the process that trains also opens, decodes and transforms every
sample, one after the other: the GPU has nothing to do until the batch is complete.  Worker
processes prepare the next batches while the current one is computed.

## Bad
    import os
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    class Photos(Dataset):
        def __init__(self, paths, transform):
            self.paths = paths
            self.transform = transform

        def __getitem__(self, index):
            return self.transform(Image.open(self.paths[index]))

    def train(paths, transform, model, optimizer):
        photos = Photos(paths, transform)
        loader = DataLoader(photos, batch_size=64)
        for x in loader:
            loss = model(x.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import os
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    class Photos(Dataset):
        def __init__(self, paths, transform):
            self.paths = paths
            self.transform = transform

        def __getitem__(self, index):
            return self.transform(Image.open(self.paths[index]))

    def train(paths, transform, model, optimizer):
        photos = Photos(paths, transform)
        loader = DataLoader(photos, batch_size=64, num_workers=min(4, os.cpu_count() or 1))
        for x in loader:
            loss = model(x.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Loaders whose `num_workers` comes from a variable, or from a dictionary or an option that does not
  say 0, and those where a comment stands beside the 0.
- Datasets that are not seen to do work for a sample (read, decode, transform, tokenize, or, in a
  `collate_fn`, a loop in Python through the elements of each: `[i + 1 for i in range(n)]`), and
  those that cannot be seen at all, unless a module outside of the project makes them.  For tensors
  in memory (`TensorDataset`, lists, arrays) workers make it slower: each batch has to be sent from
  process to process.
- Single rows of Hugging Face `datasets` (`batch_size=1`) that nothing transforms.
- Datasets that may have four samples or fewer (`def __len__(self): return 1`, also through a
  dataset around it): workers would be started anew for each of these short passes.
- `IterableDataset`: each worker would give every sample unless the dataset shares them out.
- Datasets that count on by themselves (`self.files[self.next]`, `self.next += 1`): each worker
  would give the same samples.
- Datasets and `collate_fn`s that make tensors on the GPU, which workers cannot.
- Loaders that no training or evaluation loop goes through, or only to look at a few batches
  (`if i > 5: break`), or that waits for a person in each turn (`input()`, `cv2.waitKey(0)`).

Reported as information: loaders that only evaluations go through, a single time each; datasets that
extend one of torchvision and give samples in a way of their own, in which nothing is seen to cost.
So are, without a fix, loaders that have workers only where an option of the command line says so
(`default=0`), and loaders with a `collate_fn` and a sampler (or shuffling) of a dataset that a
module outside of the project makes, in files that use a GPU: what a sample costs is not seen there.

Reported without a fix: a 0 in a dictionary (`DataLoader(data, **kwargs)`), which other loaders may
have as well; a `lambda` or a local class or function that would have to be sent to the
workers; training that starts when the file is imported, without `if __name__ == "__main__":`, since
workers that are not forked import the file again; a dataset that keeps a file open, or that
remembers what it gave; loaders that a framework wraps (PyTorch Ignite wraps none).  Scripts that
use no GPU get it as advice, as do rows of Hugging Face `datasets` that nothing transforms.

## Fix safety
Unsafe.  The samples come in the same order, but random numbers drawn for a sample (augmentation)
come from each worker's own generator; each worker holds a copy of the dataset and needs shared
memory for its batches.  Written is the project's `num-workers`, else an expression that asks the
machine the script runs on; how many are best depends on it.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.analysis.datasets import HUGGING_FACE, IN_MEMORY, TENSOR_DATASET, made_outside
from torchlint.analysis.early_ends import only_looks
from torchlint.analysis.lengths import may_have_few
from torchlint.analysis.loaded import yields_gpu_tensors
from torchlint.analysis.loops import Role
from torchlint.analysis.once import runs_once
from torchlint.analysis.passes import draws
from torchlint.analysis.reasons import refused, refused_by_dictionary
from torchlint.analysis.samples import (
    collate_work,
    gives_its_own,
    goes_on_by_itself,
    keeps_handle,
    keeps_state,
    work,
)
from torchlint.analysis.workers import in_hook, runs_on_import, unasked_option, unpicklable
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, AddImport, Replace, Rewrite
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.arguments import Argument
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

ASKS_MACHINE = "min(4, os.cpu_count() or 1)"
TRY = "How many workers are best depends on the machine: try a few numbers."
DEFAULT = "The option has 0 as its default: give it a few workers for who does not ask."
STEPS = frozenset((Role.TRAIN, Role.EVAL, Role.EPOCH))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A loop over a loader, a run of an engine or a ``next()`` in a loop, with its file."""

    program: Program
    node: cst.CSTNode
    role: Role


@dataclass(frozen=True, slots=True, eq=False)
class Slow:
    """A loader without workers whose samples cost, and what goes through it.

    ``option``: what has to be asked for workers, on the command line; or "".
    """

    call: cst.Call
    given: Argument
    option: str
    datasets: tuple[Dataset, ...]
    steps: tuple[Step, ...]


def dataloader_no_workers(program: Program) -> Iterator[Finding]:
    """Find loaders that prepare costly samples in the main process."""
    for call in program.loaders.calls:
        given, option = program.argument(call, "num_workers"), unasked_option(program, call)
        left = refused_by_dictionary(program, call, "num_workers", "0")
        if not (given.absent or option or left or refused(program, given, "0")):
            continue
        datasets = program.datasets.of_loader(call)
        cost = cost_of(program, call, datasets)
        hidden = not datasets and is_hidden(program, call)
        if not (cost or hidden) or yields_gpu_tensors(program, call) or may_have_few(program, call):
            continue
        slow = Slow(call, given, option, datasets, tuple(steps(program, call)))
        if hidden and slow.steps and not option:
            yield unseen(slow)
        elif cost and (slow.steps or in_hook(program, call)):
            yield finding(program, slow, cost)


def is_hidden(program: Program, call: cst.Call) -> bool:
    """Whether a training on a GPU collates the samples of a dataset made outside the project."""
    collates = not program.argument(call, "collate_fn").absent
    return collates and program.devices.gpu and made_outside(program, call)


def unseen(slow: Slow) -> Finding:
    """Return the advice for a loader of samples whose cost is not seen."""
    roles = {step.role for step in slow.steps}
    return Finding(
        slow.call,
        "this DataLoader makes its batches in the main process: "
        f"{'the evaluation' if roles == {Role.EVAL} else 'training'} waits for every one",
        severity=Severity.INFO,
        help="Try num_workers above 0, if samples are read, decoded or transformed: the dataset "
        "is made outside of this project.",
    )


def steps(program: Program, call: cst.Call) -> Iterator[Step]:
    """Yield what takes the batches of a loader, to train or to evaluate."""
    for home, loop in program.loaders.loops_everywhere(call):
        if (role := home.loops.role(loop)) in STEPS and not only_looks(home, loop):
            yield Step(home, loop, role)
    for home, run in program.loaders.runs_everywhere(call):
        if (role := home.engines.role(run)) in STEPS:
            yield Step(home, run.call, role)
    for draw in draws(program, call):
        yield Step(program, draw, program.context(draw).role)


def cost_of(program: Program, call: cst.Call, datasets: tuple[Dataset, ...]) -> str:
    """Return what a sample costs; "" where that is little or not known."""
    light = (IN_MEMORY, TENSOR_DATASET)
    if any(one.iterable is not False or one.type in light for one in datasets):
        return ""
    if any(map(goes_on_by_itself, datasets)):
        return ""
    found = next(filter(None, map(work, datasets)), "")
    if datasets and found in ("", HUGGING_FACE):
        found = collate_work(program, call) or found
    alone = program.argument(call, "batch_size").literal() == "1"
    return "" if alone and is_plain(program, found) else found


def is_plain(program: Program, cost: str) -> bool:
    """Whether samples are rows of a table that nothing is seen to transform."""
    return cost == HUGGING_FACE and "_transform(" not in program.text


def finding(program: Program, slow: Slow, cost: str) -> Finding:
    """Return the finding, with a fix where nothing stands in the way of workers."""
    first = obstacle(program, slow)
    files = [program, *(step.program for step in slow.steps)]
    gpu = any(one.devices.gpu for one in files) and not any(one.wrappers for one in files)
    roles = {step.role for step in slow.steps}
    unless = f", unless `{slow.option}` is above 0" if slow.option else ""
    little = slow.option or is_plain(program, cost) or is_once(slow)
    little = little or any(map(gives_its_own, slow.datasets))
    return Finding(
        slow.call,
        f"this DataLoader prepares its samples (`{cost}`) in the main process{unless}: "
        f"{'the evaluation' if roles == {Role.EVAL} else 'training'} waits for every batch",
        None if first or slow.option or in_dictionary(slow) else fix(program, slow),
        None if gpu and not little else Severity.INFO,
        help=first or (DEFAULT if slow.option else TRY),
    )


def is_once(slow: Slow) -> bool:
    """Whether nothing but evaluations goes through a loader, a single time each."""
    return bool(slow.steps) and all(
        step.role is Role.EVAL and runs_once(step.program, step.node) for step in slow.steps
    )


def obstacle(program: Program, slow: Slow) -> str:
    """Return what has to be done before workers can be used, or ""."""
    if program.wrappers or any(step.program.wrappers for step in slow.steps):
        return "Pass num_workers above 0: the framework does not choose it."
    if any(runs_on_import(step.program, step.node) for step in slow.steps):
        return (
            'Put what trains under `if __name__ == "__main__":` and pass num_workers above 0: '
            "workers that are not forked import this file again."
        )
    if local := unpicklable(program, slow.call, slow.datasets):
        return (
            f"Define `{local.text}` at the level of the module, so that it can be sent to workers."
        )
    for dataset in slow.datasets:
        if handle := keeps_handle(dataset):
            return f"Open `{handle}` in each worker, at the first sample: it cannot be shared."
        if keeps_state(dataset):
            return f"Each worker has a `{dataset.name}` of its own, with what it remembers."
    return ""


def in_dictionary(slow: Slow) -> bool:
    """Whether a dictionary says that there are no workers: other loaders may have it as well."""
    return slow.given.arg is None and not slow.given.absent


def fix(program: Program, slow: Slow) -> Fix | None:
    """Return the fix: the project's number of workers, or one that asks the machine."""
    call, given = slow.call, slow.given
    number = program.preferences.num_workers
    code, imports = (ASKS_MACHINE, (AddImport("os"),)) if number is None else (str(number), ())
    if number == 0 or (number is None and not can_ask(program, call)):
        return None
    rewrite: Rewrite = AddArgument(call, "num_workers", code)
    if given.arg is not None:
        rewrite = Replace(given.arg.value, code)
    return Fix(
        f"{'Pass' if given.absent else 'Change to'} num_workers={code}",
        Safety.UNSAFE,
        (rewrite, *imports),
        changes="random numbers drawn for a sample come from each worker's own generator, "
        "and each worker holds a copy of the dataset",
    )


def can_ask(program: Program, call: cst.Call) -> bool:
    """Whether ``min`` and ``os`` are what they seem at a call."""
    scope = program.index.scope(call)
    module = scope.owner("os")
    free = module is None or (module is scope.module() and program.names.root("os", scope) == "os")
    return free and scope.owner("min") is None and not scope.module().stars
