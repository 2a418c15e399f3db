"""The host asks for the truth of a tensor on the GPU in every training step.

## Why
`if loss > limit`, `assert torch.isfinite(x).all()` and `not mask.any()` need the answer on the
host, which waits until the GPU has finished everything that was queued. In every step that keeps
the CPU from preparing the next kernels, and a compiler breaks the graph there. So it is with sizes
that depend on numbers: `x[mask]`, `nonzero`, `unique`.

## Bad
    import torch

    def train(model, loader):
        model.cuda()
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            if torch.isnan(loss):
                raise RuntimeError("the loss is no number")
            loss.backward()

## Good
    import torch

    def train(model, loader):
        model.cuda()
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            if step % 100 == 0 and torch.isnan(loss):
                raise RuntimeError("the loss is no number")
            loss.backward()

## Leaves alone
- Shapes, dtypes, devices and modes, `x is None`, numbers, arrays, and tensors on the host.
- `loss.item() > limit`: that is a read of a number, and `log-every-step` has it.
- Questions every n steps, once an epoch, in `except`, or under an option that is off.

It is information in an evaluation step, with a framework, under a condition of which nothing is
known, and for what is not certainly on a GPU.

## Fix safety
No fix: whoever asks less often learns of a failure later, and what is chosen on the device
(`torch.where`) is computed in both ways. `torch._assert_async(x)` asserts without waiting; it ends
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

from torchlint.rule import Finding
from torchlint.training.host_reads import How
from torchlint_rules.judging import by_statement, severity, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

ASYNC = Version("1.9")  # has `torch._assert_async`
ASSERT = "ask every n steps, or let the GPU ask (`torch._assert_async`)"
LATER = "ask every n steps"
CHOOSE = "choose on the device (`torch.where`, `torch.minimum`), or ask every n steps"
MASK = "keep the size (`torch.where`, `masked_fill`, a sum weighted by the mask)"


def tensor_control_flow(script: Script) -> Iterator[Finding]:
    """Find what the host has to know of a tensor to go on, one finding a statement."""
    for found in by_statement(script, How.TRUTH, How.SIZE):
        read = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        what = "asking whether" if read.how is How.TRUTH else "the size of"
        level = severity(
            script.frequency(read.node), any(one.sure for one in found), not script.frameworks
        )
        yield Finding(
            read.node,
            f"{what} `{script.module.brief(read.node)}`{more} {waits(script, read)}",
            severity=level,
            help=remedy(script, read),
            more=tuple(one.node for one in found[1:]),
        )


def remedy(script: Script, read: HostRead) -> str:
    """Return what to write instead."""
    if read.how is How.SIZE:
        return MASK
    if isinstance(script.module.smallest_statement(read.node), cst.Assert):
        target = script.settings.target
        return LATER if target is not None and target < ASYNC else ASSERT
    return CHOOSE
