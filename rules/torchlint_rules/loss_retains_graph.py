"""A running total or a list keeps the graph of every step alive.

## Why
A loss is a tensor that knows how it was computed.  Adding it to a total, or keeping it in a list,
keeps that graph: one more in every step, so that memory grows until the loop ends.  After a
backward pass what is left of a graph is small; in an evaluation that runs no backward pass it holds
the activations of every layer, and memory runs out.  An object of the project that adds up what it
is given (`meter.update(loss, n)`) does the same.

## Bad
    import torch
    import torch.nn.functional as F

    def train(model, batches, optimizer):
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss
        return total / len(batches)

## Good
    import torch
    import torch.nn.functional as F

    def train(model, batches, optimizer):
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return total / len(batches)

## Leaves alone
- Totals and lists of which a gradient is asked: losses that are added up for one backward pass,
  returns of a policy, a memory bank that learns.
- What is detached, a number (`.item()`), a count, or made under `torch.no_grad()`.
- What starts anew in every step, or in a training now and then (`if step % 100 == 0: total = 0`),
  and what is kept now and then.
- Objects whose class is not in the project, or whose method detaches or converts what it adds.
- Sums of two losses of one step.

## Fix safety
Safe: `.detach()` gives the same numbers on the same device, without the graph.  Nobody can ask a
gradient of them later: after the backward pass the graph is gone.  Unsafe where the graph is kept
on purpose (`retain_graph=True`), where nobody is seen to call an evaluation, and where the total or
the list itself is printed: a tensor with a graph shows its `grad_fn`.

## Evidence
`torchlint bench TL402` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, width 64, batches 16: 5.21 ms and 4.81 ms, 1.08 x (1.05 to 1.11): faster; results bitwise
  equal.
- epoch, width 512, batches 8: 15.3 ms and 14.5 ms, 1.05 x (1.03 to 1.08): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch FAQ, "My model reports cuda runtime error(2): out of memory"
- PyTorch documentation, "Autograd mechanics"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.recording import Recording
from torchlint.analysis.retained import retains_on_purpose, retentions
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.retained import Retention

SHOWS = frozenset({"print", "str", "repr", "info", "debug", "warning", "write", "format"})


def loss_retains_graph(program: Program) -> Iterator[Finding]:
    """Find totals and lists that keep a graph of every step."""
    for one in retentions(program):
        named = ", ".join(f"`{program.brief(leaf)}`" for leaf in one.leaves)
        what = "every training step alive"
        if one.evaluation is not None:
            what = "every batch alive, with all of its activations"
        yield Finding(
            one.growing.statement,
            f"`{program.brief(one.growing.statement)}` keeps the graph of {named} of {what}",
            None if program.frameworks else fix(program, one),
            severity(program, one),
            help="Keep `.detach()` of it: the same numbers, without the graph.",
        )


def severity(program: Program, one: Retention) -> Severity | None:
    """Tell how bad it is: in an evaluation the memory runs out."""
    if program.frameworks or is_assumed(one):
        return Severity.INFO
    return None if one.evaluation is None else Severity.ERROR


def is_assumed(one: Retention) -> bool:
    """Whether it happens in an evaluation that not all of its callers are seen to record."""
    return one.evaluation is not None and one.evaluation.recording is not Recording.ON


def fix(program: Program, one: Retention) -> Fix:
    """Return the replacement of each tensor by itself without its graph."""
    doubts = (
        ("the graph may be kept on purpose", retains_on_purpose(program)),
        ("a caller may ask a gradient of it", is_assumed(one)),
        ("what is printed shows no grad_fn", is_shown(program, one.growing.keeper)),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        "Keep it without its graph",
        Safety.UNSAFE if changes else Safety.SAFE,
        tuple(Replace(leaf, f"{program.bare(leaf)}.detach()") for leaf in one.leaves),
        changes=changes,
    )


def is_shown(program: Program, keeper: cst.BaseExpression) -> bool:
    """Whether a total or a list is shown as it is, so that a graph would be seen."""
    name = dotted(keeper)
    for call in program.index.of(cst.Call):
        shows = dotted(call.func).rpartition(".")[2] in SHOWS
        if shows and any(is_part(arg.value, name) for arg in call.args):
            return True
    parts = program.index.of(cst.FormattedStringExpression)
    return any(is_part(part.expression, name) for part in parts)


def is_part(node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression is what has a name, or something that it keeps: ``meter.avg``."""
    return bool(name) and f"{dotted(node)}.".startswith(f"{name}.")
