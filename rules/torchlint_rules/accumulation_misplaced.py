"""Gradients are accumulated over several batches, but a step of it stands in the wrong place.

## Why
To train with a batch that does not fit, a script runs several backward passes for each step of the
optimizer. A `zero_grad()` in every turn throws away what they added up: only the last batch counts,
and all other passes were for nothing.

TL607b: a loss that is not divided by the number of batches makes the gradient that many times as
large. TL607c: clipping in every turn clips parts of a gradient; it belongs right before the step.

## Bad
    import torch

    def train(model, loader, optimizer, criterion, accumulate):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y) / accumulate
            loss.backward()
            if (step + 1) % accumulate == 0:
                optimizer.step()

## Good
    import torch

    def train(model, loader, optimizer, criterion, accumulate):
        optimizer.zero_grad()
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accumulate
            loss.backward()
            if (step + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()

## Leaves alone
- Conditions on what the loop does not count, such as the epoch; windows of one batch.
- Backward passes under the condition of the step, and steps that touch `.grad` themselves.
- TL607b: what no loss function gives, or anything divides, and files that multiply or divide by
  the number of batches, as for a learning rate.

It is information where more than the turns of the loop may decide, and under a framework. TL607b
is always: the loss may be a sum on purpose.

## Fix safety
Unsafe, since it changes the training: `zero_grad()` moves behind the step, and one is put before
the loop, for what a last, incomplete window has left. No fix where the file divides nothing by
the number of batches, for TL607b and TL607c, and under a framework.

## Evidence
`torchlint bench TL607` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- step of four batches, width 64: 797 µs and 732 µs, 1.09 x (1.06 to 1.11): faster; results as E3
  allows.
- step of four batches, width 512: 3.69 ms and 3.76 ms, 0.98 x (0.97 to 1.00): no measurable change;
  results as E3 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic Mixed Precision examples: Gradient accumulation"
- PyTorch documentation, `torch.optim.Optimizer.zero_grad`
- Hugging Face, "Performing gradient accumulation with Accelerate"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertAfter, InsertBefore, Rewrite
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted
from torchlint.training.accumulation import accumulations, is_divided, is_whole
from torchlint.training.optimizers import clears, is_only
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.accumulation import Accumulation
    from torchlint.training.script import Script
    from torchlint.training.steps import Member

CHANGES = "gradients add up over several batches, which changes the training"


def accumulation_misplaced(script: Script) -> Iterator[Finding]:
    """Find gradients that are dropped, clipped or left whole while they are accumulated."""
    for found in accumulations(script.connected.steps):
        region, step = found.region, found.step
        if region.touches_gradients:
            continue
        each = [one for one in region.members if found.in_each_turn(one)]
        dropped = [one for one in each if one.role is Role.ZERO_GRAD and clears(region, one, step)]
        after = each[each.index(found.backward) :] if is_only(region, step) else []
        clipped = [one for one in after if one.role is Role.CLIP]
        for one in (*dropped, *clipped):
            if one.file == script.file:
                may_move = dropped == [one] and not script.frameworks
                yield misplaced(script, found, one, fix(script, found, one) if may_move else None)
        if not dropped and found.backward.file == script.file:
            yield from whole(script, found)


def severity(script: Script, found: Accumulation, member: Member) -> Severity | None:
    """Information where more than the turns decides how often a member runs, or may do so."""
    is_certain = found.known and not member.conditions and not script.frameworks
    return None if is_certain else Severity.INFO


def misplaced(script: Script, found: Accumulation, one: Member, off: Fix | None) -> Finding:
    """The gradients are dropped, or clipped (TL607c), in each turn."""
    level = severity(script, found, one)
    if one.role is Role.CLIP:
        return Finding(
            one.node,
            f"`{dotted(one.node.func)}` clips what has been added up so far in every turn, and "
            f"`{found.step_code}` waits for more",
            severity=level or Severity.WARNING,
            case="c",
            help="Clip once, right before the step.",
        )
    until = f"until `{found.code(found.test.test)}`" if found.test else "until its loop has ended"
    place = "after the step, under its condition" if found.test else "once, before the loop"
    return Finding(
        one.node,
        f"`{script.module.brief(one.node)}` in every turn drops what `{found.step_code}` waits for "
        f"{until}: only the last of those batches counts",
        off,
        level,
        help=f"Drop the gradients {place}.",
    )


def fix(script: Script, found: Accumulation, one: Member) -> Fix | None:
    """Return the move of ``zero_grad()`` to where the window ends, or begins."""
    module, region = script.module, found.region
    drop, code = module.parent(one.node), module.code(one.node)
    is_here = all(len(each.path) == 1 for each in (one, found.step, found.backward))
    if not isinstance(drop, cst.Expr) or not is_here or not is_divided(found):
        return None
    rewrites: list[Rewrite] = [DeleteStatement(drop)]
    loop = region.evaluation.node(found.loop) if found.loop else region.node
    if not isinstance(loop, (cst.For, cst.While)):
        return None  # a step whose loop is elsewhere
    if found.loop is None:
        last = end_of_step(script, found, loop)
        if last is None:
            return None
        others = [each for each in region.of(Role.ZERO_GRAD) if each is not one]
        if not any(clears(region, each, found.step) for each in others):
            rewrites.append(InsertAfter(last, code))
    block = list(getattr(module.parent(loop), "body", (loop,)))
    before = block[: block.index(loop)]
    if not before or module.code(before[-1]).strip() != code:
        rewrites.append(InsertBefore(loop, code))
    return Fix("Drop them once for all of the batches", Safety.UNSAFE, tuple(rewrites), CHANGES)


def end_of_step(
    script: Script, found: Accumulation, loop: cst.For | cst.While
) -> cst.BaseStatement | None:
    """Return the last statement under the condition that steps, or updates a scaler."""
    index = script.module.index
    guard = next(one for one in loop.body.body if index.inside(found.step.node, one))
    if not isinstance(guard, cst.If) or not isinstance(guard.body, cst.IndentedBlock):
        return None
    ends = [one for one in (*found.steps, *found.region.of(Role.UPDATE)) if len(one.path) == 1]
    lines = [line for line in guard.body.body if any(index.inside(one.node, line) for one in ends)]
    return lines[-1] if lines else None


def whole(script: Script, found: Accumulation) -> Iterator[Finding]:
    """TL607b: each batch gives its whole loss."""
    if found.every is not None and not script.frameworks and is_whole(found):
        every = found.code(found.every)
        yield Finding(
            found.backward.node,
            f"`{script.module.brief(found.backward.node)}` adds the gradient of a whole loss "
            f"{every} times before `{found.step_code}`: the loss is not divided by `{every}`",
            severity=Severity.INFO,
            case="b",
            help=f"Divide the loss by `{every}` before the backward pass, if it is a mean.",
        )
