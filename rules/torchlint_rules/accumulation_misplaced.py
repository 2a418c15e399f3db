"""Gradients are accumulated over several batches, but a step of it stands in the wrong place.

## Why
To train with a batch that does not fit, a script runs several backward passes before it lets the
optimizer step: each pass adds its gradients to those before it.  A `zero_grad()` in every turn of
the loop throws away what has been added up so far: the optimizer then sees the last of the batches
only, and all other forward and backward passes were for nothing.

What belongs to the whole window goes where the step is: `zero_grad()`, and clipping (TL607c), which
otherwise clips parts of a gradient.  What belongs to each batch is its share of the loss, divided
by the number of batches (TL607b), else the gradient is that many times what it would be.

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
- Loops with more than one optimizer, or whose backward pass is under the same condition as the
  step: there, `%` means something else.
- Conditions on what the loop does not count, such as the epoch.
- Files that touch `.grad` themselves: the gradients of each batch may be kept elsewhere.
- TL607b: losses that are summed, divided by anything, or made where this file does not show it, and
  files that compute something with the number of batches, such as a learning rate.
- Loops under `accelerator.accumulate(...)`, where the framework does all of it.

## Fix safety
Unsafe, since it changes the training, as it was meant to be: `zero_grad()` moves behind the step,
and one is put before the loop, for what a last, incomplete window has left.  There is a fix only
where the loss is divided already, and none under a framework.

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

from torchlint.analysis.accumulation import (
    Accumulation,
    Scale,
    accumulations,
    in_each_turn,
    scale,
    touches_gradients,
    zeroings,
)
from torchlint.analysis.scaling import clips
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertAfter, InsertBefore, Rewrite
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

CHANGES = "gradients add up over several batches, which changes the training"


def accumulation_misplaced(program: Program) -> Iterator[Finding]:
    """Find gradients that are dropped, clipped or left whole within a window of accumulation."""
    if program.frameworks and "accumulate(" in program.text:
        return
    for found in () if touches_gradients(program) else accumulations(program):
        dropped = zeroings(program, found)
        yield from (wasted(program, found, call, dropped) for call in dropped)
        if not dropped:
            yield from whole(program, found)
        yield from clipped(program, found)


def wasted(program: Program, found: Accumulation, call: cst.Call, every: list[cst.Call]) -> Finding:
    """The gradients are dropped in each turn."""
    assert isinstance(call.func, cst.Attribute)
    step = found.optimizers.get(dotted(call.func.value), found.step)
    only = len(every) == 1 and not program.frameworks
    return Finding(
        call,
        f"`{program.brief(call)}` in every turn drops what `{program.brief(step)}` waits for "
        f"until `{program.brief(found.guard.test)}`: only the last of those batches counts",
        fix(program, found, call) if only else None,
        Severity.INFO if program.frameworks else None,
        help="Drop the gradients after the step, under its condition.",
    )


def fix(program: Program, found: Accumulation, call: cst.Call) -> Fix | None:
    """Return the move of ``zero_grad()`` behind the step, and one more before the loop."""
    drop, last = program.parent(call), end_of_step(program, found)
    if not isinstance(drop, cst.Expr) or last is None:
        return None
    if scale(program, found) is not Scale.DIVIDED:
        return None
    rewrites: list[Rewrite] = [DeleteStatement(drop)]
    if not any(
        program.index.inside(other, found.guard.body)
        for other, _ in program.method_calls("zero_grad")
    ):
        rewrites.append(InsertAfter(last, program.code(call)))
    if not zeroed_before(program, found, program.code(call)):
        rewrites.append(InsertBefore(found.loop, program.code(call)))
    return Fix("Move it behind the step", Safety.UNSAFE, tuple(rewrites), CHANGES)


def end_of_step(program: Program, found: Accumulation) -> cst.BaseStatement | None:
    """Return the last statement of the guard that steps, or updates a scaler; None on one line."""
    body = found.guard.body
    if not isinstance(body, cst.IndentedBlock):
        return None
    ends = [*found.optimizers.values(), *(call for call, _ in program.method_calls("update"))]
    last = None
    for line in body.body:
        assert isinstance(line, cst.BaseStatement)
        if any(program.index.inside(call, line) for call in ends):
            last = line
    return last


def zeroed_before(program: Program, found: Accumulation, code: str) -> bool:
    """Whether the statement before the loop drops the gradients already."""
    block = program.parent(found.loop)
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    place = next(i for i, one in enumerate(block.body) if one is found.loop)
    return place > 0 and program.code(block.body[place - 1]).strip() == code


def whole(program: Program, found: Accumulation) -> Iterator[Finding]:
    """TL607b: each batch gives its whole loss."""
    how = Scale.UNKNOWN if program.frameworks else scale(program, found)
    if how not in (Scale.WHOLE, Scale.LIKELY):
        return
    every = program.brief(found.every)
    yield Finding(
        found.backward,
        f"`{program.brief(found.backward)}` adds the gradient of a whole loss {every} times before "
        f"`{program.brief(found.step)}`: the loss is not divided by `{every}`",
        severity=Severity.WARNING if how is Scale.WHOLE else Severity.INFO,
        case="b",
        help=f"Divide the loss by `{every}` before the backward pass, if it is a mean.",
    )


def clipped(program: Program, found: Accumulation) -> Iterator[Finding]:
    """TL607c: what has been added up so far is clipped in each turn."""
    for call in clips(program):
        inside = program.index.inside(call, found.loop.body)
        if inside and in_each_turn(program, call, found.loop):
            yield Finding(
                call,
                f"`{dotted(call.func)}` clips what has been added up so far in every turn, and "
                f"`{program.brief(found.step)}` waits for more",
                severity=Severity.INFO if program.frameworks else Severity.WARNING,
                case="c",
                help="Clip once, right before the step.",
            )
