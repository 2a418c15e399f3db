"""Tensors are copied from the GPU to the host in every training step.

## Why
`.cpu()` and `.tolist()` wait until the GPU has finished everything that was queued, then copy. What
is computed from the copy (a metric, a list of predictions) can mostly be computed on the device, or
from one copy after the loop.

## Bad
    import torch

    def train(model, loader, total):
        model.cuda()
        for x in loader:
            out = model(x.cuda())
            out.mean().backward()
            total += out.sum(0).cpu().cuda()

## Good
    import torch

    def train(model, loader, total):
        model.cuda()
        for x in loader:
            out = model(x.cuda())
            out.mean().backward()
            total += out.sum(0)

## Leaves alone
- Copies once an epoch, after the loop, every n steps, in `except`, or under an option that is off.
- Models, tensors that are on the host already, and scripts in which nothing is on a GPU.
- `x.cpu().item()` and `float(x.cpu())`: reads of one number, which `log-every-step` has.
- Copies that do not wait (`non_blocking=True`).

It is information in an evaluation step, with a framework, under a condition of which nothing is
known, and for what is not certainly on a GPU.

## Fix safety
A copy to the host that goes straight back to its device (`x.cpu().to(device)`) is dropped: safe
where the result is only an operand, unsafe where it gets a name, which then stands for the very
tensor and no longer for a copy. All else is a suggestion.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding
from torchlint.semantics.tensors import device_of
from torchlint.semantics.values import Device, Place, Tensor, Text
from torchlint.syntax.calls import last_name
from torchlint.training.host_reads import How
from torchlint_rules.judging import by_statement, every, safety, severity, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

KEEP = "keep it on the device and copy once after the loop, or only every n steps"


def device_roundtrip_in_loop(script: Script) -> Iterator[Finding]:
    """Find copies to the host in every step, one a statement."""
    for found in by_statement(script, How.COPY):
        copies = [read for read in found if is_copy(script, read)]
        if copies:
            yield finding(script, copies[0])


def is_copy(script: Script, read: HostRead) -> bool:
    """Whether a read copies from a GPU: a batch that nobody has moved is on the host already."""
    is_batch = all(
        isinstance(one, Tensor) and one.loaded and one.device is Device.UNKNOWN
        for one in script.value(read.tensor)
    )
    is_moved = bool(script.frameworks) or not is_batch
    name = last_name(read.node.func) if isinstance(read.node, cst.Call) else ""
    return is_moved and name in ("cpu", "to", "tolist")


def finding(script: Script, read: HostRead) -> Finding:
    """Say what is copied, and drop it where it goes straight back."""
    frequency = script.frequency(read.node)
    code = script.module.brief(read.tensor)
    level = severity(frequency, read.sure, not script.frameworks)
    back = returning_move(script, read)
    if back is not None:
        message = f"`{code}` is copied to the host and back to its device in {every(frequency)}"
        return Finding(back, message, drop(script, back, read), level)
    message = f"copying `{code}` to the host {waits(script, read)}"
    return Finding(read.node, message, severity=level, help=KEEP)


def returning_move(script: Script, read: HostRead) -> cst.Call | None:
    """``x.cpu().to(device)`` where ``x`` lives on the GPU: the whole expression."""
    attribute = script.module.parent(read.node)
    move = script.module.parent(attribute) if attribute is not None else None
    name = last_name(attribute)
    if not isinstance(move, cst.Call) or script.frameworks or not read.sure:
        return None
    if name == "cuda" and not move.args:
        return move
    where = script.value(move.args[0].value) if name == "to" and len(move.args) == 1 else ()
    is_device = all(isinstance(one, (Place, Text)) for one in where)
    is_gpu = is_device and device_of(where) is Device.CUDA
    return move if is_gpu and not script.connected.uses_several_gpus else None


def drop(script: Script, move: cst.Call, read: HostRead) -> Fix:
    """Leave the tensor where it is."""
    is_named = isinstance(script.module.parent(move), (cst.Assign, cst.AnnAssign, cst.NamedExpr))
    return Fix(
        "Leave the tensor on its device",
        safety(not is_named),
        (Replace(move, script.module.code(read.tensor)),),
        "the name now stands for the very tensor, no longer for a copy" if is_named else "",
    )
