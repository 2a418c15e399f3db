"""A loader takes tensors apart sample by sample, only to stack the samples again.

## Why
A `DataLoader` asks its dataset for one sample after another and stacks them.  For a
`TensorDataset`, whose samples lie in one tensor, that is one indexing operation and one small
tensor for each sample, where a single index of the whole batch gives the same.  For tensors on a
GPU each of them is a kernel launch.  A sampler that draws whole batches, with `batch_size=None` so
that the loader does not make batches of its own, hands the indices of a batch to the dataset at
once.  The smaller a sample is, the more that gains: of samples with thousands of numbers, copying
them costs more than taking them apart.

## Bad
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    x = torch.randn(10_000, 32)
    data = TensorDataset(x, x.sum(1))
    loader = DataLoader(data, batch_size=64, shuffle=True)

    def train(model, optimizer, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()

## Good
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    x = torch.randn(10_000, 32)
    data = TensorDataset(x, x.sum(1))
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, False))

    def train(model, optimizer, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()

## Leaves alone
- Loaders with a `collate_fn`, a `batch_sampler`, workers, or a sampler that is not one of torch for
  a single process (a `DistributedSampler` is told the epoch through the loader).
- Loaders that may get one of these by a dictionary (`**kwargs`), and those of batch size 1 or None.
- Other datasets: classes derived from `TensorDataset`, and parts of one (`Subset`, `random_split`),
  which take samples one by one whatever they are asked for.
- Files that import a training framework: it puts samplers of its own into the loaders.
- Code for a torch below 1.2, which takes no `batch_size=None` beside a sampler.

Reported as information: loaders that nothing is seen to go through but evaluations.

Reported without a fix: loaders that the code asks for `batch_size`, `drop_last` or `sampler`, which
would be others, calls with more than three arguments by place, and those that make a generator.

## Fix safety
Safe: the batches are the same, in the same order, as lists of tensors like before; `len(loader)`
and the random numbers drawn are the same.  A tensor that may have been permuted is made contiguous
in the dataset, once, because stacking does that to each batch: where it was permuted, that takes
memory for a copy.  Unsafe where the tensors of the dataset are not seen in the file, which are then
not made contiguous, and where the loader goes to code that is not seen: its `batch_size` is None.

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
- PyTorch documentation, "torch.utils.data.BatchSampler"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.arguments import Given
from torchlint.analysis.datasets import TENSOR_DATASET
from torchlint.analysis.density import is_dense
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.graphs import gives_graphs
from torchlint.analysis.hoisting import free_name
from torchlint.analysis.loader_uses import Use, use_of
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.loops import Role
from torchlint.analysis.names import canonical
from torchlint.analysis.origins import origins
from torchlint.analysis.workers import Workers, workers_of
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import (
    AddArgument,
    AddImport,
    InsertBefore,
    RemoveArgument,
    Replace,
    ReplaceArgument,
)
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

DATA = "torch.utils.data"
SAMPLERS = frozenset(
    f"{DATA}.{name}"
    for name in ("RandomSampler", "SequentialSampler", "SubsetRandomSampler",
                 "WeightedRandomSampler")
)  # fmt: skip
WHOLE = Version("1.2")  # the first one that takes `batch_size=None` beside a sampler
BY_PLACE = 3  # arguments that a call may have by place: dataset, batch_size, shuffle


def tensordataset_per_sample_collate(program: Program) -> Iterator[Finding]:
    """Find loaders that collate the samples of a TensorDataset one by one."""
    if program.frameworks or (program.target or program.named or WHOLE) < WHOLE:
        return
    for loader in program.loaders.calls:
        if gives_graphs(program, loader):
            continue  # it is not told to take batches as they are
        batches = makes_batches(program, loader) and is_of_tensors(program, loader)
        if batches and program.reaches(WHOLE):
            yield finding(program, loader)


def makes_batches(program: Program, loader: cst.Call) -> bool:
    """Whether a loader puts batches together in the main process, in torch's own way."""
    for name in ("collate_fn", "batch_sampler"):
        given = program.argument(loader, name, LOADER)
        if not (given.absent or given.literal() == "None"):
            return False
    size = program.argument(loader, "batch_size", LOADER)
    if size.given is not Given.YES or any(is_none_or_one(program, one) for one in size.values):
        return False
    return workers_of(program, loader) is Workers.NONE and draws_alone(program, loader)


def is_none_or_one(program: Program, size: cst.BaseExpression) -> bool:
    """Whether a batch size may be seen to be None, or is 1."""
    none = any(literal(one) == "None" for one in origins(program, size))
    return none or program.arguments.number(size) == 1


def draws_alone(program: Program, loader: cst.Call) -> bool:
    """Whether a loader draws samples by itself, or by a sampler of torch for one process."""
    sampler = program.argument(loader, "sampler", LOADER)
    if sampler.absent or sampler.literal() == "None":
        shuffle = program.argument(loader, "shuffle", LOADER)
        return shuffle.absent or bool(shuffle.values)
    made = [node for value in sampler.values for node in origins(program, value)]
    return bool(made) and all(
        isinstance(node, cst.Call) and program.qualified(node.func) in SAMPLERS for node in made
    )


def is_of_tensors(program: Program, loader: cst.Call) -> bool:
    """Whether the dataset is a TensorDataset itself."""
    datasets = program.datasets.of_loader(loader)
    return bool(datasets) and all(
        one.type == TENSOR_DATASET and not one.wrappers for one in datasets
    )


def finding(program: Program, loader: cst.Call) -> Finding:
    """Return the finding, with as safe a fix as can be shown to be one."""
    trained = bool(program.loaders.roles(loader) - {Role.EVAL})
    use = use_of(program, loader)
    return Finding(
        loader,
        "this DataLoader takes each sample out of a TensorDataset by itself and stacks them "
        "again: one index gives the whole batch",
        None if use is Use.ASKED else fix(program, loader, seen=use is Use.ITERATED),
        None if trained else Severity.INFO,
        help="Draw whole batches: sampler=BatchSampler(...), batch_size=None.",
    )


# -- the fix ----------------------------------------------------------------------------------


def fix(program: Program, loader: cst.Call, *, seen: bool) -> Fix | None:
    """Return the fix: a sampler that draws whole batches, of tensors in their usual layout.

    ``seen``: all that is done with the loader is seen.
    """
    by_place = [arg for arg in loader.args if arg.keyword is None and not arg.star]
    data = program.argument(loader, "dataset", LOADER).arg
    if len(by_place) > BY_PLACE or data is None:
        return None
    named = dataset_name(program, loader, data.value)
    drawn = None if named is None else sampler_of(program, loader, named.name)
    spelled = None if drawn is None else names_of(program, loader, drawn)
    if named is None or drawn is None or spelled is None:
        return None
    prefix, imports = spelled
    rewrites = [*named.rewrites, *arguments(program, loader, drawn.code(prefix)), *imports]
    doubts = (
        ("code that is not seen may ask the loader for its batch_size: it is None", not seen),
        ("batches of tensors that were permuted keep their layout", named.unseen),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        "Take a whole batch with one index",
        Safety.UNSAFE if changes else Safety.SAFE,
        tuple(rewrites),
        changes=changes,
    )


@dataclass(frozen=True, slots=True)
class Named:
    """A name for the dataset, the rewrites that it takes, and whether its tensors are unseen."""

    name: str
    rewrites: tuple[Rewrite, ...]
    unseen: bool


def dataset_name(program: Program, loader: cst.Call, data: cst.BaseExpression) -> Named | None:
    """Return a name for the dataset, whose tensors become contiguous where they may not be."""
    if isinstance(data, cst.Name | cst.Attribute):
        datasets = program.datasets.of_loader(loader)
        made = [one.call if one.program is program else None for one in datasets]
        rewrites = [
            Replace(arg.value, in_order(program, arg.value))
            for call in made
            for arg in (() if call is None else call.args)
            if not arg.star and not is_dense(program, arg.value)
        ]
        unseen = any(call is None or any(arg.star for arg in call.args) for call in made)
        return Named(program.code(data), tuple(rewrites), unseen)
    if not isinstance(data, cst.Call) or program.qualified(data.func) != TENSOR_DATASET:
        return None
    statement = plain_statement(program, loader)
    name = free_name(program, names_for(program, loader))
    if statement is None or name is None or "#" in program.code(data):
        return None
    tensors = ", ".join(argument(program, arg) for arg in data.args)
    made_before = InsertBefore(statement, f"{name} = {program.code(data.func)}({tensors})")
    unseen = any(arg.star for arg in data.args)
    return Named(name, (made_before, Replace(data, name)), unseen)


def argument(program: Program, arg: cst.Arg) -> str:
    """Return the code of an argument of ``TensorDataset(...)``."""
    if arg.star:
        return f"*{program.code(arg.value)}"
    dense = is_dense(program, arg.value)
    return program.code(arg.value) if dense else in_order(program, arg.value)


def in_order(program: Program, tensor: cst.BaseExpression) -> str:
    """Return the code of a tensor that is contiguous."""
    code = program.code(tensor)
    tight = isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    return f"{code}.contiguous()" if tight else f"({code}).contiguous()"


def plain_statement(
    program: Program, node: cst.CSTNode
) -> cst.SimpleStatementLine | cst.For | None:
    """Return the statement that evaluates an expression once, before all else that it does."""
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.SimpleStatementLine():
                return above
            case cst.For() if child is above.iter:
                return above
            case cst.Lambda() | cst.IfExp() | cst.BooleanOperation() | cst.BaseComp():
                return None
            case cst.CompFor() | cst.BaseStatement():
                return None
            case _:
                child = above
    return None


def names_for(program: Program, loader: cst.Call) -> tuple[str, ...]:
    """Return names for a dataset: ``train_dataset`` for that of ``train_loader``."""
    match program.parent(loader):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() | cst.Attribute() as target)]):
            last = dotted(target).rpartition(".")[2]
        case _:
            last = ""
    stem = re.sub(r"_?(data)?_?(loader|iter|dl)$", "", last, flags=re.IGNORECASE)
    return f"{stem}_dataset".lstrip("_"), f"{last}_dataset".lstrip("_"), "tensor_dataset"


@dataclass(frozen=True, slots=True)
class Drawn:
    """How batches are drawn: names of torch.utils.data stand in braces."""

    template: str
    names: tuple[str, ...]

    def code(self, prefix: str) -> str:
        """Return the code, with a prefix before each of the names."""
        code = self.template
        for name in self.names:
            code = code.replace(f"{{{name}}}", prefix + name)
        return code


def sampler_of(program: Program, loader: cst.Call, data: str) -> Drawn | None:
    """Return a sampler that draws the batches that the loader makes so far."""
    given = {
        name: program.argument(loader, name, LOADER)
        for name in ("batch_size", "shuffle", "sampler", "drop_last", "generator")
    }
    if any(one.arg is None and not one.absent for one in given.values()):
        return None  # in a dictionary
    if any(not isinstance(node, cst.Name | cst.Attribute) for node in given["generator"].values):
        return None  # a second one, where it is written a second time
    code = {
        name: program.code(one.arg.value)
        for name, one in given.items()
        if one.arg is not None and one.literal() != "None"
    }
    generator = f", generator={code['generator']}" if "generator" in code else ""
    shuffled, ordered = f"{{RandomSampler}}({data}{generator})", f"{{SequentialSampler}}({data})"
    names: tuple[str, ...] = ("RandomSampler", "SequentialSampler")
    match given["shuffle"].literal() if "shuffle" in code else "False":
        case _ if "sampler" in code:
            inner, names = code["sampler"], ()
        case "True":
            inner, names = shuffled, names[:1]
        case "False":
            inner, names = ordered, names[1:]
        case _:
            inner = f"{shuffled} if {code['shuffle']} else {ordered}"
    drop = code.get("drop_last", "False")
    return Drawn(
        f"{{BatchSampler}}({inner}, {code['batch_size']}, {drop})", ("BatchSampler", *names)
    )


def names_of(
    program: Program, loader: cst.Call, drawn: Drawn
) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return what stands before names of torch.utils.data, and the imports that they need."""
    func = loader.func
    if isinstance(func, cst.Attribute) and program.qualified(func.value) == DATA:
        return f"{program.code(func.value)}.", ()
    scope = program.index.scope(loader)
    for name in drawn.names:
        known = scope.owner(name) is None
        if not known and canonical(program.names.root(name, scope)) != f"{DATA}.{name}":
            return None
    return "", tuple(AddImport(DATA, name) for name in drawn.names)


def arguments(program: Program, loader: cst.Call, sampler: str) -> Iterator[Rewrite]:
    """Yield the changes of the call's arguments."""
    found = {
        name: program.argument(loader, name, LOADER).arg
        for name in ("batch_size", "shuffle", "sampler", "drop_last")
    }
    place = found["sampler"] or found["shuffle"] or found["drop_last"]
    if found["batch_size"] is not None:
        yield ReplaceArgument(loader, found["batch_size"], "batch_size", "None")
    if place is not None:
        yield ReplaceArgument(loader, place, "sampler", sampler)
    else:
        yield AddArgument(loader, "sampler", sampler)
    if found["drop_last"] not in (None, place):
        yield RemoveArgument(loader, found["drop_last"])
