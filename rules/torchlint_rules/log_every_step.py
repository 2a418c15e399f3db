"""A value is read from the GPU in every training step to be logged, kept or looked at.

## Why
Printing, logging or storing a number needs it on the host, and `.item()` (or formatting a tensor)
waits until the GPU has finished everything that was queued. In every step that keeps the CPU from
preparing the next kernels; every hundredth step it costs nothing. A tensor that is used as a number
(`torch.zeros(n, count)`, `range(count)`) makes the host wait as well.

## Bad
    import torch

    def train(model, loader):
        model.cuda()
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            loss.backward()
            print(step, loss.item())

## Good
    import torch

    def train(model, loader):
        model.cuda()
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            loss.backward()
            if step % 100 == 0:
                print(step, loss.item())

## Leaves alone
- Reads every n steps, after a time, once an epoch, in a branch that leaves the loop, in texts of
  errors, or for an option that is off by default.
- Sizes and shapes, Python and NumPy numbers, tensors on the host, and scripts for the CPU only.
- What TL201 (totals), TL203 (the truth of a tensor) and TL204 (copies) report.

It is information in an evaluation, under a condition of which nothing is known, and for what is not
proved to be a tensor on a GPU.

## Fix safety
Unsafe: what is logged changes. Statements that only log, and names that only they read, go under
`if step % 100 == 0:` (the setting `log-interval`), where the loop counts its steps. Loggers that
count their calls (`wandb.log` without a step) count fewer.

## Evidence
A CPU has nothing to show: on a CPU the loss is there already, and reading it is free.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Wrap
from torchlint.rule import Finding
from torchlint.training.frequency import Rate
from torchlint.training.host_reads import How
from torchlint.training.log_lines import run_of, step_counter
from torchlint.training.read_uses import Use, uses
from torchlint_rules.item_accumulate_in_train_loop import running_totals
from torchlint_rules.judging import by_statement, severity, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

# What a number is read for, and what to write instead.
REMEDIES = {
    Use.TOTAL: ("", "add it up on the device, and read the sum where it is shown"),
    Use.SHOWN: ("to show it ", "log it every n steps (`if step % n == 0:`)"),
    Use.KEPT: ("to keep it ", "keep `{}.detach().clone()`, and read it after the loop"),
    Use.HANDED: ("to hand it on ", "hand on `{}.detach()`, and read it where it is shown"),
    Use.DECIDES: ("to decide by it ", "check it every n steps (`if step % n == 0:`)"),
    Use.COUNTED: ("as a whole number ", "hand it on from where the host knows it"),
    Use.RETURNED: ("", "return `{}.detach()`, and read it where it is shown"),
    Use.COMPUTED: ("", "compute with `{}.detach()` on the device"),
    None: ("", "log it every n steps (`if step % n == 0:`)"),
}


def log_every_step(script: Script) -> Iterator[Finding]:
    """Report reads of single values in every step, one finding a statement."""
    statements = [
        [read for read in found if not running_totals(script, read)]
        for found in by_statement(script, How.NUMBER, How.SHOWN, How.COUNT)
    ]
    reading = {id(script.module.statement(one.node)) for found in statements for one in found}
    for found in filter(None, statements):
        yield finding(script, found, reading)


def finding(script: Script, found: list[HostRead], reading: set[int]) -> Finding:
    """Say what a statement reads, what for, and what to do instead."""
    read = found[0]
    purpose, remedy = REMEDIES[next(iter(uses(script.connected.evaluation, read)), None)]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return Finding(
        read.node,
        f"reading `{script.module.brief(read.node)}`{more} {purpose}{waits(script, read)}",
        fix(script, read, reading),
        severity(script.frequency(read.node), any(one.sure for one in found)),
        help=remedy.format(script.module.brief(read.tensor)),
        more=tuple(one.node for one in found[1:]),
    )


def fix(script: Script, read: HostRead, reading: set[int]) -> Fix | None:
    """Return the fix: what only logs does so every n steps, where the loop counts its steps."""
    frequency, line = script.frequency(read.node), script.module.statement(read.node)
    if script.frameworks or frequency.rate is not Rate.STEP or frequency.misses:
        return None
    if read.how is How.COUNT or frequency.loop is None or frequency.loop.file != script.file:
        return None
    loop = script.connected.evaluation.node(frequency.loop)
    if not isinstance(loop, (cst.For, cst.While)) or not script.module.index.inside(line, loop):
        return None
    lines = run_of(script, line, reading)
    counter = step_counter(script, loop) if lines else None
    if counter is None:
        return None
    every = script.settings.preferences.log_interval
    return Fix(
        f"Log every {every} steps",
        Safety.UNSAFE,
        (Wrap(lines, f"if {counter} % {every} == 0:"),),
        changes=f"one of {every} steps is logged",
    )
