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
- Clipping in the branch that does not scale, under a condition on mixed precision of its own, or
  with a limit made of the scale (`scaler.get_scale()`).

Also reported: `unscale_` after the clipping; functions of the file that clip; and gradients clamped
one by one (`p.grad.clamp_()`).

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

from torchlint.analysis.blocks import block_of, line_of, place_in
from torchlint.analysis.scaling import ScaledClip, ScalerCall, scaled_clips, scaler_calls
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertBefore
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite


def clip_before_unscale(program: Program) -> Iterator[Finding]:
    """Find gradients that are clipped while they are scaled."""
    calls = scaler_calls(program)
    for found in scaled_clips(program, calls):
        scaler = found.step.scaler
        unscale = f"`{scaler}.unscale_({found.step.optimizer})`"
        late = found.late is not None
        yield Finding(
            found.clip,
            f"`{program.brief(found.clip)}` clips gradients that `{scaler}` has scaled: {unscale} "
            f"{'comes only after it' if late else 'is missing'}",
            None if program.frameworks else fix(program, found, calls),
            Severity.INFO if program.frameworks else None,
            help=f"{'Move' if late else 'Call'} {unscale} once before the clipping, in each step.",
        )


def fix(program: Program, found: ScaledClip, calls: Sequence[ScalerCall]) -> Fix | None:
    """Return the unscaling before the clipping, where both run as often as the step."""
    block = block_of(program, found.step.call)
    first, last = place_in(program, block, found.clip), place_in(program, block, found.step.call)
    if first is None or last is None or leaves(program, block[first:last]):
        return None
    mine = [one for one in calls if one.scaler == found.step.scaler]
    optimizers = stepped(program, block[last:], mine)
    rewrites: list[Rewrite] = []
    if found.late is not None:
        line = line_of(program, found.late.call)
        if line is None or not any(line is one for one in block):
            return None
        if optimizers != [found.late.optimizer]:
            return None
        rewrites.append(DeleteStatement(line))
    if not optimizers:
        return None
    code = "\n".join(f"{found.step.scaler}.unscale_({one})" for one in optimizers)
    return Fix(
        "Unscale the gradients before they are clipped",
        Safety.UNSAFE,
        (InsertBefore(block[first], code), *rewrites),
        changes="gradients are clipped at their true size",
    )


def leaves(program: Program, statements: Sequence[cst.BaseStatement]) -> bool:
    """Whether the statements may end before the last of them: the update would not be reached."""
    index = program.index
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
    program: Program, statements: Sequence[cst.BaseStatement], calls: Sequence[ScalerCall]
) -> list[str]:
    """Return the optimizers stepped from here until a loss is scaled again; empty if not sure.

    The update of the scaler has to follow.
    """
    found: list[str] = []
    done = False
    for statement in statements:
        for one in calls:
            if not program.index.inside(one.call, statement):
                continue
            plain = line_of(program, one.call) is statement
            match one.method:
                case "update" if plain:
                    return list(dict.fromkeys(found))
                case "scale":
                    done = True
                case "step" if not done and (not plain or not is_name(one.optimizer)):
                    return []
                case "step" if not done:
                    found.append(one.optimizer)
                case _:
                    pass
    return []


def is_name(code: str) -> bool:
    """Whether code is a name, or an attribute of one."""
    return code.replace(".", "").isidentifier()
