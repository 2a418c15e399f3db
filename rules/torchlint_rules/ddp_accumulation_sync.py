"""Gradients of micro-batches are averaged over all processes before they are complete.

## Why
`DistributedDataParallel` averages the gradients over all processes in every backward pass.  A
script that accumulates them over several micro-batches uses the average only when the optimizer
steps: all the others are sent for nothing, and each process waits for them.  Within
`model.no_sync()` a backward pass only adds to the gradients of its own process; the first one
outside of it averages the sum.

## Bad
    import torch
    from torch.nn.parallel import DistributedDataParallel

    def train(model, loader, criterion):
        model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / 4
            loss.backward()
            if (step + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()

## Good
    import contextlib

    import torch
    from torch.nn.parallel import DistributedDataParallel

    def train(model, loader, criterion):
        model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, (x, y) in enumerate(loader):
            last = (step + 1) % 4 == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = criterion(model(x), y) / 4
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()

## Leaves alone
- Files that know `no_sync()` or `require_backward_grad_sync`, or work with files that do.
- Models that are not seen to be wrapped by torch's own `DistributedDataParallel`, those that may be
  sharded (FSDP), and files that import a training framework, which does this by itself.
- `static_graph=True`: there `no_sync()` fails with an error.
- Loops whose turns have several backward passes, read or clip the gradients, or drop them (TL607).
- Accumulation over one micro-batch.  Where their number is not known, or one unless an option says
  otherwise, the finding is information.

## Fix safety
There is no fix: forward and backward pass have to go under one `with`, and what stands between
them, and clips or reads the gradients, has to be looked at.  A step that takes what is left after
the last whole window needs the average too: its last batch must not be under `no_sync()`, or the
processes drift apart.  The sums are rounded in another order.

## Evidence
With torch 2.13.0+cpu and two processes over gloo, three micro-batches a step: after three steps
both processes have the same weights, whose absolute values sum to the same number, to a relative
1e-9, with and without `no_sync()`; also with `find_unused_parameters=True` and a layer that only
the first micro-batch uses.  With `static_graph=True`, `no_sync()` ends in "INTERNAL ASSERT FAILED".

## References
- PyTorch documentation, `torch.nn.parallel.DistributedDataParallel.no_sync`
- PyTorch tutorial, "Getting Started with Distributed Data Parallel"
- Hugging Face, "Performing gradient accumulation with Accelerate"
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.micro_batches import micro_batches
from torchlint.analysis.neighbours import texts_around
from torchlint.analysis.options import is_held_to_one, option_default
from torchlint.analysis.replicas import replicated
from torchlint.analysis.schedules import made_of
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.micro_batches import MicroBatches
    from torchlint.analysis.program import Program

KNOWS = re.compile(r"\bno_sync\b|require_backward_grad_sync|requires_gradient_sync")
OTHER_WAYS = re.compile(r"static_graph|FSDP|FullyShardedDataParallel|fully_shard")


class Number(enum.Enum):
    """How many micro-batches there are for a step, as far as that is known."""

    ONE = enum.auto()
    SEVERAL = enum.auto()
    OPEN = enum.auto()  # not known, or one unless somebody asks for more


def ddp_accumulation_sync(program: Program) -> Iterator[Finding]:
    """Find micro-batches whose gradients are averaged over all processes one by one."""
    if program.frameworks or KNOWS.search(program.text):
        return  # what is asked of all the files below, where it costs nothing
    seen: set[int] = set()
    for parts in micro_batches(program):
        found = None if id(parts.step) in seen else replicated(program, parts)
        if found is None:
            continue
        model, wrapped = found
        homes = [program, *(home for home, _ in wrapped if home is not program)]
        number = count(homes, parts)
        if number is not Number.ONE and not differs(homes):
            seen.add(id(parts.step))
            yield finding(program, parts, model, number)


def differs(homes: list[Program]) -> bool:
    """Whether `no_sync()` may be called elsewhere, or may not be called for these models."""
    return any(
        home.frameworks
        or OTHER_WAYS.search(home.text)
        or any(KNOWS.search(text) for text in (home.text, *texts_around(home)))
        for home in homes
    )


def count(homes: list[Program], parts: MicroBatches) -> Number:
    """Return how many micro-batches the first of some files has for a step."""
    every = parts.every
    if every is None:
        return Number.OPEN
    if any(is_held_to_one(home, dotted(every).rpartition(".")[2]) for home in homes):
        return Number.ONE
    found = {number(home, node) for home, node in made_of(homes[0], every)}
    if found == {Number.ONE}:
        return Number.ONE
    return Number.SEVERAL if Number.SEVERAL in found else Number.OPEN


def number(home: Program, node: cst.CSTNode) -> Number:
    """Return what an expression of a file says; of an option, what it is by default."""
    fixed = isinstance(node, cst.Integer) and not isinstance(home.parent(node), cst.Param)
    if isinstance(node, cst.Attribute):
        default = option_default(home, node)
        node = node if default is None else default[1]
    text = literal(node) or ""
    if not text.isdecimal():
        return Number.OPEN
    if int(text) > 1:
        return Number.SEVERAL
    return Number.ONE if fixed else Number.OPEN


def finding(
    program: Program, parts: MicroBatches, model: cst.BaseExpression, number: Number
) -> Finding:
    """Return the finding for the backward pass of a micro-batch."""
    open_ = number is Number.OPEN
    every = "several turns" if parts.every is None else f"`{program.brief(parts.every)}` turns"
    return Finding(
        parts.backward,
        f"`{program.brief(parts.backward)}` averages the gradients over all processes in each "
        f"turn; {'when accumulating, ' if open_ else ''}`{program.brief(parts.step)}` uses only "
        f"the last average of {every}",
        severity=Severity.INFO if open_ else None,
        help="Run the forward and backward passes of all but the last under "
        f"`with {dotted(model)}.no_sync():`.",
    )
