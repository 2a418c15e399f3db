"""Every epoch of a distributed training goes through the data in one and the same order.

## Why
`DistributedSampler` draws its order from a seed and the number of the epoch, so that all processes
agree on it.  It does not count epochs by itself: unless `set_epoch` tells it the number, the
shuffling of each epoch is that of the first, every process gets the same part of the data each
time, and every batch is made of the same samples.  Training then does worse than it could, without
a word.

Without a `DistributedSampler` (TL804b) each process of `DistributedDataParallel` goes through all
of the data: an epoch takes as long as on one GPU, and the work is done once for each of them.

## Bad
    from torch.utils.data import DataLoader, DistributedSampler

    def train(model, dataset, optimizer, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=64, sampler=sampler)
        for epoch in range(epochs):
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

## Good
    from torch.utils.data import DataLoader, DistributedSampler

    def train(model, dataset, optimizer, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=64, sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

## Leaves alone
- Samplers with `shuffle=False` or a value that is not known, and samplers of evaluations.
- Training of a single epoch, samplers that are made anew in each, and files that take gradients
  but update nothing by them.
- Samplers that `set_epoch` may be called of somewhere: in this file, by a function that gets the
  loader and the number of the epoch, or by an object that gets the sampler.
- Files that import a training framework: Lightning, Accelerate and others call `set_epoch`.
  DeepSpeed does not: its engine takes the batches as they are given.
- TL804b: datasets that are not known, that are iterated, or where something speaks of ranks or
  shards; processes that draw from different seeds; loaders with a sampler of any kind.

Reported without a fix: where the number of the epoch has no name (`while`), or the sampler none
that is known in the loop over epochs; files that import DeepSpeed; and TL804b, which needs a
decision on the batch size.

## Fix safety
Unsafe: the data come in another order from the second epoch on, which is the point.  Where the
sampler may be another one, or None, the call stands under a condition.

## Evidence
`torchlint bench TL804` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 256: 1.59 ms and 1.59 ms, 1.00 x (0.98 to 1.03): no measurable change; results as
  E3 allows.
- epoch, samples 2048: 12.4 ms and 12.3 ms, 1.00 x (0.98 to 1.03): no measurable change; results as
  E3 allows.

On a GPU: not measured yet.

On a CPU, torch 2.13.0, `python -c "from torch.utils.data import DistributedSampler as S; s =
S(range(8), 2, 0); print(list(s), list(s)); s.set_epoch(1); print(list(s))"`: `[4, 7, 2, 1]` twice,
then `[5, 2, 7, 1]`.

## References
- PyTorch documentation, "torch.utils.data.distributed.DistributedSampler"
- PyTorch tutorial, "Getting Started with Distributed Data Parallel"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.datasets import IN_MEMORY
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.epochs import epoch_loops
from torchlint.analysis.hoisting import free_name, unchanged_in
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.loops import Role
from torchlint.analysis.neighbours import texts_around
from torchlint.analysis.origins import origins
from torchlint.analysis.values import Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import InsertBefore, Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted
from torchlint.syntax.line_layout import default_indent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.epochs import Epochs
    from torchlint.analysis.hoisting import Loop
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

SAMPLER = "torch.utils.data.DistributedSampler"
WRAPPER = "torch.nn.parallel.DistributedDataParallel"
SPLIT = re.compile(
    r"rank|world_?size|shard|replica|partition|num_process|process_i|proc_|split_by|(^|_)nodes?(_|$)",
    re.IGNORECASE,
)
DIVIDES = re.compile(
    r"distributed_?\w*sampler|seed\w*\([^()\n]*(\([^()\n]*\))?[^()\n]*rank", re.IGNORECASE
)
LEAVES_LOADERS = frozenset({"deepspeed"})  # its engine takes batches, wherever they come from
READERS = ("len", "print", "isinstance", "enumerate", "iter", "next", "zip", "tqdm", "DataLoader",
           "BatchSampler")  # fmt: skip


def sampler_no_set_epoch(program: Program) -> Iterator[Finding]:
    """Find distributed samplers that are not told the epoch, and training without a sampler."""
    if program.frameworks - LEAVES_LOADERS:
        return
    asked: set[int] = set()
    for loader in program.loaders.calls:
        for sampler in samplers_of(program, loader):
            if id(sampler) in asked or not shuffles(program, sampler):
                continue
            asked.add(id(sampler))
            loops = epoch_loops(program, loader)
            if loops and not is_told(program, sampler, loader, loops):
                yield finding(program, sampler, loader, loops)
    if not program.frameworks:
        yield from unsampled(program)


def samplers_of(program: Program, loader: cst.Call) -> list[cst.Call]:
    """Return the ``DistributedSampler(...)`` calls that a loader may draw from."""
    given = list(program.argument(loader, "sampler", LOADER).values)
    if program.argument(loader, "shuffle", LOADER).literal() == "True":
        return []  # it raises with a sampler
    for batches in program.argument(loader, "batch_sampler", LOADER).values:
        made = [node for node in origins(program, batches) if isinstance(node, cst.Call)]
        given += [call.args[0].value for call in made if call.args]
    found = [node for value in given for node in origins(program, value)]
    return [
        node
        for node in found
        if isinstance(node, cst.Call) and program.qualified(node.func) == SAMPLER
    ]


def shuffles(program: Program, sampler: cst.Call) -> bool:
    """Whether a sampler certainly shuffles."""
    shuffle = program.argument(sampler, "shuffle", SAMPLER)
    return shuffle.absent or shuffle.literal() == "True"


# -- whether somebody tells the epoch ---------------------------------------------------------


def is_told(program: Program, sampler: cst.Call, loader: cst.Call, loops: list[Epochs]) -> bool:
    """Whether anything may call ``set_epoch`` of a sampler, or set its ``epoch``."""
    if any("set_epoch" in text for text in texts_around(program)):
        return True
    calls = program.index.named.get("set_epoch", [])
    if program.text.count("set_epoch") > len(calls):
        return True  # in a string, or switched off in a comment
    if not all(is_of_another(program, name, sampler, loader) for name in calls):
        return True
    if any(assigns(program, name) for name in program.index.named.get("epoch", [])):
        return True
    numbers = {dotted(one.loop.target) for one in loops if isinstance(one.loop, cst.For)}
    homes = {id(one.program): one.program for one in loops} | {id(program): program}
    return any(
        may_tell(home, call, sampler, loader, numbers)
        for home in homes.values()
        for call in home.index.of(cst.Call)
    )


def is_of_another(program: Program, name: cst.Name, sampler: cst.Call, loader: cst.Call) -> bool:
    """Whether ``x.set_epoch`` is that of another sampler: by itself, or of another loader."""
    above = program.parent(name)
    if not (isinstance(above, cst.Attribute) and above.attr is name):
        return False
    receiver, wanted, known = above.value, sampler, SAMPLER
    if isinstance(receiver, cst.Attribute) and receiver.attr.value == "sampler":
        receiver, wanted, known = receiver.value, loader, LOADER
    return all(
        isinstance(node, cst.Call) and program.qualified(node.func) == known and node is not wanted
        for node in origins(program, receiver)
    )


def assigns(program: Program, name: cst.Name) -> bool:
    """``sampler.epoch = epoch``."""
    above = program.parent(name)
    return (
        isinstance(above, cst.Attribute)
        and above.attr is name
        and dotted(above.value) != "self"
        and isinstance(program.parent(above), cst.AssignTarget)
    )


def may_tell(
    program: Program, call: cst.Call, sampler: cst.Call, loader: cst.Call, numbers: set[str]
) -> bool:
    """Whether code that is not seen gets what it takes to tell the sampler the epoch.

    That is the sampler, which it may keep, or the loader and the number of the epoch.
    """
    last = dotted(call.func).rpartition(".")[2]
    if last in READERS or program.calls.target(call) or program.calls.elsewhere(call):
        return False
    values = [arg.value for arg in call.args if isinstance(arg.value, cst.Name | cst.Attribute)]
    if any(sampler in origins(program, value) for value in values):
        return True
    knows = last[:1].isupper() or any(dotted(value) in numbers - {""} for value in values)
    return knows and any(gives(program, value, loader) for value in values)


def gives(program: Program, node: cst.BaseExpression, loader: cst.Call) -> bool:
    """Whether an argument may be a loader, in the file that makes it or in another."""
    if program.parent(loader) is None:
        return program.value(node).kind is Kind.LOADER
    return loader in origins(program, node)


# -- the finding and its fix ------------------------------------------------------------------


def finding(program: Program, sampler: cst.Call, loader: cst.Call, loops: list[Epochs]) -> Finding:
    """Return the finding for a sampler that shuffles every epoch alike."""
    target = assigned(program, sampler)
    name = f"`{program.brief(target)}`" if target is not None else "this DistributedSampler"
    return Finding(
        sampler,
        f"{name} gives every epoch the order of the first: nothing calls its `set_epoch`",
        None if program.frameworks else fix(program, sampler, loader, loops),
        help="Call sampler.set_epoch(epoch) before each pass over the loader.",
    )


def assigned(program: Program, call: cst.Call) -> cst.Name | cst.Attribute | None:
    """Return the one name or attribute that gets what a call makes."""
    above = program.parent(call)
    while isinstance(above, cst.IfExp):
        above = program.parent(above)
    match above:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() | cst.Attribute() as target)]):
            return target
        case _:
            return None


def fix(program: Program, sampler: cst.Call, loader: cst.Call, loops: list[Epochs]) -> Fix | None:
    """Return the fix: the call as the first statement of each loop over epochs."""
    rewrites: list[Rewrite] = []
    for one in loops:
        loop = one.loop
        if one.program is not program:
            return None
        number = number_of(program, loop)
        told = handle(program, sampler, loader, loop)
        if number is None or told is None or not isinstance(loop.body, cst.IndentedBlock):
            return None
        code, condition = told
        line = f"{code}.set_epoch({number.value})"
        if condition:
            line = f"if {condition}:\n{default_indent(program)}{line}"
        first = loop.body.body[0]
        assert isinstance(first, cst.BaseStatement)
        rewrites.append(InsertBefore(first, line))
        if isinstance(loop, cst.For) and number is not loop.target:
            rewrites.append(Replace(loop.target, number.value))
    changes = "from the second epoch on the data come in another order"
    return Fix("Tell the sampler the epoch", Safety.UNSAFE, tuple(rewrites), changes=changes)


def number_of(program: Program, loop: Loop) -> cst.Name | None:
    """Return the name of an epoch's number, a new one where it has only been ``_``."""
    if not (isinstance(loop, cst.For) and isinstance(loop.target, cst.Name)):
        return None
    if loop.target.value != "_":
        return loop.target
    read = [name for name in program.index.named["_"] if program.index.bound(name) is None]
    if any(program.index.inside(name, loop) for name in read):
        return None
    name = free_name(program, ("epoch", "epoch_number"), loop)
    return None if name is None else cst.Name(name)


def handle(
    program: Program, sampler: cst.Call, loader: cst.Call, loop: Loop
) -> tuple[str, str] | None:
    """Return how a loop can speak of the sampler, and under which condition it is one."""
    target = assigned(program, sampler)
    if target is not None and is_visible(program, target, loop):
        return under(program, program.code(target), values_at(program, target, loop), sampler, loop)
    given = program.argument(loader, "sampler", LOADER).values
    for kind in (cst.Name, cst.Attribute):
        for node in program.index.below(loop.body, kind) if given else ():
            made = origins(program, node) if program.value(node).kind is Kind.LOADER else []
            if loader in made and unchanged_in(program, node, loop):
                found = [one for value in given for one in origins(program, value)]
                found += [one for one in made if one is not loader]
                return under(program, f"{program.code(node)}.sampler", found, sampler, loop)
    return None


def is_visible(program: Program, target: cst.Name | cst.Attribute, loop: Loop) -> bool:
    """Whether a name or ``self.x`` is in a loop what it is where it is assigned."""
    index = program.index
    if isinstance(target, cst.Name):
        owner = index.scope(loop).owner(target.value)
        if owner is None or owner is not index.scope(target).owner(target.value):
            return False
        rebound = any(index.inside(one.node, loop) for one in owner.bindings[target.value])
        return not rebound and bool(program.flow.before(loop, target.value))
    around = program.classes.around(loop)
    return dotted(target.value) == "self" and around is program.classes.around(target)


def values_at(program: Program, target: cst.Name | cst.Attribute, loop: Loop) -> list[cst.CSTNode]:
    """Return what a name or attribute may be where a loop starts."""
    if isinstance(target, cst.Attribute):
        return origins(program, target)
    found: list[cst.CSTNode] = []
    for binding in program.flow.before(loop, target.value):
        plain = binding.is_plain
        found += origins(program, binding.value) if plain and binding.value else [binding.node]
    return found


def under(
    program: Program, code: str, found: list[cst.CSTNode], sampler: cst.Call, loop: Loop
) -> tuple[str, str] | None:
    """Return code for a sampler that is one of some values, and when it is a distributed one."""
    others = [node for node in found if not is_sampler(program, node)]
    if not others:
        return code, ""
    if all(literal(node) == "None" for node in others) and not code.endswith(".sampler"):
        return code, f"{code} is not None"
    root: cst.BaseExpression = sampler.func
    while isinstance(root, cst.Attribute):
        root = root.value
    assert isinstance(root, cst.Name)
    index = program.index
    if index.scope(loop).owner(root.value) is not index.scope(root).owner(root.value):
        return None
    return code, f"isinstance({code}, {program.code(sampler.func)})"


def is_sampler(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression is a ``DistributedSampler(...)``."""
    return isinstance(node, cst.Call) and program.qualified(node.func) == SAMPLER


# -- training without a sampler ---------------------------------------------------------------


def unsampled(program: Program) -> Iterator[Finding]:
    """Find loaders that give each process of a distributed training all of the data (TL804b)."""
    wrapped = list(program.calls_of(WRAPPER))
    if not wrapped or splits_work(program, wrapped):
        return
    for loader in program.loaders.calls:
        if Role.TRAIN in program.loaders.roles(loader) and gives_all(program, loader):
            yield Finding(
                loader,
                "each process of DistributedDataParallel goes through all of the data: "
                "this DataLoader has no DistributedSampler",
                severity=Severity.WARNING,
                case="b",
                help="Pass sampler=DistributedSampler(dataset) in place of shuffle=True, and call "
                "its set_epoch(epoch) before each pass.",
            )


def splits_work(program: Program, wrapped: list[cst.Call]) -> bool:
    """Whether processes may mean to see the same data, or divide it in ways of their own."""
    if any(DIVIDES.search(text) for text in (program.text, *texts_around(program))):
        return True
    groups = ("process_group", "device_mesh")
    if any(arg.keyword and arg.keyword.value in groups for call in wrapped for arg in call.args):
        return True
    return any(
        "seed" in dotted(call.func).rpartition(".")[2].lower() and speaks_of_ranks(program, call)
        for call in program.index.of(cst.Call)
    )


def gives_all(program: Program, loader: cst.Call) -> bool:
    """Whether a loader certainly goes through a whole dataset, the same in each process."""
    for name in ("sampler", "batch_sampler", "generator"):
        given = program.argument(loader, name, LOADER)
        if not (given.absent or given.literal() == "None"):
            return False
    datasets = program.datasets.of_loader(loader)
    if not datasets or any(one.iterable is not False or one.type == IN_MEMORY for one in datasets):
        return False
    places = [(program, loader), *((data.program, data.node) for data in datasets)]
    places += [(home, owner.node) for data in datasets for home, owner in data.lineage()]
    return not any(speaks_of_ranks(home, place) for home, place in places)


def speaks_of_ranks(program: Program, node: cst.CSTNode, depth: int = 3) -> bool:
    """Whether code, or what its names come from, has to do with processes or shards."""
    for name in program.index.below(node, cst.Name):
        if SPLIT.search(name.value):
            return True
        sources = origins(program, name) if depth and program.index.bound(name) is None else []
        if any(one is not name and speaks_of_ranks(program, one, depth - 1) for one in sources):
            return True
    return False
