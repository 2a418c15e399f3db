"""A scheduler is not moved on when its schedule counts on it: too early, or too seldom.

## Why
A schedule that counts batches but is moved on once an epoch never leaves its warm-up.

TL605b: a scheduler sets its first learning rate as it is made, and each `step()` moves it on to the
next. When that comes before the optimizer has taken a step, every milestone comes one step, or one
epoch, too soon. That was the right order before torch 1.1; since then torch warns of it.

## Bad
    from torch.optim.lr_scheduler import StepLR

    def train(model, loader, optimizer, epochs):
        scheduler = StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            scheduler.step()
            for x, y in loader:
                model(x, y).backward()
                optimizer.step()
                optimizer.zero_grad()

## Good
    from torch.optim.lr_scheduler import StepLR

    def train(model, loader, optimizer, epochs):
        scheduler = StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for x, y in loader:
                model(x, y).backward()
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()

## Leaves alone
- `ReduceLROnPlateau`, `step(epoch)`, schedulers of other libraries or with a `step` of their own.
- Optimizers that have stepped before, or may have, in a call that is not seen.
- Moves that may not happen in the first turn, and schedulers whose `last_epoch` is set by hand.
- Projects that pin a torch older than 1.1.
- TL605: schedules that something else moves on as well, or may.

It is information where the scheduler or optimizer is not certain, and with a framework.

## Fix safety
No fix: the line has to move behind a loop, and what is logged and saved between the two has to be
looked at. A training that is repeated afterwards has other learning rates.

## Evidence
Not measured yet.

## References
- PyTorch documentation, "How to adjust learning rate"
- PyTorch documentation, `torch.optim.lr_scheduler.OneCycleLR`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.rule import Finding, Severity
from torchlint.semantics.tables.torch_classes import SCHEDULERS
from torchlint.semantics.values import Object
from torchlint.training.frequency import Rate
from torchlint.training.schedules import counts_batches, is_early, moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

SINCE = Version("1.1")  # the first learning rate is set as a scheduler is made
# Each step has another learning rate, and the first one does not come again.
CHANGING = frozenset(
    f"{SCHEDULERS}{name}" for name in ("ExponentialLR", "LinearLR", "OneCycleLR", "PolynomialLR")
)


def scheduler_step_frequency(script: Script) -> Iterator[Finding]:
    """Find schedulers that are moved on before the optimizer has stepped, or too seldom."""
    if not script.settings.may_be(SINCE):
        return
    steps, evaluation = script.connected.steps, script.connected.evaluation
    found = list(moves(steps, script.file))
    for call, value in found:
        frequency, code = script.frequency(call), script.module.brief(call)
        early = is_early(steps, call, value, script.file)
        if early is not False:
            is_unused = all(isinstance(one, Object) and one.kind in CHANGING for one in value)
            unused = ", and its first learning rate is never used" if is_unused else ""
            is_step = frequency.rate is Rate.STEP
            where = "right after the optimizer's" if is_step else "at the end of the epoch"
            yield Finding(
                call,
                f"`{code}` comes before the first step of the optimizer: the schedule runs one "
                f"step early{unused}",
                severity=None if early and not script.frameworks else Severity.INFO,
                case="b",
                help=f"Call it {where}.",
            )
        elif (
            frequency.rate is Rate.EPOCH
            and counts_batches(evaluation, value)
            and [other for _, other in found].count(value) == 1
        ):
            yield Finding(
                call,
                f"`{code}` moves a schedule on once an epoch that counts the batches of a loader",
                severity=None if frequency.certain and not script.frameworks else Severity.INFO,
                help="Call it in each step, after the optimizer's.",
            )
