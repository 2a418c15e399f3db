"""Tensors are copied from the GPU to the host in every training step.

## Why
`.cpu()` and `.tolist()` wait until the GPU has finished everything that was queued, then copy. What
is computed from the copy (a metric, a list of predictions) can mostly be computed on the device, or
from one copy after the loop.

## Bad
    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros(3, device=device)

    for step in range(1000):
        out = model(torch.randn(8, 4, device=device))
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        total += out.sum(0).cpu().to(device)

## Good
    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros(3, device=device)

    for step in range(1000):
        out = model(torch.randn(8, 4, device=device))
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        total += out.sum(0)

## Leaves alone
- copies under a periodic condition (what one rank of many does in each step is often), or asked for
  by an option, but not by one that says how to train (`if args.distributed:`, or
  `if args.clip > 0:` around what clips by it);
- those after a change (`if task != self.task: ...; self.task = task`), once a count is full
  (`if self.seen == self.size:`), or of one sample of all (`if name in names: names.index(name)`);
- copies once an epoch or after the loop, to save or to plot, or in the branch that makes an
  attribute (`if not hasattr(self, "seen"): self.seen = ...`);
- gradients of a model on the host (`shared.grad = param.grad.cpu()`), which processes share;
- pickled objects that a function gathers from all processes, which are unpickled on the host;
- in an evaluation, all but what it only collects for after the loop (a total, a list, a meter), and
  also that where its turn writes files, draws images (OpenCV, Pillow) or asks somebody;
- those by whose values the turn of an evaluation picks or decides on the host (`np.where`, a mask,
  a branch, `np.bincount`), as the GPU would have to be waited for there as well;
- what a forward pass draws, or needs as a list or an array (`x.tolist()`), and the boxes that
  non-maximum suppression has left;
- those in functions, classes, files and folders that are named after drawing;
- those of evaluations whose turn makes its next input of them, runs a whole chain of the model
  (`model.generate(x)`, be it as one of two ways), or calls what runs it and waits in each turn of
  its own (an attack of many steps);
- those beside a wait that has to stay, with nothing queued in between: `torch.cuda.synchronize()`
  around what is timed, an index of the host, a mask, `nms`, also before each call of the function;
- those of an evaluation that spares the memory of the GPU: a comment says so, or each turn calls
  `torch.cuda.empty_cache()`;
- helpers that every step gives what is on the host already, whatever other calls give them;
- loops that run no model and take no batches: over results, texts or parameters, or the turns of a
  clustering; and what stands around the loop of a whole evaluation or generation;
- gradients of a model in evaluation mode in a file without an optimizer, such as saliency maps;
- tensors that are on the host already, such as parts of a batch that its loop does not move, while
  it moves others; modules, scripts for the CPU only;
- actions that a simulator needs on the host, and priorities of a replay or a sampler.

Copies in an evaluation loop are reported as information: keep `.detach()`ed tensors and copy once.
So are those that come right after another wait of the same step, be it in a function that it calls,
those that a step needs for a library of arrays, such as SciPy, and those in a function that is only
called where a value of the GPU asks for it (`if (out < 0).any(): project(out)`).

## Fix safety
A copy to the host that goes straight back to the device it came from (`x.cpu().to(device)`) is
dropped: safe where the result is only an operand, unsafe where it gets a name, since it is then the
very tensor and no longer a copy of it. All else is a suggestion.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.host_results import feeds_arrays, needed_now
from torchlint.analysis.loops import Role
from torchlint.analysis.syncs import Read, every_step
from torchlint.analysis.unused import is_unused
from torchlint.analysis.uploads import goes_back
from torchlint.analysis.values import Device
from torchlint.analysis.waits import asked_before, costs, is_futile, waited, waits_anyway
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync


KEEP = "keep it on the device and copy once after the loop, or only every n steps"
FIND = "look for a way to compute that on the device"


def device_roundtrip_in_loop(program: Program) -> Iterator[Finding]:
    """Report copies to the host in every step, one a statement."""
    seen: set[int] = set()
    for sync in every_step(program):
        if sync.read is not Read.COPY or needed_now(program, sync):
            continue
        place = program.smallest_statement(sync.node)
        if id(place) not in seen:
            seen.add(id(place))
            yield from finding(program, sync)


def finding(program: Program, sync: Sync) -> Iterator[Finding]:
    """Say what is copied, if that gains anything; drop it where it goes straight back."""
    code = program.brief(sync.tensor)
    back = returning_move(program, sync)
    if back is not None:
        yield Finding(
            back,
            f"`{code}` is copied to the host and back to its device in every {sync.step}",
            drop(program, back, sync),
        )
        return
    before = waited(program, sync)
    after = waits_anyway(program, sync) if before is None else None
    if is_futile(program, sync, before, after):
        return
    waits = before is not None or after is not None or asked_before(program, sync) != ""
    evaluates, needed = sync.context.role is Role.EVAL, feeds_arrays(program, sync)
    advice = evaluates or needed or waits or not sync.sure or is_unused(program, sync.node)
    yield Finding(
        sync.node,
        f"copying `{code}` to the host {costs(program, sync, before, after)}",
        severity=Severity.INFO if advice else None,
        help=advised(program, sync, needed=needed),
    )


def advised(program: Program, sync: Sync, *, needed: bool) -> str:
    """Say what to do: what the step itself needs again on the GPU cannot wait for its end."""
    back = goes_back(program, sync.node, sync.context.loop)
    if back is not None:
        return f"`{program.brief(back)}` copies what comes of it back to the GPU: {FIND}"
    return FIND if needed else KEEP


def returning_move(program: Program, sync: Sync) -> cst.Call | None:
    """``x.cpu().to(device)`` where ``x`` lives on that very device: the whole expression."""
    attribute = program.parent(sync.node)
    if not isinstance(attribute, cst.Attribute) or attribute.attr.value not in ("cuda", "to"):
        return None
    move = program.parent(attribute)
    if not isinstance(move, cst.Call) or move.func is not attribute:
        return None
    if program.frameworks or not sync.sure or not program.devices.single:
        return None
    if _plain(move) and program.code(move.args[0].value) == program.devices.sole:
        return move
    if program.value(sync.tensor).device is not Device.CUDA:
        return None
    if program.values.moved_to(move, Device.CPU) is Device.CUDA and _plain(move):
        return move
    return move if attribute.attr.value == "cuda" and not move.args else None


def _plain(move: cst.Call) -> bool:
    """A move to a device and nothing else: no dtype, no copy."""
    return len(move.args) == 1 and move.args[0].keyword is None


def drop(program: Program, move: cst.Call, sync: Sync) -> Fix | None:
    """Leave the tensor where it is."""
    named = isinstance(program.parent(move), (cst.Assign, cst.AnnAssign, cst.NamedExpr))
    return Fix(
        "Leave the tensor on its device",
        Safety.UNSAFE if named else Safety.SAFE,
        (Replace(move, program.code(sync.tensor)),),
        "the name now stands for the very tensor, no longer for a copy" if named else "",
    )
