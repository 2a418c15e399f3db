"""A dataset, or what collates its samples, works on the GPU.

## Why
A `DataLoader` gets ahead of the training by preparing batches in worker processes.  On the GPU they
cannot: a process that was forked cannot use CUDA when its parent has ("Cannot re-initialize CUDA in
forked subprocess"), and each one that was started afresh takes its own few hundred megabytes of GPU
memory.  Nor can tensors on the GPU be put into pinned memory.  Without workers it works, but each
sample is copied by itself, where one copy of the batch would do, and training waits meanwhile.

## Bad
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index].cuda(), self.y[index].cuda()

    def train(x, y, model, optimizer):
        for x, y in DataLoader(Points(x, y), batch_size=64):
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()

## Good
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index], self.y[index]

    def train(x, y, model, optimizer):
        for x, y in DataLoader(Points(x, y), batch_size=64, num_workers=4, pin_memory=True):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            optimizer.zero_grad()
            model(x, y).backward()
            optimizer.step()

## Leaves alone
- Datasets that hold their tensors on the GPU, without workers and without `pin_memory=True`: that
  is fast.  Another dataset of their class, made of tensors on the host, is told apart from them.
- Copies to where another tensor is, to the host, or to another type.
- Seeds for the GPU in a `worker_init_fn`: they wait until CUDA is used.

As information: a copy to a device that is not known, or that only some of the code asks for; in a
`collate_fn` without workers, which copies whole batches; and in a dataset of which no loader is
seen, or whose samples are batches themselves.

## Fix safety
No fix: the copy moves to the training loop, and to every other place that takes batches.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Multi-process data loading"
- PyTorch documentation, "Multiprocessing best practices: CUDA in multiprocessing"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.rule import Finding, Severity
from torchlint.semantics.values import (
    At,
    Device,
    Function,
    Tensor,
)
from torchlint.training.datasets import GIVES, MEMORY, datasets_of, reached
from torchlint.training.gpu_work import works_on_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

HELP = (
    "Return tensors on the CPU, and copy each batch in the training loop: pin_memory=True "
    "and x.to(device, non_blocking=True)."
)


@dataclass(slots=True, eq=False)
class Run:
    """A function that loaders run, for samples, "batches" or "workers", and for which of them."""

    part: str
    loaders: list[Loader]


def cuda_in_dataset(script: Script) -> Iterator[Finding]:
    """Find work on the GPU in datasets and collate functions, and data on it for workers."""
    for at, run in functions(script).items():
        move = first_move(script, at) if at.file == script.file else None
        if move is not None:
            yield finding(script, at, run, *move)
    for loader in script.loaders:
        held = held_on_gpu(script, loader)
        if held:
            yield kept(script, loader, held)


def functions(script: Script) -> dict[At, Run]:
    """Return the functions that loaders run, and those of datasets without one that is seen."""
    found: dict[At, Run] = {}
    evaluation, effects = script.connected.evaluation, script.connected.frequencies.effects
    for loader in script.connected.loaders:
        datasets = datasets_of(effects, loader)
        starts = [one.at for one in loader.value("worker_init_fn") if isinstance(one, Function)]
        for part, several in (("samples", datasets.methods(*GIVES)), ("batches", datasets.collates),
                              ("workers", starts)):  # fmt: skip
            for at in several:
                found.setdefault(at, Run(part, [])).loaders.append(loader)
    modules = evaluation.files.modules
    is_used = any("DataLoader" in module.index.named for module in modules)
    for cls in evaluation.classes if is_used else ():
        for name in GIVES if evaluation.classes.kind(cls.at) == "dataset" else ():
            if name in cls.methods:
                at = evaluation.at(cls.methods[name], cls.at.file)
                found.setdefault(at, Run("samples", []))
    return found


def first_move(script: Script, function: At) -> tuple[cst.Call, bool] | None:
    """Return the first call that works on a GPU, by others too, and whether it surely does."""
    effects = script.connected.frequencies.effects
    sites = sorted(effects.sites.get(function, ()), key=lambda s: script.module.index.order(s.node))
    for site in sites:
        sure = works_on_gpu(script, site.node)
        if sure is not None:
            return site.node, sure and not is_conditional(script, site.node)
    for site in sites:
        inner = [works_on_gpu(script, one.node) for one, _ in reached(effects, site.targets)]
        known = [one for one in inner if one is not None]
        if known:
            return site.node, any(known) and not is_conditional(script, site.node)
    return None


def is_conditional(script: Script, call: cst.Call) -> bool:
    """Whether a condition decides in its function whether a call is made."""
    for above in script.module.index.ancestors(call):
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return False
        if isinstance(above, (cst.If, cst.IfExp, cst.Try, cst.ExceptHandler)):
            return True
    return False


def finding(script: Script, at: At, run: Run, move: cst.Call, sure: bool) -> Finding:
    """Return the finding for work on the GPU in what a loader runs."""
    code, where = f"`{script.module.brief(move)}`", f"`{name_of(script, at)}`"
    does = "works on the GPU" if sure else "may work on the GPU"
    workers = run.part == "workers" or any(one.has_workers for one in run.loaders)
    if workers:
        text = f"{code} in {where} {does} in worker processes, which cannot if they are forked"
    elif run.part == "samples":
        text = f"{code} in {where} {does} for each sample by itself, and rules out workers"
    else:
        text = f"{code} in {where} {does} while training waits, and rules out workers"
    costs = workers or (run.part == "samples" and any(map(makes_batches, run.loaders)))
    is_plain = costs and sure and not script.frameworks
    return Finding(move, text, severity=None if is_plain else Severity.INFO, help=HELP)


def makes_batches(loader: Loader) -> bool:
    """Whether the samples of a loader are put together: they are no batches themselves."""
    if "batch_size" not in loader.arguments:
        return "batch_sampler" in loader.arguments
    return not loader.lacks("batch_size") and not loader.is_told("batch_size", 1)


def name_of(script: Script, at: At) -> str:
    """Return the name of a function, with that of its class."""
    evaluation = script.connected.evaluation
    unit = evaluation.units[at]
    if not isinstance(unit.node, cst.FunctionDef):
        return script.module.brief(unit.node)
    cls = evaluation.class_around(unit)
    return f"{cls.name}.{unit.node.name.value}" if cls else unit.node.name.value


def held_on_gpu(script: Script, loader: Loader) -> str:
    """Return what a dataset keeps on the GPU, of a loader with workers or pinned memory, or ""."""
    if not loader.has_workers and not loader.is_pinned:
        return ""
    evaluation = script.connected.evaluation
    datasets = datasets_of(script.connected.frequencies.effects, loader)
    nodes: list[tuple[cst.BaseExpression, int]] = []
    for one in datasets.found:
        if getattr(one, "kind", "") == MEMORY and (call := getattr(one, "call", None)):
            made = evaluation.node(call)
            assert isinstance(made, cst.Call)
            nodes += [(arg.value, call.file) for arg in made.args]
    for at in datasets.methods(*GIVES):
        index = evaluation.index(at.file)
        nodes += [(item.value, at.file) for item in index.below(evaluation.node(at), cst.Subscript)]
    for node, file in nodes:
        value = script.value(node)
        if value and all(isinstance(o, Tensor) and o.device is Device.CUDA for o in value):
            return evaluation.module(file).brief(node)
    return ""


def kept(script: Script, loader: Loader, held: str) -> Finding:
    """Return the finding for a dataset on the GPU whose loader cannot use it."""
    why = (
        "workers that are forked cannot read"
        if loader.has_workers
        else "`pin_memory=True` cannot be done to"
    )
    return Finding(
        loader.node,
        f"the dataset of this DataLoader keeps `{held}` on the GPU, which {why}",
        severity=Severity.INFO if script.frameworks else None,
        help="Keep the data on the GPU without workers and without pin_memory, or on the CPU with "
        "both.",
    )
