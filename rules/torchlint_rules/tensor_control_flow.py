"""The host asks for the truth of a tensor on the GPU in every training step.

## Why
`if loss > limit`, `assert torch.isfinite(x).all()` and `not mask.any()` need the answer on the
host, which waits until the GPU has finished everything that was queued.  In every step that keeps
the CPU from preparing the next kernels, before the backward pass most of all.  A compiler breaks
the graph there.

## Bad
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(1000):
        loss = model(torch.randn(8, 4, device=device)).square().mean()
        if torch.isnan(loss):
            raise RuntimeError("the loss is no number")
        loss.backward()
        optimizer.step()

## Good
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(1000):
        loss = model(torch.randn(8, 4, device=device)).square().mean()
        if step % 100 == 0 and torch.isnan(loss):
            raise RuntimeError("the loss is no number")
        loss.backward()
        optimizer.step()

## Leaves alone
- shapes, sizes, dtypes, devices and modes, `x is None`, Python numbers, tensors on the host,
  scripts for the CPU only, and what is not proved to be a tensor;
- `loss.item() > limit` and `math.isnan(loss)`: those are reads, and `log-every-step` has them;
- questions every n steps, in a debug mode, or asked for by an option (`DEBUG and ...`), not those
  that are only asked first (`... and DEBUG`);
- evaluations, and functions and files that are named after drawing;
- loops that have one more turn by the answer (`while error > 0.1:`), and those inside a step that
  end by it;
- questions for what a mask would select, where it does so next (`if mask.any(): x = x[mask]`),
  which waits by itself;
- terms of a loss that are left out where they are not finite: `torch.where` keeps their gradients;
- what functions gather from all processes, to pad it to one size, and branches for a cache, which
  only a generation has (`if kv_cache is not None:`);
- questions beside a wait that has to stay, with nothing queued in between.

Answers that decide whether the step is taken, where a loop or a function ends, or whether a model
is run are reported as information: the host has to know, though not always at once.  So are those
that come right after another wait of the step, or in a class or function that nothing in the
project uses.

## Fix safety
There is no fix: whoever asks less often learns of a failure later, and what is chosen on the device
(`torch.where`) is computed in both ways.  `torch._assert_async(x)` asserts without waiting; it ends
the process where it fails.

## Evidence
A CPU has nothing to show: on a CPU the answer is there already.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.loops import Role
from torchlint.analysis.truths import branch_on, every_truth, picks, reports
from torchlint.analysis.unused import is_unused
from torchlint.analysis.waits import asked_before, costs, is_futile, waited, waits_anyway
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync

ASYNC = Version("1.9")  # has `torch._assert_async`
ASSERT = "ask every n steps, or let the GPU ask (`torch._assert_async`)"
LATER = "ask every n steps"
REPORT = "ask every n steps, or keep the answer on the device and read it then"
PICKS = "ask every n steps, or for the step before, whose answer is there already"
BESIDE = "keep the answer in a Python attribute as well, and ask that one"
CHOOSE = "choose on the device (`torch.where`, `torch.minimum`), or ask every n steps"


def tensor_control_flow(program: Program) -> Iterator[Finding]:
    """Report questions for the truth of tensors in every step, one a statement."""
    statements: dict[int, list[Sync]] = {}
    for sync in every_truth(program):
        statements.setdefault(id(program.smallest_statement(sync.node)), []).append(sync)
    for found in statements.values():
        yield from finding(program, sorted(found, key=lambda one: program.index.order(one.node)))


def finding(program: Program, found: list[Sync]) -> Iterator[Finding]:
    """Say what a statement asks, unless the host has to wait there anyway."""
    sync = found[0]
    before = waited(program, sync, found)
    after = waits_anyway(program, sync) if before is None else None
    if is_futile(program, sync, before, after):
        return
    asked = f"`{program.brief(sync.node)}`"
    if len(found) > 1:
        asked += f" and {len(found) - 1} more"
    waits = before is not None or after is not None or asked_before(program, sync) != ""
    advice = waits or picks(program, sync) or is_unused(program, sync.node)
    yield Finding(
        sync.node,
        f"asking whether {asked} {costs(program, sync, before, after)}",
        severity=Severity.INFO if advice else None,
        help=remedy(program, sync),
        more=tuple(one.node for one in found[1:]),
    )


def remedy(program: Program, sync: Sync) -> str:
    """What to write instead."""
    if isinstance(program.smallest_statement(sync.node), cst.Assert):
        return ASSERT if program.reaches(ASYNC) else LATER
    branch = branch_on(program, sync)
    if branch is not None and reports(program, branch):
        return REPORT
    if sync.context.role is Role.FORWARD and dotted(sync.node).startswith("self."):
        return BESIDE
    return PICKS if picks(program, sync) else CHOOSE
