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
- copies under a periodic condition, on one rank, or asked for by an option;
- copies once an epoch or after the loop, to save or to plot, and those of an evaluation that writes
  files or shows images turn by turn (also what a function returns to it), or says in a comment
  that it spares the memory of the GPU;
- loops without a model that run once an epoch, before its batches (the turns of a clustering), and
  those over results that the loop before them has copied to the host;
- tensors that are on the host already, modules, scripts for the CPU only;
- actions that a simulator needs on the host.

Copies in an evaluation loop are reported as information: keep `.detach()`ed tensors and copy once.
So are those that come right after another wait of the same step, be it in a function that it calls.

## Fix safety
A copy to the host that goes straight back to the device it came from (`x.cpu().to(device)`) is
dropped: safe where the result is only an operand, unsafe where it gets a name, since it is then the
very tensor and no longer a copy of it. All else is a suggestion.

## Evidence
Not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import dotted
from torchlint.analysis.loops import Role
from torchlint.analysis.rewrites import Replace
from torchlint.analysis.syncs import Read, every_step
from torchlint.analysis.values import Device
from torchlint.analysis.waits import costs, waited, waits_anyway
from torchlint.edits import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync


WRITES = re.compile(r"save|write|imsave|dump|export|imshow", re.IGNORECASE)
SPARES = re.compile(r"#.*\b(memory|OOM)\b", re.IGNORECASE)


def device_roundtrip_in_loop(program: Program) -> Iterator[Finding]:
    """Report copies to the host in every step, one a statement."""
    seen: set[int] = set()
    for sync in every_step(program):
        if sync.read is not Read.COPY or writes_results(program, sync):
            continue
        if sync.context.role is Role.EVAL and spares_memory(program, sync):
            continue
        place = program.smallest_statement(sync.node)
        if id(place) not in seen:
            seen.add(id(place))
            yield finding(program, sync)


def writes_results(program: Program, sync: Sync) -> bool:
    """Whether an evaluation writes or shows its results turn by turn: it needs them on the host."""
    if sync.context.role is not Role.EVAL:
        return False
    for place in (sync.context.loop, program.function(sync.node)):
        for call in () if place is None else program.index.below(place, cst.Call):
            name = dotted(call.func).rpartition(".")[2]
            if WRITES.search(name) and not program.context(call).guarded:
                return place is sync.context.loop or name == "imshow"
    return is_written_by_callers(program, sync)


def is_written_by_callers(program: Program, sync: Sync) -> bool:
    """Whether a copy, made once in a function, is returned to loops that write it to a file."""
    function = program.function(sync.node)
    if function is None or any(
        isinstance(above, cst.For | cst.While) and program.index.inside(above, function)
        for above in program.index.ancestors(sync.node)
    ):
        return False
    if not is_returned(program, sync, function):
        return False
    loops = [
        (home, loop)
        for home, site in program.sites_everywhere(function)
        if (loop := loop_around(home, site)) is not None
    ]
    return bool(loops) and all(writes(home, loop) for home, loop in loops)


def is_returned(program: Program, sync: Sync, function: cst.FunctionDef) -> bool:
    """Whether the function returns what a copy gives, or the name that it is given."""
    statement = program.smallest_statement(sync.node)
    if isinstance(statement, cst.Return):
        return True
    if not isinstance(statement, cst.Assign):
        return False
    names = {dotted(target.target) for target in statement.targets}
    return any(
        name.value in names
        for one in program.returns(function)
        for name in program.index.below(one, cst.Name)
    )


def loop_around(program: Program, node: cst.CSTNode) -> cst.For | cst.While | None:
    """Return the innermost loop of the function around a node."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.For | cst.While):
            return above
        if isinstance(above, cst.FunctionDef):
            return None
    return None


def writes(program: Program, loop: cst.For | cst.While) -> bool:
    """Whether a loop writes something in each of its turns."""
    return any(
        WRITES.search(dotted(call.func).rpartition(".")[2]) and not program.context(call).guarded
        for call in program.index.below(loop, cst.Call)
    )


def spares_memory(program: Program, sync: Sync) -> bool:
    """Whether a comment above a copy, or above the line before it, says that it spares memory."""
    line = program.statement(sync.node)
    block = program.parent(line)
    if not isinstance(block, cst.IndentedBlock):
        return False
    place = next(i for i, one in enumerate(block.body) if one is line)
    return any(
        above.comment is not None and SPARES.search(above.comment.value) is not None
        for one in block.body[max(0, place - 1) : place + 1]
        if isinstance(one, cst.SimpleStatementLine)
        for above in one.leading_lines
    )


def finding(program: Program, sync: Sync) -> Finding:
    """Say what is copied, and drop the copy where it goes straight back."""
    code = program.brief(sync.tensor)
    back = returning_move(program, sync)
    if back is not None:
        return Finding(
            back,
            f"`{code}` is copied to the host and back to its device in every {sync.step}",
            drop(program, back, sync),
        )
    before, after = waited(program, sync), waits_anyway(program, sync)
    waits = before is not None or after is not None
    advice = sync.context.role is Role.EVAL or waits or not sync.sure
    return Finding(
        sync.node,
        f"copying `{code}` to the host {costs(program, sync, before, after)}",
        severity=Severity.INFO if advice else None,
        help="keep it on the device and copy once after the loop, or only every n steps",
    )


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
