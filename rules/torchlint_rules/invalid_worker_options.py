"""Options of a DataLoader exclude each other, or its workers cannot do what they are asked to.

## Why
Some options only mean something with worker processes, and some replace each other: making such a
DataLoader raises `ValueError`, perhaps hours into a script. Two mistakes show later:

- TL105b: unless workers are forked, they get the dataset and the functions by pickling. A `lambda`,
  or what is defined inside a function, cannot be pickled. Windows, macOS and Python 3.14 do not
  fork.
- TL105c: every worker goes through all of an `IterableDataset`, so that an epoch holds each sample
  once a worker, unless the dataset asks `get_worker_info()` for its share.

## Bad
    from torch.utils.data import DataLoader

    def loaders(dataset):
        return DataLoader(dataset, batch_size=64, persistent_workers=True)

## Good
    from torch.utils.data import DataLoader

    def loaders(dataset):
        return DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)

## Leaves alone
- Options with values that are not known, and `prefetch_factor=2` below torch 2.0.
- TL105b: workers that are told to be forked.
- TL105c: datasets that ask for the worker, draw at random, count with `while`, take every n-th
  sample or go through another library; loaders with a `worker_init_fn`.

It is information where only a default, or the way of starting workers, makes it wrong.

## Fix safety
No fix: only the author knows which of the options is meant.

## Evidence
Not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Multi-process Data Loading, Platform-specific behaviors"
- Python documentation, "multiprocessing: Contexts and start methods"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Instance, Nothing, Number, Object, Sequence, Text
from torchlint.training.workers import repeats_samples, unpicklable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.training.datasets import Datasets
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

PREFETCH_NONE = Version("2.0")  # the release whose default is None
NOT_FORKED = "where workers are not forked (Windows, macOS, Linux from Python 3.14 on)"
SHARE = (
    "Take each worker's share: `info = torch.utils.data.get_worker_info()`, then every "
    "`info.num_workers`-th sample from `info.id` on; `info` is None without workers."
)
GIVEN = (Object, Instance, Sequence, Text)


def invalid_worker_options(script: Script) -> Iterator[Finding]:
    """Find loaders that raise when they are made, or whose workers go wrong."""
    told: set[cst.CSTNode] = set()
    for loader in script.loaders:
        datasets = script.datasets(loader)
        clashes = [*without_workers(script, loader), *replaced(datasets)]
        if clashes:
            what, severity = clashes[0]
            what = f"{what}: making this DataLoader raises ValueError"
            yield Finding(loader.node, what, severity=severity)
        if loader.has_workers:
            yield from badly_started(script, loader, told)
            yield from repeated(datasets)


def without_workers(script: Script, loader: Loader) -> Iterator[tuple[str, Severity | None]]:
    """Yield options that need workers where there are none."""
    if loader.has_workers is not False:
        return
    level = Severity.INFO if loader.is_optional("num_workers") else None
    if loader.told("persistent_workers") is True:
        yield "`persistent_workers=True` needs num_workers above 0", level
    factor, target = loader.told("prefetch_factor"), script.settings.target
    if factor is not None and (factor != 2 or target is None or target >= PREFETCH_NONE):
        since = factor == 2 and target is None
        text = f"`prefetch_factor={factor:g}` needs num_workers above 0"
        yield f"{text} from torch 2.0 on" if since else text, Severity.INFO if since else level


def replaced(datasets: Datasets) -> Iterator[tuple[str, Severity | None]]:
    """Yield options that replace each other."""
    loader, size = datasets.loader, datasets.loader.value("batch_size")
    shuffles, drops = (loader.told(word) is True for word in ("shuffle", "drop_last"))
    is_sized = bool(size) and all(isinstance(one, Number) and one.value != 1 for one in size)
    sampled, batched = is_given(loader, "sampler"), is_given(loader, "batch_sampler")
    if (shuffles or sampled or batched) and datasets.is_iterable:
        word = "shuffle=True" if shuffles else "sampler" if sampled else "batch_sampler"
        yield f"the dataset is an IterableDataset, whose order `{word}` cannot set", None
    elif batched and (shuffles or drops or sampled or is_sized):
        yield "`batch_sampler` replaces batch_size, shuffle, sampler and drop_last", None
    elif shuffles and sampled:
        yield "`sampler` replaces `shuffle=True`", None
    elif drops and size and all(isinstance(one, Nothing) for one in size):
        yield "`batch_size=None` makes no batches that `drop_last=True` could drop", None


def is_given(loader: Loader, word: str) -> bool:
    """Whether a loader is certainly given something, not None."""
    argument = loader.arguments.get(word)
    found = argument.value if argument and argument.always else ()
    return bool(found) and all(isinstance(one, GIVEN) for one in found)


def badly_started(script: Script, loader: Loader, told: set[cst.CSTNode]) -> Iterator[Finding]:
    """Find what only forked workers can be given (TL105b), each once."""
    told_how = [one for one in loader.value("multiprocessing_context") if isinstance(one, Text)]
    if any(one.value == "fork" for one in told_how):
        return
    local = unpicklable(script.connected.evaluation, loader)
    node = loader.node if local is None or local.file != script.file else local.node
    if local is not None and node not in told:
        told.add(node)
        yield Finding(
            node,
            f"`{local.text}` cannot be sent to the workers of a DataLoader {NOT_FORKED}",
            severity=None if told_how else Severity.INFO,
            case="b",
            help="Define it at the level of the module.",
        )


def repeated(datasets: Datasets) -> Iterator[Finding]:
    """Find workers that all give the same samples (TL105c)."""
    loader = datasets.loader
    if datasets.is_iterable and loader.lacks("worker_init_fn") and repeats_samples(datasets):
        yield Finding(
            loader.node,
            "every worker of this DataLoader gives every sample: the dataset's `__iter__` does "
            "not ask for the worker's share",
            case="c",
            help=SHARE,
        )
