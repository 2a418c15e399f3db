"""Gradients are clipped while they are still multiplied by the gradient scaler.

## Why
`scaler.scale(loss).backward()` gives gradients that are some 65536 times too large, and
`scaler.step(optimizer)` divides them again.  A clipping between the two compares the large numbers
with a limit that is meant for the true ones: every step is cut to the limit, and then divided by
the scale.  The model hardly learns.  `scaler.unscale_(optimizer)` divides before the clipping, and
`step` then knows that it is done.

## Bad
    import torch

    def train(model, loader, optimizer, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

## Good
    import torch

    def train(model, loader, optimizer, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

## Leaves alone
- Any call of `unscale_` between the backward pass and the clipping, also in a function that is
  called there or is given the scaler.
- A scaler made with `enabled=False`, and objects that are not known to be a gradient scaler.
- Clipping in the branch that does not scale, or where the scaler is told to be off, and steps that
  ask for the scale (`scaler.get_scale()`): they may divide by hand.

Also reported: `unscale_` after the clipping; functions that clip; and gradients clamped one by one
(`p.grad.clamp_()`).  It is information where an option has to switch the scaler on, and under a
framework.

## Fix safety
Unsafe: training changes, as it is meant to.  `unscale_` may be called once for each optimizer
between two updates, so there is a fix only where the clipping, the step and the update surely run
together: the step stands in the same block as the clipping or the condition around it, the update
follows, and nothing in between leaves the block.  There is none where a framework is imported.

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
from torchlint.training.scaling import ScaledClip, is_off, scaled_clips, scaler_of
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script
    from torchlint.training.steps import Member


def clip_before_unscale(script: Script) -> Iterator[Finding]:
    """Find gradients that are clipped while they are scaled."""
    for found in scaled_clips(script.connected.steps):
        file, place = found.place
        if file != script.file:
            continue
        scaler = dotted(found.step.node.func).rpartition(".")[0]
        late = found.late is not None
        unscale = f"`{scaler}.unscale_({script.module.code(found.step.node.args[0].value)})`"
        is_plain = is_off(script.connected.evaluation, found.step.by) is False
        yield Finding(
            place,
            f"`{script.module.brief(place)}` clips gradients that `{scaler}` has scaled: {unscale} "
            f"{'comes only after it' if late else 'is missing'}",
            None if script.frameworks else fix(script, found, scaler),
            None if is_plain and not script.frameworks else Severity.INFO,
            help=f"{'Move' if late else 'Call'} {unscale} once before the clipping, in each step.",
        )


def fix(script: Script, found: ScaledClip, scaler: str) -> Fix | None:
    """Return the unscaling before the clipping, where both run as often as the step."""
    step = found.at(found.step)
    block = block_of(script, found.step.node) if step is found.step.node else ()
    first = place_in(script, block, found.place[1])
    last = place_in(script, block, found.step.node)
    if first is None or last is None or leaves(script, block[first:last]):
        return None
    optimizers = stepped(script, found, block[last:])
    rewrites: list[Rewrite] = []
    if found.late is not None:
        line = line_of(script, found.late.node)
        is_here = line is not None and any(line is one for one in block)
        argument = script.module.code(found.late.node.args[0].value) if is_here else ""
        if line is None or optimizers != [argument]:
            return None
        rewrites.append(DeleteStatement(line))
    if not optimizers:
        return None
    code = "\n".join(f"{scaler}.unscale_({one})" for one in optimizers)
    return Fix(
        "Unscale the gradients before they are clipped",
        Safety.UNSAFE,
        (InsertBefore(block[first], code), *rewrites),
        changes="gradients are clipped at their true size",
    )


def line_of(script: Script, call: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line that does nothing but make a call, and perhaps keep its result."""
    small = script.module.parent(call)
    line = None if small is None else script.module.parent(small)
    if isinstance(small, cst.Expr | cst.Assign) and isinstance(line, cst.SimpleStatementLine):
        return line if len(line.body) == 1 else None
    return None


def block_of(script: Script, call: cst.Call) -> Sequence[cst.BaseStatement]:
    """Return the statements of the block that a call is a line of; none if it is no line."""
    line = line_of(script, call)
    match None if line is None else script.module.parent(line):
        case cst.IndentedBlock(body=body) | cst.Module(body=body):
            return body
    return ()


def place_in(script: Script, block: Sequence[cst.BaseStatement], node: cst.CSTNode) -> int | None:
    """Return which statement of a block holds a node."""
    inside = script.module.index.inside
    return next((n for n, statement in enumerate(block) if inside(node, statement)), None)


def leaves(script: Script, statements: Sequence[cst.BaseStatement]) -> bool:
    """Whether the statements may end before the last of them: the update would not be reached."""
    index = script.module.index
    for statement in statements:
        if any(index.below(statement, cst.Return)):
            return True
        for kind in (cst.Break, cst.Continue):
            for node in index.below(statement, kind):
                loops = (a for a in index.ancestors(node) if isinstance(a, cst.For | cst.While))
                if not index.inside(next(loops), statement):
                    return True
    return False


def stepped(
    script: Script, found: ScaledClip, statements: Sequence[cst.BaseStatement]
) -> list[str]:
    """Return the optimizers stepped from here until the update; empty if not sure."""
    optimizers: list[str] = []
    done = False
    for statement in statements:
        for one in found.region.members:
            call = found.at(one)
            if call is None or not script.module.index.inside(call, statement):
                continue
            plain = line_of(script, one.node) is statement
            if one.role is Role.UPDATE and plain:
                return list(dict.fromkeys(optimizers))
            if one.role is Role.BACKWARD and scaler_of(found.region, one) is not None:
                done = True
            if one.role is Role.STEP and one.by and not done:
                if not plain or not is_name(one):
                    return []
                optimizers.append(script.module.code(one.node.args[0].value))
    return []


def is_name(step: Member) -> bool:
    """Whether the optimizer of a step is spoken of by a name, or an attribute of one."""
    return bool(dotted(step.node.args[0].value))
