"""Gradients are clipped while they are still multiplied by the gradient scaler.

## Why
`scaler.scale(loss).backward()` gives gradients that are some 65536 times too large, and
`scaler.step(optimizer)` divides them again. Clipping in between compares the large numbers with a
limit meant for the true ones: every step is cut to the limit, then divided by the scale, and the
model hardly learns. `scaler.unscale_(optimizer)` divides before the clipping, and `step` then does
not.

## Bad
    import torch

    def train(model, loader, optimizer, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(model(x.cuda(), y.cuda())).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

## Good
    import torch

    def train(model, loader, optimizer, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(model(x.cuda(), y.cuda())).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

## Leaves alone
- Any call of `unscale_` between the backward pass and the clipping, also in a function that is
  called there or is given the scaler.
- Scalers that are off, and objects that are not known to be a gradient scaler.
- Clipping in the branch that does not scale, and steps that ask for the scale (`get_scale()`).

It is information where an option has to switch the scaler on, and under a framework.

## Fix safety
Unsafe: training changes, as it is meant to. `unscale_` may be called once for each optimizer
between two updates, so there is a fix only where clipping, step and update are lines of one block
that nothing in between leaves, and none under a framework.

## Evidence
`torchlint bench TL503` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64: 444 µs and 439 µs, 1.01 x (0.98 to 1.04): no measurable change; results
  as E3 allows.
- training step, width 512: 2.54 ms and 2.54 ms, 1.00 x (0.98 to 1.03): no measurable change;
  results as E3 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic Mixed Precision examples: Working with Unscaled Gradients"
- PyTorch documentation, `torch.amp.GradScaler.unscale_`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertBefore
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted
from torchlint.training.scaling import is_off, scaled_clips
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.scaling import ScaledClip
    from torchlint.training.script import Script

LEAVES = (cst.Return, cst.Break, cst.Continue)


def clip_before_unscale(script: Script) -> Iterator[Finding]:
    """Find gradients that are clipped while they are scaled."""
    for found in scaled_clips(script.connected.steps):
        if found.step.file != script.file:
            continue
        scaler = dotted(found.step.node.func).rpartition(".")[0]
        unscale = f"`{scaler}.unscale_({script.module.code(found.step.node.args[0].value)})`"
        is_plain = is_off(script.connected.evaluation, found.step.by) is False
        yield Finding(
            found.place,
            f"`{script.module.brief(found.place)}` clips gradients that `{scaler}` has scaled: "
            f"{unscale} {'comes only after it' if found.late else 'is missing'}",
            None if script.frameworks else fix(script, found, scaler),
            None if is_plain and not script.frameworks else Severity.INFO,
            help=f"{'Move' if found.late else 'Call'} {unscale} once before the clipping, in each "
            "step.",
        )


def fix(script: Script, found: ScaledClip, scaler: str) -> Fix | None:
    """Return the unscaling before the clipping, where both run as often as step and update."""
    module = script.module
    roles = [one.role for one in found.after]
    if Role.UPDATE not in roles or Role.BACKWARD in roles[: roles.index(Role.UPDATE)]:
        return None
    wanted = (Role.STEP, Role.UNSCALE, Role.UPDATE)
    ends = [one for one in found.after[: roles.index(Role.UPDATE) + 1] if one.role in wanted]
    block = list(getattr(module.parent(module.statement(found.step.node)), "body", ()))
    lines = [line_of(script, one.node) for one in ends]
    clip = next((line for line in block if module.index.inside(found.place, line)), None)
    if clip is None or any(line not in block for line in lines):
        return None
    between = block[block.index(clip) : block.index(lines[-1])]
    if any(True for one in between for kind in LEAVES for _ in module.index.below(one, kind)):
        return None
    codes = [
        {module.code(one.node.args[0].value): None for one in ends if one.role is role}
        for role in (Role.STEP, Role.UNSCALE)
    ]
    optimizers, unscaled = map(list, codes)
    if (found.late and unscaled != optimizers) or any("(" in one for one in optimizers):
        return None
    old = [line for one, line in zip(ends, lines, strict=True) if one.role is Role.UNSCALE]
    return Fix(
        "Unscale the gradients before they are clipped",
        Safety.UNSAFE,
        (
            InsertBefore(clip, "\n".join(f"{scaler}.unscale_({one})" for one in optimizers)),
            *(DeleteStatement(line) for line in old if line),
        ),
        changes="gradients are clipped at their true size",
    )


def line_of(script: Script, call: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line that does nothing but make a call, and perhaps keep its result."""
    small = script.module.parent(call)
    line = None if small is None else script.module.parent(small)
    if isinstance(small, cst.Expr | cst.Assign) and isinstance(line, cst.SimpleStatementLine):
        return line if len(line.body) == 1 else None
    return None
