"""Batches go to a GPU from a DataLoader that does not pin its memory.

## Why
A GPU copies only from page-locked ("pinned") memory.  A batch in ordinary memory is first copied by
the driver into a pinned buffer of its own, while Python waits.  With `pin_memory=True` a thread of
the DataLoader puts each batch into pinned memory beforehand, and the copy to the GPU can run beside
other work (with `non_blocking=True`).

## Bad
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4)
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=device.type == "cuda")
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Loaders whose batches are not seen to go to a GPU in this project, and scripts for the CPU, MPS
  or XLA.
- Loaders that are given `pin_memory`, or may be given it by a dictionary (`**kwargs`), whatever its
  value; a literal `pin_memory=False` is reported unless a comment stands beside it.
- Datasets and `collate_fn`s that make tensors on the GPU, and files that work with sparse tensors:
  asking to pin those raises.
- Loaders that are only looked at: one batch, once or now and then, or a few (`if i > 5: break`),
  or one after the other as a person asks for them (`input()`, `cv2.waitKey(0)` in each turn).
- Loaders of which nothing but the labels (or actions) goes to the GPU as it was loaded (of the rest
  it is a copy, made by `torch.cat` for example), and a `collate_fn` that gives arrays of NumPy, or
  what the training makes tensors of (`torch.tensor(x, device=device)`): only tensors are pinned.
- Batches that are converted before they are moved (`x.float().to(device)`): what is copied is what
  the conversion made, in ordinary memory, unless `ToTensor` is seen to give floats already; also
  by a function of the project.  So are those that are laid out anew
  (`x.permute(0, 3, 1, 2).contiguous()`) or gathered (`x.gather(1, picked)`, `x[[0, 2]]`), also
  where a part of one sample (`batch["focal"][0]`) goes as it is.
- Batches (or what moves of them) that a `collate_fn` puts into a class of the project without a
  `pin_memory` method: PyTorch hands such objects on unpinned, without a word.  So may be those
  moved as a whole (`batch.to(device)`) that a library's `collate_fn` makes, unless it is known.
- Loaders without workers, unless their dataset is seen to read or transform each sample (or made
  outside of the project, and batched by a `collate_fn`), so that workers would help as well: the
  main thread would do the pinning.  Those that only an evaluation goes through, whatever they read.
  The `DataLoader` of PyTorch Geometric does such work for any dataset, since it joins many graphs
  to one in Python: it is left alone only where an evaluation alone goes through it, apart from a
  training's epochs.
- The other loaders of PyTorch Geometric, and graphs that are moved with their dataset or that may
  hold sparse tensors (`ToSparseTensor`).
- Loaders of token ids, or of `batch_size=1` outside of a training's epochs, that nothing is seen to
  train with: there is nothing to gain beside what else is done with a batch.  So are those of token
  ids that are not known to have workers: the main thread would do the pinning.

Reported as information: images of 3 KB and less as `torchvision.datasets` gives them (MNIST,
CIFAR10), and token ids, of which a batch is copied in no time; evaluations of one sample at a time,
that write a file for each sample or batch, or that go through a loader a single time, beside the
epochs of a training; loaders without workers, or with workers only where an option says so
(`default=0`).

Reported without a fix: loaders that a framework wraps.  PyTorch Ignite wraps none: its engines take
the batches as they are given.

## Fix safety
Safe where `num_workers` is known to be above 0: the values are the same, and the pinning is done
beside the training.  It takes page-locked memory for a few batches.  Unsafe without workers, where
the main thread does the pinning and may become slower; where the number of workers is not known;
where the file does not name CUDA itself; where `pin_memory=False` was written; for the graphs of
PyTorch Geometric, which may hold what cannot be pinned (and old versions pin none); and where a
`collate_fn` may return a tuple that the loop does not take apart, which older versions pin as a
list.

Where the device depends, so does what is written: `device.type == "cuda"` if `device` is known to
be a `torch.device` made before the loader, else `torch.cuda.is_available()`, or
`torch.accelerator.is_available()` in a file that uses `torch.accelerator`.

## Evidence
A CPU has nothing to show: memory is pinned for copies to a GPU.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Memory Pinning"
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
- PyTorch Performance Tuning Guide, "Enable asynchronous data loading and augmentation"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.arguments import Given
from torchlint.analysis.datasets import made_outside
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.early_ends import sees_few
from torchlint.analysis.graphs import gives_graphs, may_refuse_to_pin
from torchlint.analysis.loaded import keeps_type, yields_gpu_tensors
from torchlint.analysis.loops import Role
from torchlint.analysis.pinning import (
    gives_arrays,
    gives_tokens,
    is_converted,
    is_of_one_sample,
    moves_label,
    moves_labels_only,
    small_samples,
    walked_in_epochs,
    walked_once,
)
from torchlint.analysis.reasons import refused
from torchlint.analysis.samples import collate_work, work
from torchlint.analysis.unpinned import goes_unpinned
from torchlint.analysis.values import Device
from torchlint.analysis.workers import Workers, workers_of
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, AddImport, Replace, Rewrite
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.arguments import Argument
    from torchlint.analysis.loaders import Move
    from torchlint.analysis.program import Program


RENAMED = Version("0.4")  # has `non_blocking`, which was `async` before
WRITES = re.compile(r"(save(z|txt|mat|_image|_images)?|im(write|save)|to_file)$")


WORTH = {
    Workers.NONE: ": worth it together with workers, which pin apart from training",
    Workers.UNASKED: ": worth it where num_workers is above 0",
}


def dataloader_no_pin_memory(program: Program) -> Iterator[Finding]:
    """Find loaders without pinned memory whose batches go to a GPU."""
    for call in program.loaders.calls:
        pinned = program.argument(call, "pin_memory")
        if not (pinned.absent or refused(program, pinned)):
            continue
        moves = moves_of(program, call)
        if not moves or moves_labels_only(program, moves):
            continue
        if yields_gpu_tensors(program, call) or makes_sparse(program) or sees_few(program, call):
            continue
        if may_refuse_to_pin(program, call):
            continue
        if gives_arrays(program, call) or gains_nothing(program, call):
            continue
        yield finding(program, call, pinned, moves)


def moves_of(program: Program, call: cst.Call) -> list[Move]:
    """Return where what a loader may pin goes to a GPU; a framework's moves count in training."""
    moves = program.loaders.moves(call)
    seen = [move for move in moves if not move.prepared]
    if not seen:
        return moves if Role.TRAIN in program.loaders.roles(call) else []
    plain = [
        move
        for move in seen
        if not is_converted(program, call, move)
        and not goes_unpinned(program, call, move)
        and not makes_tensor(program, move)
    ]
    return plain if len(plain) == len(seen) or not all(map(is_of_one_sample, plain)) else []


def makes_tensor(program: Program, move: Move) -> bool:
    """Whether a move makes a tensor of what is none yet: ``torch.tensor(array, device=device)``."""
    return (move.program or program).qualified(move.node.func) == "torch.tensor"


def gains_nothing(program: Program, call: cst.Call) -> bool:
    """Whether pinning is worth nothing to what goes through a loader."""
    roles = program.loaders.roles(call)
    if workers_of(program, call) is Workers.NONE:
        evaluates = roles == {Role.EVAL}
        if gives_graphs(program, call):
            return evaluates and not walked_in_epochs(program, call)
        return evaluates or not prepares(program, call)
    alone = is_alone(program, call) and not walked_in_epochs(program, call)
    tokens = gives_tokens(program, call)
    if tokens and workers_of(program, call) is not Workers.SOME:
        return True
    small = alone or tokens
    return small and bool(roles) and Role.TRAIN not in roles


def is_alone(program: Program, call: cst.Call) -> bool:
    """Whether a batch is a single sample."""
    return program.argument(call, "batch_size").literal() == "1"


def writes_files(program: Program, call: cst.Call) -> bool:
    """Whether nothing but evaluations goes through a loader that write files as they go."""
    return program.loaders.roles(call) == {Role.EVAL} and any(
        isinstance(one.func, cst.Attribute) and WRITES.match(one.func.attr.value)
        for home, loop in program.loaders.loops_everywhere(call)
        for one in home.index.below(loop.body, cst.Call)
    )


def prepares(program: Program, call: cst.Call) -> bool:
    """Whether samples are seen to be read or transformed, which workers would do.

    Of a dataset from outside of the project this is not seen, if there is a function for batches.
    """
    datasets = program.datasets.of_loader(call)
    if not datasets and not program.argument(call, "collate_fn").absent:
        return made_outside(program, call) or bool(collate_work(program, call))
    return any(map(work, datasets)) or bool(collate_work(program, call))


def makes_sparse(program: Program) -> bool:
    """Whether the file works with sparse tensors, which cannot be pinned."""
    return any(
        "sparse" in node.attr.value
        and (node.attr.value.startswith("to_") or program.qualified(node).startswith("torch."))
        for node in program.index.of(cst.Attribute)
    )


def finding(program: Program, call: cst.Call, pinned: Argument, moves: list[Move]) -> Finding:
    """Return the finding, with as much of a fix as the evidence allows."""
    workers = workers_of(program, call)
    framework = all(move.prepared for move in moves) or any(
        one.wrappers for one in programs_of(program, moves)
    )
    named = names_gpu(program, moves)
    small = small_samples(program, call)
    tokens = gives_tokens(program, call)
    few = workers in (Workers.NONE, Workers.UNASKED) or is_splat(program, call)
    little = bool(small) or tokens or few
    single = is_alone(program, call) and program.loaders.roles(call) == {Role.EVAL}
    once = walked_once(program, call, moves)
    little = little or single or once or writes_files(program, call)
    advice = framework or not named or little
    go = "go to the GPU" if named and not framework else "may go to a GPU"
    what = "is told not to pin its memory" if pinned.arg is not None else "does not pin its memory"
    alone = workers is Workers.NONE
    worth = WORTH.get(workers, "")
    tiny = f"samples as small as those of {small}" if small else "token ids" if tokens else ""
    tiny = tiny or ("one sample at a time" if single else "")
    tiny = tiny or ("a single pass" if once else "")
    if tiny and not alone:
        worth = f", though there is little to gain for {tiny}"
    return Finding(
        call,
        f"the batches of this DataLoader {go} (`{plainest(program, call, moves).code(program)}`), "
        f"but it {what}{worth}",
        None if framework else fix(program, call, pinned, moves, workers),
        Severity.INFO if advice else None,
        help=advised(program, workers, moves, framework=framework),
    )


def is_splat(program: Program, call: cst.Call) -> bool:
    """Whether only ``**options`` may say how many workers there are."""
    return program.argument(call, "num_workers").given is Given.UNSURE


def plainest(program: Program, call: cst.Call, moves: list[Move]) -> Move:
    """Return the move to name: of a batch as it is, in its loop, rather than of what it gives."""
    inputs = [
        move for move in moves if not moves_label(move.program or program, move.node)
    ] or moves
    loops = program.loaders.loops_everywhere(call)
    looped = [
        move
        for move in inputs
        if any(
            home is (move.program or program) and home.index.inside(move.node, loop)
            for home, loop in loops
        )
    ]
    inputs = looped or inputs
    for move in inputs:
        match move.node:
            case cst.Call(func=cst.Attribute(value=cst.Call())):
                pass
            case _:
                return move
    return inputs[0]


def advised(program: Program, workers: Workers, moves: list[Move], *, framework: bool) -> str:
    """Say what to know about this loader."""
    if framework:
        return "Pass pin_memory=True: the framework that moves the batches does not add it."
    if workers is Workers.NONE:
        return "Set num_workers above 0 as well: without workers the main thread does the pinning."
    makers = {program.qualified(move.node.func).rpartition(".")[2] for move in moves if move.maker}
    if all(flags := [flag(program, move) for move in moves]):
        return f"The copies wait as they are, though they are passed {flags[0]}=True."
    copies = "the copies" if len(makers) != 1 else makers.pop()
    name = "non_blocking" if makers or program.reaches(RENAMED) else "async"
    return f"Pinned batches can be copied while the GPU works: pass {name}=True to {copies}."


def flag(program: Program, move: Move) -> str:
    """Return the name of what tells a copy not to wait, which it does as long as nothing is pinned.

    It is empty where the copy is not told.
    """
    for arg in move.node.args:
        named = arg.keyword is not None and arg.keyword.value == "non_blocking"
        if arg.keyword is not None and named and literal(arg.value) == "True":
            return (move.program or program).code(arg.keyword)
    return ""


def programs_of(program: Program, moves: list[Move]) -> list[Program]:
    """Return the files that make a loader or move its batches."""
    return [program, *(move.program for move in moves if move.program is not None)]


def names_gpu(program: Program, moves: list[Move]) -> bool:
    """Whether one of those files itself says that it means a GPU."""
    return any(one.devices.named for one in programs_of(program, moves))


def fix(
    program: Program, call: cst.Call, pinned: Argument, moves: list[Move], workers: Workers
) -> Fix | None:
    """Return the fix: the argument, written so that it holds wherever the script runs."""
    value = wanted(program, call, moves)
    if value is None:
        return None
    code, imports = value
    rewrite: Rewrite = AddArgument(call, "pin_memory", code)
    if pinned.arg is not None:
        rewrite = Replace(pinned.arg.value, code)
    doubts = (
        ("the main thread pins each batch, if there are no workers", workers is not Workers.SOME),
        ("a GPU is an assumption", not names_gpu(program, moves)),
        ("False was written on purpose", pinned.arg is not None),
        ("graphs may hold what cannot be pinned", gives_graphs(program, call)),
        (
            "old versions of torch make a list of a batch that is a tuple",
            not keeps_type(program, call),
        ),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        f"{'Pass' if pinned.absent else 'Change to'} pin_memory={code}",
        Safety.UNSAFE if changes else Safety.SAFE,
        (rewrite, *imports),
        changes=changes,
    )


def wanted(
    program: Program, call: cst.Call, moves: list[Move]
) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return the value to pass and the import that it needs; None where torch has no name."""
    asked = any("is_available" in one.text for one in programs_of(program, moves))
    if all(move.device is Device.CUDA for move in moves) and not asked:
        return "True", ()
    there = program.devices.condition(call, [move.target for move in moves])
    if there is None:
        return None
    return there.code, (AddImport("torch"),) if there.needs_torch else ()
