"""A value is read from the GPU in every training step to be logged, kept or looked at.

## Why
Printing, logging or storing a number needs it on the host, and `.item()` (or formatting a tensor)
waits until the GPU has finished everything that was queued. In every step that keeps the CPU from
preparing the next kernels; every hundredth step it costs nothing that can be seen.
`loss.data[0]`, the spelling of `loss.item()` up to torch 0.4, is the same read, and so is the use
of a tensor as a number: `torch.arange(lengths.max())`, `torch.zeros(n, count)`, `range(count)`, and
`torch.tensor([loss, accuracy])`, which reads each tensor in the list.

## Bad
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(1000):
        loss = model(torch.randn(8, 4, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item())

## Good
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(1000):
        loss = model(torch.randn(8, 4, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, loss.item())

## Leaves alone
- reads under a periodic condition (`if rank == 0:` is none: it holds in each step of the process
  that the others wait for), a time limit, or asked for by an option, but not by one that says how
  to train (`if args.distributed:`, or `if args.clip > 0:` around what clips, `if args.decay > 0:`
  around a term of the loss with that weight, or `if args.amp:` with the loss of the step, or what
  clips its gradients, or `.item()` of the same, in each of its arms);
- `x.data[0]` of what may have dimensions, and where another arm reads the same by `.item()`;
- those after a change (`if task != self.task: ...; self.task = task`), once a count is full
  (`if self.seen == self.size:`), or of one sample of all (`if name in names: names.index(name)`);
- reads in a branch for certain values of what they read (`if loss.item() < 0: ...`), or for a
  value that no call in the project passes (`if criterion is not None:`);
- reads that decide whether the step is taken (`if torch.isfinite(loss).item(): optimizer.step()`),
  or whether the loop around them has one more turn (`while error > 0.1:`); but not of what the step
  has just copied to the GPU (`sizes = sizes.cuda()`), which could be read before that, nor of a
  loss whose own `backward()` is only called then;
- what a function returns, if each of its callers decides by it at once
  (`loss = learner.observe(x)`, `assert not math.isnan(loss)`);
- what is asked for by a parameter that is False by default and that nothing in the project gives
  (`if progress: bar.set_description(f"{loss}")`);
- sizes of pickled objects that a function gathers from all processes;
- reads in loops that run no model and take no batches, and around the loop of a whole evaluation or
  generation;
- tensors in the texts of errors and assertions (in other f-strings, and by `%` and `format()`, they
  are read, whoever gets the text);
- reads after the loop, once an epoch, in a branch that leaves the loop, or in the first turn alone
  (`if best is None: best = loss.item()`, `if not hasattr(self, "best"): self.best = ...`, and
  `if "loss" not in totals: totals["loss"] = ...` of a dictionary from before the loop);
- in an evaluation, all but what it only collects for after the loop (a total, a list, a meter), as
  the rest is needed at once: printed (be it as a total so far), looked up, made text of, handed on,
  or to decide by;
- in an evaluation, what is read right after another wait, with nothing queued in between but a
  little arithmetic: its own copy takes microseconds;
- evaluations whose turn makes its next input of what it reads, runs a whole chain of the model
  (`model.generate(x)`, be it as one of two ways), or calls what runs it and waits in each turn of
  its own (an attack of many steps);
- reads beside a wait that has to stay, with nothing queued in between: `torch.cuda.synchronize()`
  around what is timed, an index of the host, a mask, `nms`, what an evaluation needs at once; also
  where it stands before each call of the function that reads;
- functions, classes, files and folders that are named after drawing;
- Python and NumPy numbers, shapes and sizes, tensors on the host (also those that a function
  computes with an `nn.Sequential` that nothing moves), scripts for the CPU only;
- actions that a simulator needs on the host, priorities of a replay or a sampler, and what a search
  without gradients is told of the point that it gave (`search.ask()`, `search.tell(x, loss)`);
- running totals that are read after the loop: `item-accumulate-in-train-loop` reports those.

Reads in an evaluation loop are reported as information, and so are those of a training step that
come right after another wait, with nothing queued in between but a little arithmetic: they wait for
their own copy alone, but would wait for the GPU in its place. The message names the first of such a
group. A function that reads by itself is such a wait, and so is a step of apex's LARC, which reads
every parameter. A read beside a `torch.cuda.synchronize()` that could go, or right before any, is
information as well: both have to go, also where that stands in the function that calls this one
(`timed(step)`). So is one before a tensor on the GPU is indexed with an array, a list or a tensor
of the host, which is copied for that, and one before a function that begins with a copy for a
library of arrays, and one in a function that is only called where a value of the GPU asks for it.
And so are reads of what a mask selected with `masked_select`, if it is only summed: the sum of the
product with the mask waits for nothing.  And so are reads of a flag that tells every process to
stop, and those in a class or function that nothing in the project uses.

A read of the loss that decides whether to go back from it
(`if loss.item() < limit: loss.backward()`) is information as well: the GPU has nothing to do from
the end of the forward pass until the host has queued the backward pass. Called first, that runs
while the host waits, and only the step of the optimizer is left to decide on.

## Fix safety
Unsafe: what is logged changes. Statements that only log, and names that only they read, go under
`if step % 100 == 0:`, where the loop counts its steps: by `enumerate`, by `range`, or by a variable
that every turn increases by one. How often is the setting `log-interval`. Loggers that count their
calls (`wandb.log` without a step) count fewer.

No fix for `loss.data[0]`, nor where anything else would be left out: a value that is kept, counted
or looked at, or a call in the statement that may do more than it says. Where values are kept in a
list, append `loss.detach().clone()` and read them together after the loop.

## Evidence
A CPU has nothing to show: on a CPU the loss is there already, and reading it is free.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.host_results import decides_for_all, delays_backward, is_due
from torchlint.analysis.logs import run_of
from torchlint.analysis.loops import Role
from torchlint.analysis.step_counters import step_counter
from torchlint.analysis.syncs import Read, every_step
from torchlint.analysis.unused import is_unused
from torchlint.analysis.uploaded import was_uploaded
from torchlint.analysis.waits import (
    asked_before,
    costs,
    decides,
    is_futile,
    reads_again,
    waited,
    waits_anyway,
)
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Wrap
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted
from torchlint_rules.item_accumulate_in_train_loop import AGAIN, grown, running_total, spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync

GUARD = "log it every n steps (`if step % n == 0:`)"
CHECK = "check it every n steps (`if step % n == 0:`)"
BESIDE = "keep the number in a Python attribute as well, and read that one"
EARLIER = "the host has it before it is copied to the GPU: read it there"
ADD = "add up `{}` on the device, and read it once after the loop"
DECIDE = (
    "call `backward()` first, and decide by the value after it whether the optimizer takes the "
    "step (clear the gradients either way)"
)
SIZE = "hand the number on from where the host knows it, or count up to it on the device"
STACK = "`torch.stack([...])` makes one tensor of them on the device"
KEEP = "append `{}.detach().clone()` and read them together after the loop"


def log_every_step(program: Program) -> Iterator[Finding]:
    """Report reads of single values in every step, one a statement."""
    statements: dict[int, list[Sync]] = {}
    for sync in every_step(program):
        if sync.read is Read.COPY or running_total(program, sync) or is_due(program, sync):
            continue
        statements.setdefault(id(program.smallest_statement(sync.node)), []).append(sync)
    reading = {id(program.statement(found[0].node)) for found in statements.values()}
    for found in statements.values():
        in_order = sorted(found, key=lambda sync: program.index.order(sync.node))
        yield from finding(program, in_order, reading)


def finding(program: Program, found: list[Sync], reading: set[int]) -> Iterator[Finding]:
    """Say what a statement reads, what for, and what to do instead, if that gains anything."""
    sync, before = spoken_of(program, found)
    after = waits_anyway(program, sync) if before is None else None
    evaluates = sync.context.role is Role.EVAL
    # in an evaluation the few microseconds of its own copy are not worth a line
    if (evaluates and before is not None) or is_futile(program, sync, before, after):
        return
    read = f"`{program.brief(sync.node)}`"
    more = len(found) - 1 - sum(_is_other_arm(program, one, found) for one in found)
    if more:
        read += f" and {more} more"
    reason = "as a number " if sync.read is Read.SIZE else purpose(program, sync)
    what = "formatting" if sync.read is Read.SHOWN else "reading"
    if sync.read is Read.SHOWN and reason == "to log it ":
        what, reason = "logging", ""
    waits = before is not None or after is not None or asked_before(program, sync) != ""
    advice = evaluates or waits or not any(s.likely for s in found)
    advice |= decides_for_all(program, sync) or is_unused(program, sync.node)
    delays = delays_backward(program, sync)
    late = ", before the backward pass is queued" if delays and not waits else ""
    yield Finding(
        sync.node,
        f"{what} {read} {reason}{costs(program, sync, before, after)}{late}",
        None if delays or sync.read in (Read.SIZE, Read.LISTED) else fix(program, sync, reading),
        severity=Severity.INFO if advice or delays else None,
        help="; ".join(filter(None, (remedy(program, sync, before), spelling(program, sync)))),
        more=tuple(one.node for one in found if one is not sync),
    )


def spoken_of(program: Program, found: list[Sync]) -> tuple[Sync, cst.BaseExpression | None]:
    """Return the first read whose value no earlier statement has read, and the wait before it.

    That a value was read says nothing of the others: only where all were, it is the first of them.
    """
    repeated = []
    for one in found:
        before = waited(program, one, found)
        if before is None or not reads_again(program, before, one):
            return one, before
        repeated.append((one, before))
    return repeated[0]


def _is_other_arm(program: Program, sync: Sync, found: list[Sync]) -> bool:
    """Whether the other arm of a choice reads as well: each turn takes one of the two."""
    return any(
        program.index.inside(sync.node, above.body)
        and any(program.index.inside(one.node, above.orelse) for one in found)
        for above in program.index.ancestors(sync.node)
        if isinstance(above, cst.IfExp)
    )


def purpose(program: Program, sync: Sync) -> str:
    """What the value is read for, as a phrase for the message."""
    for above in program.index.ancestors(sync.node):
        if isinstance(above, cst.BaseStatement):
            return ""
        if isinstance(above, cst.Call):
            func = above.func
            last = func.attr.value if isinstance(func, cst.Attribute) else dotted(func)
            if last == "print" or last in ("write", "info", "debug", "warning"):
                return "to print it "
            if last == "append":
                return "to keep it "
            if last in ("update", "add_scalar", "add_scalars", "log", "set_postfix",
                        "set_description"):  # fmt: skip
                return "to log it "
    return ""


def remedy(program: Program, sync: Sync, before: cst.BaseExpression | None) -> str:
    """What to write instead."""
    if before is not None and reads_again(program, before, sync):
        return AGAIN
    if sync.read is Read.SIZE:
        return SIZE
    if sync.read is Read.LISTED:
        return STACK
    if purpose(program, sync) == "to keep it ":
        return KEEP.format(program.brief(sync.tensor))
    if delays_backward(program, sync):
        return DECIDE
    total = total_of_step(program, sync)
    if total is not None:
        return ADD.format(program.code(total))
    if sync.context.role is Role.FORWARD and dotted(_held(sync.tensor)).startswith("self."):
        return BESIDE
    if was_uploaded(program, sync.tensor):
        return EARLIER
    return CHECK if decides(program, sync.node) else GUARD


def total_of_step(program: Program, sync: Sync) -> cst.Name | None:
    """Return what each step adds up in a loop of its own: the norm of all gradients."""
    around = (cst.For, cst.While, cst.FunctionDef)
    above = program.index.ancestors(sync.node)
    turn = next((one for one in above if isinstance(one, around)), None)
    line, inside = program.smallest_statement(sync.node), program.index.inside
    target = grown(program, line)
    if not isinstance(turn, cst.For | cst.While) or turn is sync.context.loop:
        return None
    if not isinstance(target, cst.Name):
        return None
    others = (one for one in program.index.named[target.value] if not inside(one, line))
    return None if any(inside(one, turn) for one in others) else target


def _held(node: cst.BaseExpression) -> cst.BaseExpression:
    """``self.count`` in ``self.count[0]``."""
    return node.value if isinstance(node, cst.Subscript) else node


def fix(program: Program, sync: Sync, reading: set[int]) -> Fix | None:
    """Return the fix: what only logs does so every n steps, where the loop counts its steps."""
    loop, line = sync.context.loop, program.statement(sync.node)
    if program.frameworks or sync.old or sync.context.role is not Role.TRAIN:
        return None
    if not isinstance(loop, cst.For | cst.While) or not program.index.inside(line, loop):
        return None
    lines = run_of(program, line, reading)
    counter = step_counter(program, lines[0], loop) if lines else None
    if counter is None:
        return None
    every = program.preferences.log_interval
    return Fix(
        f"Log every {every} steps",
        Safety.UNSAFE,
        (Wrap(lines, f"if {counter} % {every} == 0:"),),
        changes=f"one of {every} steps is logged",
    )
