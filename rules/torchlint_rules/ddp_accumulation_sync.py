"""Gradients of micro-batches are averaged over all processes before they are complete.

## Why
`DistributedDataParallel` averages the gradients over all processes in every backward pass. A script
that accumulates them over several micro-batches uses only the last average: all the others are sent
for nothing, and each process waits for them. Within `model.no_sync()` a backward pass only adds to
the gradients of its own process; the first one outside of it averages the sum.

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
- Steps that call `no_sync()` around the forward and the backward pass, or set
  `require_backward_grad_sync`. Around the backward pass alone it has no effect.
- Models that are not seen to be wrapped by torch's own `DistributedDataParallel`, and
  `static_graph=True`, with which `no_sync()` fails.
- Steps that read, clip or drop (TL607) the gradients in each turn; frameworks; one micro-batch.

It is information where the number of micro-batches is not known, or an option has to set it.

## Fix safety
No fix: forward and backward pass have to go under one `with`, and what stands between them has to
be looked at. A step that takes what is left after the last whole window needs the average too, or
the processes drift apart. The sums are rounded in another order.

## Evidence
With torch 2.13.0+cpu and two processes over gloo, three micro-batches a step: after three steps
both processes have the same weights, whose absolute values sum to the same number, to a relative
1e-9, with and without `no_sync()`; also with `find_unused_parameters=True` and a layer that only
the first micro-batch uses.  With `static_graph=True`, `no_sync()` ends in "INTERNAL ASSERT FAILED".

## References
- PyTorch documentation, `torch.nn.parallel.DistributedDataParallel.no_sync`
- Hugging Face, "Performing gradient accumulation with Accelerate"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Nothing, Object, Truth
from torchlint.syntax.chains import dotted
from torchlint.training.accumulation import accumulations
from torchlint.training.effects import unit_around
from torchlint.training.optimizers import clears, made
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import Value
    from torchlint.training.accumulation import Accumulation
    from torchlint.training.script import Script
    from torchlint.training.steps import Member, Region

REPLICATED = "torch.nn.parallel.DistributedDataParallel"
SWITCHES = ("no_sync", "require_backward_grad_sync")


def ddp_accumulation_sync(script: Script) -> Iterator[Finding]:
    """Find micro-batches whose gradients are averaged over all processes one by one."""
    if script.frameworks:
        return
    for found in accumulations(script.connected.steps):
        if found.backward.file != script.file or found.passes == 1 or uses_each(found):
            continue
        region = found.region
        runs = region.of(Role.FORWARD)
        each = [one for one in runs if found.in_each_turn(one)]
        forward = next((one for one in each if averages(script, one.owner)), None)
        is_engine = any(arg.keyword is None for arg in found.backward.node.args)
        if forward is None or is_engine:  # an engine's own backward averages by its own rules
            continue
        covered = [is_under_no_sync(region, one) for one in (found.backward, *runs)]
        outside = covered[0] and not any(covered[1:])
        if outside or not any(any(region.speaks_of(word)) for word in SWITCHES):
            yield finding(script, found, forward, outside=outside)


def uses_each(found: Accumulation) -> bool:
    """Whether each turn reads, clips, drops or steps by the gradients."""
    region = found.region
    return region.touches_gradients or any(
        one.role in (Role.CLIP, Role.STEP)
        or (one.role is Role.ZERO_GRAD and clears(region, one, found.step))
        for one in region.members
        if found.in_each_turn(one)
    )


def averages(script: Script, value: Value) -> bool:
    """Whether something is a replicated model that `no_sync()` is for."""
    for one in value:
        if isinstance(one, Object) and one.kind == REPLICATED:
            given = made(script.connected.evaluation, one).get("static_graph")
            if given is None or all(each in (Truth(False), Nothing()) for each in given.value):
                return True
    return False


def is_under_no_sync(region: Region, member: Member) -> bool:
    """Whether a member runs under ``with model.no_sync():``, as its function shows."""
    evaluation, file = region.evaluation, member.file
    unit = unit_around(evaluation, member.node, file)
    items = [
        item.item
        for block, _ in evaluation.index(file).climb(member.node, unit.node)
        if isinstance(block, cst.With)
        for item in block.items
    ]
    bound = [one.value for item in items for one in evaluation.bindings(item)]
    return any(
        name.value == "no_sync"
        for node in (*items, *bound)
        if node is not None
        for name in evaluation.index(file).below(node, cst.Name)
    )


def finding(script: Script, found: Accumulation, forward: Member, *, outside: bool) -> Finding:
    """Return the finding for the backward pass of a micro-batch."""
    is_open = found.passes is None
    every = "several turns" if found.every is None else f"`{found.code(found.every)}` turns"
    model = dotted(forward.node.func)
    because = f", as `{script.module.brief(forward.node)}` is not under `no_sync()`"
    is_here = outside and forward.file == script.file
    return Finding(
        found.backward.node,
        f"`{script.module.brief(found.backward.node)}` averages the gradients over all processes "
        f"in each turn{because if is_here else ''}; {'when accumulating, ' if is_open else ''}"
        f"`{found.step_code}` uses only the last average of {every}",
        severity=Severity.INFO if is_open or not found.known else None,
        help="Run the forward and backward passes of all but the last under "
        f"`with {model}.no_sync():`.",
    )
