"""A scheduler is not moved on when its schedule counts on it: too early, or too seldom.

## Why
A scheduler sets its first learning rate as it is made, and each `step()` moves it on to the next.
When that comes before the optimizer has taken a step (TL605b), the schedule runs one step early:
every milestone comes one step, or one epoch, too soon, and a first learning rate that holds for one
step alone is never used.  That was the right order before torch 1.1; since then torch warns of it
at run time.

`OneCycleLR` and `CyclicLR` count what they are told to.  A schedule of `len(loader)` steps an epoch
that is moved on once in each epoch never gets farther than its warm-up.

## Bad
    from torch.optim.lr_scheduler import StepLR

    def train(model, loader, optimizer, epochs):
        scheduler = StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            scheduler.step()
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

## Good
    from torch.optim.lr_scheduler import StepLR

    def train(model, loader, optimizer, epochs):
        scheduler = StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            scheduler.step()

## Leaves alone
- `ReduceLROnPlateau`, and schedulers that are not torch's: those of other libraries, and classes
  that have a `step` of their own, or a `get_lr` that does not ask for `self.last_epoch` or begins
  with a learning rate of 0 (`rate * self.last_epoch / steps`).
- `step(epoch)`, which sets the learning rate of that epoch.
- Optimizers that may have stepped before: earlier in the same turn, before the loop, or in a
  function that is not seen and trains by its name.
- Steps under a condition that may not hold in the first turn, and those that only catch up with a
  training that is resumed: a loop of nothing else, or where `last_epoch` is set by hand.
- Places where the order is not seen, files that import a training framework, and projects that
  pin a torch older than 1.1 or use what it no longer has.  Where only a README names such a torch,
  the finding is information.
- TL605: schedules that something else moves on as well.

## Fix safety
There is no fix: the line has to move behind a loop, and what is logged and saved between the two
has to be looked at.  A training that is repeated afterwards has other learning rates.

## Evidence
Not measured yet.

## References
- PyTorch documentation, "How to adjust learning rate"
- PyTorch documentation, `torch.optim.lr_scheduler.OneCycleLR`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.loops import Role
from torchlint.analysis.schedules import counts_batches, moves
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.schedules import Early, Schedule

SINCE = Version("1.1")  # the first learning rate is set as a scheduler is made


def scheduler_step_frequency(program: Program) -> Iterator[Finding]:
    """Find schedulers that are moved on before the optimizer has stepped, or too seldom."""
    if program.frameworks or is_older(program) or sets_count(program):
        return
    for call, schedule in moves(program):
        early = schedule.early()
        if early is not None:
            yield finding(program, call, schedule, early)
        elif is_seldom(program, call, schedule):
            yield Finding(
                call,
                f"`{program.brief(call)}` moves a schedule on once an epoch that counts the "
                "batches of a loader",
                help="Call it in each step, after the optimizer's.",
            )


def is_seldom(program: Program, call: cst.Call, schedule: Schedule) -> bool:
    """Whether a schedule of as many steps as there are batches is moved on between their loops."""
    return (
        program.context(call).role is Role.EPOCH
        and all(home is program and counts_batches(home, made) for home, made in schedule.made)
        and schedule.is_alone()
    )


def is_older(program: Program) -> bool:
    """Whether the project runs on a torch on which schedulers were moved on first."""
    pinned = program.target is not None and not program.floor and program.target < SINCE
    return pinned or not program.reaches(SINCE)


def sets_count(program: Program) -> bool:
    """``scheduler.last_epoch = start - 1``: the next step is meant to be the first."""
    return any(
        isinstance(above := program.parent(name), cst.Attribute)
        and above.attr is name
        and isinstance(program.parent(above), cst.AssignTarget)
        for name in program.index.named.get("last_epoch", [])
    )


def finding(program: Program, call: cst.Call, schedule: Schedule, early: Early) -> Finding:
    """Return the finding for a step of a scheduler that comes before the optimizer's."""
    older = program.is_named_below(SINCE)
    where = "right after the optimizer's" if early.each_step else "at the end of the epoch"
    unused = ", and its first learning rate is never used" if schedule.changes_at_once() else ""
    note = "; the README names an older torch, where this order was right" if older else ""
    return Finding(
        call,
        f"`{program.brief(call)}` comes before the first step of the optimizer: the schedule runs "
        f"one step early{unused}{note}",
        severity=Severity.INFO if older else None,
        case="b",
        help=f"Call it {where}.",
    )
