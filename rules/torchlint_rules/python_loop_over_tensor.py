"""Each turn of a Python loop computes with one row of a tensor.

## Why
Every operation on a row starts a kernel of its own, and costs some microseconds of Python however
small the row is; so does the index that takes it out, and the backward pass has a node for each.
Comprehensions that are stacked, joined or added up are such loops too.

## Bad
    import torch

    model = torch.nn.Linear(4, 8).cuda()

    for step in range(1000):
        out = model(torch.randn(16, 4, device="cuda"))
        sum(torch.logsumexp(out[i], dim=0) for i in range(out.size(0))).backward()

## Good
    import torch

    model = torch.nn.Linear(4, 8).cuda()

    for step in range(1000):
        out = model(torch.randn(16, 4, device="cuda"))
        torch.logsumexp(out, dim=1).sum().backward()

## Leaves alone
- Loops over layers, lists, loaders and ranges of numbers; what is not seen to be a tensor.
- Recurrences: a turn that uses what another has made, such as a state or a tensor that it fills.
- Rows of different lengths: slices up to `lengths[i]`, masks, `nonzero`, `unique`, and lists of
  results that are neither stacked, joined nor added up.
- Turns with branches, loops or calls of anything but torch.

It is information where the tensor is not seen to be on a GPU, where rows come from a list or are
not those of the first dimension, and outside of training steps.

## Fix safety
No fix: what has to be written depends on what a turn computes. Random numbers would be others, and
all rows at once need the memory of all of them.

## Evidence
`torchlint bench TL310` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64, batch 16: 654 µs and 178 µs, 3.67 x (3.55 to 3.81): faster; results
  bitwise equal.
- training step, width 256, batch 128: 5.44 ms and 1.04 ms, 5.23 x (5.04 to 5.43): faster; results
  as E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation of `torch.vmap`
- `torch.profiler`, pattern "For Loop Indexing"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.rule import Finding
from torchlint.training.frequency import Rate
from torchlint.training.row_loops import row_loops
from torchlint_rules.judging import often, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.row_loops import RowLoop
    from torchlint.training.script import Script

LIST = "put the list together (`torch.stack`, `torch.cat`), and compute with the whole tensors"
PICK = "pick for all rows at once (`torch.multinomial`, `argmax`), and take them with one index"
BATCH = "compute with the whole tensor, or with `torch.vmap` where an operation takes no batch"


def python_loop_over_tensor(script: Script) -> Iterator[Finding]:
    """Report loops that compute with one row of a tensor in each turn."""
    for loop in row_loops(script):
        frequency = script.frequency(loop.node)
        if frequency.rate in (Rate.ONCE, Rate.EPOCH):
            continue
        part = "row" if loop.first else "slice"
        yield Finding(
            loop.over,
            f"each turn of this loop computes with one {part} of "
            f"`{script.module.brief(loop.tensors[0])}`{often(frequency).replace(' ', ', ', 1)}",
            severity=severity(frequency, loop.on_gpu, loop.first, not loop.listed),
            help=remedy(loop),
        )


def remedy(loop: RowLoop) -> str:
    """What to write instead."""
    if loop.picks:
        return PICK
    return LIST if loop.listed else BATCH
