"""A loader takes tensors apart sample by sample, only to stack the samples again.

## Why
A `DataLoader` asks its dataset for one sample after another and stacks them. For a `TensorDataset`
a single index of the whole batch gives the same. A sampler that draws whole batches, with
`batch_size=None`, hands the indices of a batch to the dataset at once.

## Bad
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(10_000, 32))
    loader = DataLoader(data, 64, True)

    def train(model):
        for batch in loader:
            model(*batch).mean().backward()

## Good
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    data = TensorDataset(torch.randn(10_000, 32))
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, False))

    def train(model):
        for batch in loader:
            model(*batch).mean().backward()

## Leaves alone
- Loaders with a `collate_fn`, a `batch_sampler`, workers or a sampler that is not one of torch for
  a single process, or all of that perhaps; batch size 1 or None.
- Other datasets: classes derived from `TensorDataset`, and parts of one (`random_split`).
- Files that import a training framework, which puts samplers of its own into the loaders.

It is information where no training step goes through the loader. No fix with a sampler or
generator, for a dataset in the middle of an expression, and where the code asks a loader for its
`batch_size`, `drop_last` or `sampler`.

## Fix safety
Safe: the batches are the same, in the same order, and so are the random numbers. A tensor that may
have been permuted is made contiguous in the dataset, since stacking does that to each batch. Unsafe
where that has no name, or its tensors, or what is done with the loader, are not seen.

## Evidence
`torchlint bench TL104` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 2048, features 32: 12.5 ms and 7.83 ms, 1.59 x (1.55 to 1.64): faster; results
  bitwise equal.
- epoch, samples 512, features 3072: 10.3 ms and 9.59 ms, 1.08 x (1.05 to 1.11): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Disable automatic batching"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import (
    AddArgument,
    AddImport,
    InsertBefore,
    RemoveArgument,
    Replace,
    ReplaceArgument,
)
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Object
from torchlint.syntax.calls import last_name, positional
from torchlint.training.hoisting import free_name
from torchlint.training.loaders import asked_for
from torchlint.training.spelling import beside
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

DATA = "torch.utils.data"
TENSORS, LOADER = f"{DATA}.TensorDataset", f"{DATA}.DataLoader"
OTHERS = ("batch_size", "batch_sampler", "sampler", "drop_last")
MORE = ("sampler", "generator")  # a fix leaves these loaders as they are
SHUFFLED, ORDERED = "RandomSampler", "SequentialSampler"
WHOLE = Version("1.2")  # the first one that takes `batch_size=None` beside a sampler
# What gives a tensor in the order of its dimensions.
MAKERS = frozenset("zeros ones full empty rand randn randint randperm arange contiguous".split())
TIGHT = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
BY_PLACE = 3  # arguments that a call may have by place: dataset, batch_size, shuffle


def tensordataset_per_sample_collate(script: Script) -> Iterator[Finding]:
    """Find loaders that collate the samples of a TensorDataset one by one."""
    if script.frameworks or (script.settings.target or WHOLE) < WHOLE:
        return
    found = [one for one in script.loaders if takes_apart(one)]
    asked = asked_for(script.connected.evaluation, *OTHERS) if found else frozenset()
    for loader in found:
        turns = script.connected.turns(loader)
        often = max(turns, key=lambda one: (one.rate, one.certain), default=None)
        yield Finding(
            loader.node,
            "this DataLoader takes each sample out of a TensorDataset by itself and stacks them "
            "again: one index gives the whole batch",
            None if loader.at in asked else fix(script, loader),
            judging.severity(often) if often else Severity.INFO,
            help="Draw whole batches: sampler=BatchSampler(...), batch_size=None.",
        )


def takes_apart(loader: Loader) -> bool:
    """Whether a loader batches a TensorDataset, in torch's own way."""
    data = loader.value("dataset")
    is_of_tensors = all(isinstance(one, Object) and one.kind == TENSORS for one in data)
    return loader.kind == LOADER and loader.batches_alone and bool(data) and is_of_tensors


def fix(script: Script, loader: Loader) -> Fix | None:
    """Return the fix: a sampler that draws whole batches."""
    named = dataset_name(script, loader)
    drawn = sampler_of(script, loader, named[0]) if named and loader.lacks(*MORE) else None
    if named is None or drawn is None or len(positional(loader.node)) > BY_PLACE:
        return None
    names = re.findall(r"{(\w+)}", drawn)
    prefix = beside(script, loader.node.func, DATA, *names)
    if prefix is None:
        return None
    imports = () if prefix else tuple(AddImport(DATA, name) for name in names)
    code = re.sub(r"{(\w+)}", rf"{prefix}\1", drawn)
    laid = contiguous(script, loader)
    is_alike = laid is not None and not (laid and named[1])
    changes = "" if is_alike else "batches of tensors that were permuted keep their layout"
    if not loader.is_seen:
        changes = "code that is not seen may ask the loader for its batch_size: it is None"
    return Fix(
        "Take a whole batch with one index",
        judging.safety(not changes),
        (*(named[1] or laid or ()), *arguments(loader, code), *imports),
        changes,
    )


def dataset_name(script: Script, loader: Loader) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return a name for the dataset, and the rewrites that it takes."""
    module, data = script.module, loader.arguments["dataset"].node
    if isinstance(data, (cst.Name, cst.Attribute)):
        return module.code(data), ()
    statement = module.parent(loader.node)
    name = free_name(module, ("dataset", "tensor_dataset"), loader.node)
    if data is None or name is None or "#" in module.code(data):
        return None
    if not isinstance(statement, (cst.Assign, cst.Return)):
        return None
    made = InsertBefore(statement, f"{name} = {module.code(data)}")
    return name, (made, Replace(data, name))


def contiguous(script: Script, loader: Loader) -> list[Rewrite] | None:
    """Return what lays the tensors of the dataset out as usual; None where some are not seen."""
    evaluation, data = script.connected.evaluation, loader.value("dataset")
    calls = [one.call for one in data if isinstance(one, Object)]
    made = [evaluation.node(call) for call in calls if call and call.file == script.file]
    args = [arg for call in made if isinstance(call, cst.Call) for arg in call.args]
    loose = [arg.value for arg in args if not is_dense(script, arg.value)]
    if len(made) < len(data) or any(arg.star for arg in args):
        return None
    return [
        Replace(one, f"{code}.contiguous()" if isinstance(one, TIGHT) else f"({code}).contiguous()")
        for one in loose
        for code in (script.module.code(one),)
    ]


def is_dense(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a tensor is seen to be made in the order of its dimensions, and not permuted."""
    made = [getattr(one, "made", None) for one in script.value(node)]
    calls = [script.connected.evaluation.node(at) if at else None for at in made]
    return any(
        bool(several) and all(last_name(getattr(one, "func", None)) in MAKERS for one in several)
        for several in (calls, [node])
    )


def sampler_of(script: Script, loader: Loader, data: str) -> str | None:
    """Return a sampler that draws the batches of the loader; names of torch stand in braces."""
    names = ("batch_size", "shuffle", "drop_last")
    given = {name: loader.arguments[name].node for name in names if name in loader.arguments}
    code = {name: script.module.code(node) for name, node in given.items() if node is not None}
    if len(code) < len(given):
        return None  # in a dictionary
    shuffled, ordered = (f"{{{name}}}({data})" for name in (SHUFFLED, ORDERED))
    shuffle, drop = code.get("shuffle", "False"), code.get("drop_last", "False")
    inner = {"True": shuffled, "False": ordered}.get(
        shuffle, f"{shuffled} if {shuffle} else {ordered}"
    )
    return f"{{BatchSampler}}({inner}, {code['batch_size']}, {drop})"


def arguments(loader: Loader, sampler: str) -> Iterator[Rewrite]:
    """Yield the changes of the call's arguments."""
    found = {
        name: next((arg for arg in loader.node.args if arg.value is given.node), None)
        for name, given in loader.arguments.items()
    }
    place = found.get("shuffle") or found.get("drop_last")
    if (size := found.get("batch_size")) is not None:
        yield ReplaceArgument(loader.node, size, "batch_size", "None")
    if place is not None:
        yield ReplaceArgument(loader.node, place, "sampler", sampler)
    else:
        yield AddArgument(loader.node, "sampler", sampler)
    if (drop := found.get("drop_last")) is not None and drop is not place:
        yield RemoveArgument(loader.node, drop)
