"""A dataset, or what collates its samples, works on the GPU.

## Why
A `DataLoader` gets ahead of the training by preparing batches in worker processes. On the GPU they
cannot: a forked process cannot use CUDA when its parent has ("Cannot re-initialize CUDA in forked
subprocess"), and each one started afresh takes some hundred megabytes of GPU memory. Tensors on the
GPU cannot be pinned either. Without workers each sample is copied by itself, where one copy of the
batch would do, and training waits meanwhile.

## Bad
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x):
            self.x = x

        def __getitem__(self, index):
            return self.x[index].cuda()

    def train(x, model):
        for x in DataLoader(Points(x), batch_size=64):
            model(x).backward()

## Good
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self, x):
            self.x = x

        def __getitem__(self, index):
            return self.x[index]

    def train(x, model):
        for x in DataLoader(Points(x), batch_size=64, num_workers=4, pin_memory=True):
            model(x.cuda(non_blocking=True)).backward()

## Leaves alone
- Datasets that hold their tensors on the GPU: that is fast without workers and `pin_memory`.
- Copies to where another tensor is, to the host, or to another type.
- Seeds for the GPU in a `worker_init_fn`: they wait until CUDA is used.

It is information where the device is not known or only some of the code asks for it; in a
`collate_fn` without workers; and where no loader is seen, or samples are batches themselves.

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

from typing import TYPE_CHECKING

from torchlint.rule import Finding, Severity
from torchlint.semantics.values import At, Function
from torchlint.training.between import conditions
from torchlint.training.datasets import GIVES, reached
from torchlint.training.gpu_work import works_on_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

HELP = (
    "Return tensors on the CPU, and copy each batch in the training loop: pin_memory=True "
    "and x.to(device, non_blocking=True)."
)


def cuda_in_dataset(script: Script) -> Iterator[Finding]:
    """Find work on the GPU in datasets and collate functions, and data on it for workers."""
    for at, (part, loaders) in functions(script).items():
        move = first_move(script, at) if at.file == script.file else None
        if move is not None:
            call, sure = move
            costs, when = cost(part, loaders)
            is_plain = costs and sure and not script.frameworks
            does = "works" if sure else "may work"
            yield Finding(
                call,
                f"`{script.module.brief(call)}` {does} on the GPU {when}",
                severity=None if is_plain else Severity.INFO,
                help=HELP,
            )


def functions(script: Script) -> dict[At, tuple[str, list[Loader]]]:
    """Return the functions that loaders run, for what and which, and those of other datasets.

    They run them for "samples", "batches" or "workers".
    """
    found: dict[At, tuple[str, list[Loader]]] = {}
    evaluation = script.connected.evaluation
    for loader in script.connected.loaders:
        datasets = script.datasets(loader)
        starts = [one.at for one in loader.value("worker_init_fn") if isinstance(one, Function)]
        run = {"samples": datasets.methods(*GIVES), "batches": datasets.collates, "workers": starts}
        for part, several in run.items():
            for at in several:
                found.setdefault(at, (part, []))[1].append(loader)
    is_used = any("DataLoader" in one.index.named for one in evaluation.files.modules)
    for cls in evaluation.classes if is_used else ():
        if evaluation.classes.kind(cls.at) == "dataset":
            for name in (one for one in GIVES if one in cls.methods):
                at = evaluation.at(cls.methods[name], cls.at.file)
                found.setdefault(at, ("samples", []))
    return found


def first_move(script: Script, function: At) -> tuple[cst.Call, bool] | None:
    """Return the first call that works on a GPU, by others too, and whether it surely does."""
    evaluation, effects = script.connected.evaluation, script.connected.frequencies.effects
    order, outer = script.module.index.order, evaluation.node(function)
    for site in sorted(effects.sites.get(function, ()), key=lambda one: order(one.node)):
        calls = [site.node, *(one.node for one, _ in reached(effects, site.targets))]
        works = [works_on_gpu(evaluation, call) for call in calls]
        if any(one is not None for one in works):
            is_asked = conditions(evaluation, site.node, outer, script.file)
            return site.node, any(works) and not is_asked
    return None


def cost(part: str, loaders: list[Loader]) -> tuple[bool, str]:
    """Return whether it costs that loaders run work on the GPU, and say when they do."""
    if part == "workers" or any(one.has_workers for one in loaders):
        return True, "in worker processes, which cannot if they are forked"
    if part == "batches":
        return False, "while training waits, and rules out workers"
    sizes = [one.told("batch_size", default=1) for one in loaders if not one.lacks("batch_size")]
    is_several = any(size != 1 for size in sizes)
    return is_several, "for each sample by itself, and rules out workers"
