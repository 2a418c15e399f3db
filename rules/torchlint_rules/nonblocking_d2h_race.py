"""A copy to the host is read before it is complete.

## Why
`x.to("cpu", non_blocking=True)` returns at once, with a tensor that the GPU is still to fill: what
reads it then reads whatever stood in that memory before, without an error. On the way to the GPU
the order of the stream makes sure that a kernel sees the whole copy; on the way back only a wait
does, such as `torch.cuda.synchronize()`.

## Bad
    import torch

    @torch.no_grad()
    def predict(model: torch.nn.Module, batches):
        classes = []
        for x in batches:
            classes += model(x.to("cuda")).argmax(1).to("cpu", non_blocking=True).tolist()
        return classes

## Good
    import torch

    @torch.no_grad()
    def predict(model: torch.nn.Module, batches):
        classes = []
        for x in batches:
            classes += model(x.to("cuda")).argmax(1).to("cpu").tolist()
        return classes

## Leaves alone
- Copies to the GPU, and copies of what is not seen to be on a GPU.
- Copies with a wait in their function (`synchronize()`, an event, a stream) or, before the first
  read, anything that waits by the way (`.item()`, `.cpu()`) or a call of a function that may wait.
- Copies that are read elsewhere: returned, stored, put into a list, or given to a function.
- `buffer.copy_(x, non_blocking=True)`: a copy into memory that is not pinned waits by itself.

## Fix safety
Safe: the flag is dropped, and the copy waits. Where many copies are on their way at once, one
`torch.cuda.synchronize()` behind them all is quicker.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
- CUDA Runtime API, "API synchronization behavior"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import RemoveArgument
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Tensor
from torchlint.training.pending import first_read, host_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script


def nonblocking_d2h_race(script: Script) -> Iterator[Finding]:
    """Find copies to the host that are read before anything has waited for them."""
    evaluation, module = script.connected.evaluation, script.module
    for copy in host_copies(script):
        is_certain = any(
            isinstance(one, Tensor) and one.device is Device.CUDA for one in copy.value
        )
        read = first_read(evaluation, script.file, copy) if is_certain else None
        if read is not None:
            flag = next(arg for arg in copy.node.args if arg.value is copy.non_blocking)
            yield Finding(
                copy.node,
                f"`{module.brief(copy.node)}` does not wait for the copy, "
                f"and `{module.brief(read)}` reads it",
                Fix("Wait for the copy", Safety.SAFE, (RemoveArgument(copy.node, flag),)),
                help="or call torch.cuda.synchronize() once, after the last copy",
            )
