"""The host waits for each batch to be copied to the GPU, though its memory is pinned.

## Why
A DataLoader with `pin_memory=True` puts its batches into memory from which the GPU can copy by
itself.  Without `non_blocking=True` Python still waits until the copy is done, and prepares nothing
meanwhile.  With it the copy is queued: whatever is queued after it on the same stream sees the
whole batch, and the memory is not used again before the copy is done.

## Bad
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=device.type == "cuda")
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=device.type == "cuda")
        for x, y in loader:
            loss = model(x.to(device, non_blocking=True), y.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Batches of a DataLoader that does not pin its memory: the copy could not run beside other work
  (`dataloader-no-pin-memory` reports the loader).
- Copies that are given `non_blocking`, whatever its value, and the other branch of a condition
  that asks for the GPU.
- What is not the batch as the loader gave it: models, computed tensors, parts of a tensor that
  is kept, batches that something between the loader and the loop may have moved already, and those
  whose entries were replaced by their copies (`batch[key] = value.to(device)`).
- Parts with gaps between their rows (`x[:, 0]`), which are put together on the host first.
- Copies in a loop that evaluates, where the host waits next for a tensor that it makes there
  (`torch.tensor(lengths).to(device)`) anyway, or whose turn calls what waits in each of its own
  turns (an attack of many steps that counts samples in each), or runs a whole chain of the model
  (`model.generate(x)`), be it as one of two ways.
- Copies to the host, to another dtype only, to MPS or XLA.
- Objects that a `collate_fn` makes of a class of the project without a `pin_memory` method: they
  are not pinned, whatever the loader is told.  With such a method they pin what that says, which
  may be a part of what they hold.  So are those that move themselves (`batch.to(device)`, a
  statement of its own): their `to` is not that of a tensor.
- Passes that look for a learning rate (`find_lr`), and samples that the script itself has in it, as
  lists of numbers: a few lines of them.
- Loops that wait for a person in each turn (`input()`, `cv2.waitKey(0)`, `pdb.set_trace()`).
- Batches that are changed in place on the host after the copy: the copy would race with that.
- Samples that the dataset or `collate_fn` puts on the GPU itself.

Reported as information in loops that only evaluate, or run now and then, where less is queued
behind a copy; where each step ends with a read that waits for the GPU (`loss.item()`), so that
nothing is queued when the next batch is copied; before a copy of what the step makes on the host,
for which it waits anyway; of token ids, which are few; where an option decides whether the loader
pins; and where a framework is used that may move the batches by itself.

## Fix safety
Safe where the tensors come from PyTorch's own `collate_fn` and go to CUDA: the values are the same.
Unsafe where the device may be Apple's, whose copies are not ordered so; where the batch may be an
object of another class, whose `to` has to take `non_blocking` too; where a function is given the
tensor, since others may call it; and where the batch on the host is handed on afterwards.  No fix
in a file with CUDA streams or other kernels, whose order is made by hand.

## Evidence
A CPU has nothing to show: only copies to a GPU can go on beside other work.

On a GPU: not measured yet.

## References
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
- PyTorch documentation, "CUDA semantics: Use pinned memory buffers"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.batches import (
    Pinned,
    changed_later,
    collates_plainly,
    handed_on_later,
    origin,
    pinned,
    unviewed,
)
from torchlint.analysis.host_numbers import on_gpu
from torchlint.analysis.host_results import loop_around, runs_chain
from torchlint.analysis.loaded import yields_gpu_tensors
from torchlint.analysis.loops import Role
from torchlint.analysis.paused import waits_for_person
from torchlint.analysis.pinning import gives_tokens, is_written_out
from torchlint.analysis.queued import queues
from torchlint.analysis.syncs import items
from torchlint.analysis.timing import orders_by_hand
from torchlint.analysis.unpinned import goes_unpinned, pins_by_itself
from torchlint.analysis.uploads import upload_follows
from torchlint.analysis.values import Device, Kind
from torchlint.analysis.waits import runs_what_waits
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.batches import Origin
    from torchlint.analysis.program import Program

FIRST = Version("0.4")  # has `non_blocking`, which was `async` before
MOVES = ("to", "cuda", "type")
BOOLEANS = ("True", "False")
# One short pass that looks for a learning rate.
SEARCHES = re.compile(r"(find|search|range)_lr|lr_?(find|search|range)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """One copy of (a part of) a batch to the GPU, and the loaders that may have given it."""

    call: cst.Call
    source: Origin
    loaders: list[cst.Call]
    pinned: Pinned


def blocking_h2d_copy(program: Program) -> Iterator[Finding]:
    """Find copies of pinned batches that the host waits for, one finding a statement."""
    statements: dict[int, list[Copy]] = {}
    for copy in copies(program):
        statement = program.smallest_statement(copy.call)
        statements.setdefault(id(statement), []).append(copy)
    for found in statements.values() if statements and program.reaches(FIRST) else ():
        if not is_futile(program, found):
            yield finding(program, found)


def is_futile(program: Program, found: list[Copy]) -> bool:
    """Whether a loop that evaluates waits anyway: for another copy, or all through its turn.

    Beside a model that is run many times for each batch, the copy of the batch is nothing.
    """
    if not evaluates(program, found):
        return False
    loops = [loop_around(program, one.call) for one in found]
    return waits_next(program, found) or all(
        runs_what_waits(program, loop) or runs_chain(program, loop) for loop in loops
    )


def waits_next(program: Program, found: list[Copy]) -> bool:
    """Whether the host waits for another copy after these, with nothing queued before it."""
    return all(
        upload_follows(program, copy.call, lambda call: moves_batch(program, call))
        for copy in found
    )


def copies(program: Program) -> Iterator[Copy]:
    """Yield the copies of pinned batches that wait."""
    home = program.loaders.home
    for call, func in program.method_calls(*MOVES):
        batch = unviewed(func.value)
        if not waits(call) or has_gaps(batch) or program.value(batch).kind is not Kind.BATCH:
            continue
        if isinstance(program.parent(call), cst.Expr):
            continue  # what moves itself is no tensor, and its class may take no `non_blocking`
        if not goes_to_gpu(program, call, func) or has_other_way(program, call, func):
            continue
        loop = loop_around(program, call)
        if isinstance(loop, cst.For) and waits_for_person(program, loop):
            continue
        function = program.function(call)
        if function is not None and SEARCHES.search(function.name.value):
            continue
        loaders = program.loaders.giving(batch)
        if any(yields_gpu_tensors(home(loader), loader) for loader in loaders):
            continue
        if any(hands_on(home(loader), loader, call) for loader in loaders):
            continue
        if loaders and all(is_written_out(home(loader), loader) for loader in loaders):
            continue
        best = max((pinned(home(loader), loader) for loader in loaders), default=Pinned.NO)
        if best is Pinned.NO:
            continue
        source = origin(program, batch)
        if not changed_later(program, call, source):
            yield Copy(call, source, loaders, best)


def hands_on(program: Program, loader: cst.Call, copy: cst.Call) -> bool:
    """Whether what is copied is an object that the loader cannot pin, or that pins what it will."""
    return any(
        move.node is copy
        and (goes_unpinned(program, loader, move) or pins_by_itself(program, loader, move))
        for move in program.loaders.moves(loader)
    )


def waits(call: cst.Call) -> bool:
    """Whether a move is given no ``non_blocking``, by name, by position or hidden by a star."""
    words = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    plain = [arg.value for arg in call.args if arg.keyword is None]
    flags = [node for node in plain if isinstance(node, cst.Name) and node.value in BOOLEANS]
    return (
        "non_blocking" not in words
        and not flags
        and len(plain) <= 2
        and not any(arg.star for arg in call.args)
    )


def has_gaps(batch: cst.BaseExpression) -> bool:
    """``x[:, 0]``: its rows lie apart, and are put together in ordinary memory first."""
    match batch:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Slice()), _, *_]):
            return True
        case _:
            return False


def goes_to_gpu(program: Program, call: cst.Call, func: cst.Attribute) -> bool:
    """Whether a move puts the batch on a GPU, or may."""
    match func.attr.value:
        case "cuda":
            return True
        case "type":  # `x.type(torch.cuda.FloatTensor)`
            return program.value(call).device.gpu
        case _:
            return program.values.moved_to(call, Device.UNKNOWN).gpu


def has_other_way(program: Program, call: cst.Call, func: cst.Attribute) -> bool:
    """``x.cuda(non_blocking=True) if cuda else x.to(device)``: here there is no GPU."""
    code = program.code(func.value)
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If | cst.IfExp) and child is above.orelse:
            if asks_for_gpu(program, above.test) and copies_without_waiting(
                program, above.body, code
            ):
                return True
        elif isinstance(above, cst.FunctionDef):
            return False
        child = above
    return False


def asks_for_gpu(program: Program, test: cst.BaseExpression) -> bool:
    """``use_cuda``, ``torch.cuda.is_available()``, ``device.type == "cuda"``, and nothing else."""
    simple = isinstance(test, cst.Name | cst.Attribute | cst.Call | cst.Comparison)
    text = program.code(test)
    return simple and ("cuda" in text or "gpu" in text) and "!=" not in text and "None" not in text


def copies_without_waiting(program: Program, block: cst.CSTNode, code: str) -> bool:
    """Whether a block copies the same batch with ``non_blocking``."""
    return any(
        isinstance(call.func, cst.Attribute)
        and program.code(call.func.value) == code
        and not waits(call)
        for call in program.index.below(block, cst.Call)
    )


def is_alternative(program: Program, copy: Copy, found: list[Copy]) -> bool:
    """``x.cuda(gpu)`` of ``x.cuda() if gpu is None else x.cuda(gpu)``: only one of them is made."""
    for above in program.index.ancestors(copy.call):
        if isinstance(above, cst.IfExp) and program.index.inside(copy.call, above.orelse):
            return any(program.index.inside(one.call, above.body) for one in found)
    return False


def finding(program: Program, found: list[Copy]) -> Finding:
    """Return the finding for the copies of one statement."""
    first = found[0]
    code = f"`{program.brief(first.call)}`"
    count = sum(not is_alternative(program, one, found) for one in found)
    if count > 1:
        code += f" and {count - 1} more"
    sure = max(copy.pinned for copy in found) is Pinned.YES
    pins = "pins its memory" if sure else "may pin its memory"
    framework = bool(program.frameworks)
    return Finding(
        first.call if len(found) == 1 else program.smallest_statement(first.call),
        f"the host waits for {code} in every batch, though the DataLoader {pins}",
        None if framework or orders_by_hand(program) else fix(program, found),
        Severity.INFO if framework or not sure or gains_little(program, found) else None,
        help="pass non_blocking=True: what is queued later on the GPU sees the whole batch",
    )


def gains_little(program: Program, found: list[Copy]) -> bool:
    """Whether little is copied, or queued behind which Python could go on."""
    home = program.loaders.home
    tokens = all(gives_tokens(home(loader), loader) for one in found for loader in one.loaders)
    drained = all(is_drained(program, one) for one in found)
    return evaluates(program, found) or tokens or drained or waits_next(program, found)


def is_drained(program: Program, copy: Copy) -> bool:
    """Whether the turn before ends with a wait, after which nothing is queued until the copy."""
    index, loop = program.index, loop_around(program, copy.call)
    if loop is None:
        return False
    last = max(reads(program, loop), key=index.order, default=None)
    if last is None or index.order(last) < index.order(copy.call):
        return False
    around = {id(above) for above in index.ancestors(last)}
    return not any(
        queues(program, one) and not program.context(one).guarded
        for one in index.below(loop.body, cst.Call)
        if (is_before(program, one, copy.call) and not moves_batch(program, one))
        or index.order(one) > index.end(last)
        or id(one) in around
    )


def is_before(program: Program, call: cst.Call, copy: cst.Call) -> bool:
    """Whether a call has run when a batch is copied: not one that is given the copy."""
    return program.index.order(call) < program.index.order(copy) and not program.index.inside(
        copy, call
    )


def reads(program: Program, loop: cst.For | cst.While) -> list[cst.BaseExpression]:
    """Return what each turn of a loop waits for, also where its batch has steps of its own."""
    found: list[cst.BaseExpression] = [
        sync.node for sync in program.syncs if not sync.context.guarded
    ]
    found += [
        read
        for read, of in items(program)
        if not program.context(read).guarded and on_gpu(program, of)
    ]
    return [one for one in found if loop_around(program, one) is loop]


def moves_batch(program: Program, call: cst.Call) -> bool:
    """Whether a call is such a copy itself, which leaves nothing behind it."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in MOVES:
        return False
    return waits(call) and program.value(unviewed(func.value)).kind is Kind.BATCH


def evaluates(program: Program, found: list[Copy]) -> bool:
    """Whether the batches are only evaluated, or now and then, with less queued behind a copy."""
    return all(_evaluates(program, copy.call) for copy in found)


def _evaluates(program: Program, call: cst.Call) -> bool:
    role, loop = program.context(call).role, loop_around(program, call)
    if loop is not None and program.context(loop).guarded:
        return True
    stepless = role is not Role.TRAIN and program.loops.is_without_gradients(call)
    return role is Role.EVAL or stepless


def fix(program: Program, found: list[Copy]) -> Fix:
    """Return the fix: the copies are queued."""
    changes = "; ".join(doubts(program, found))
    return Fix(
        "Pass non_blocking=True",
        Safety.UNSAFE if changes else Safety.SAFE,
        tuple(AddArgument(copy.call, "non_blocking", "True") for copy in found),
        changes=changes,
    )


def doubts(program: Program, found: list[Copy]) -> Iterator[str]:
    """Yield what has to hold for the values to be the same."""
    if program.devices.maybe_mps:
        yield "a copy to Apple's GPU may not be complete when it is used"
    if any(copy.source.passed for copy in found):
        yield "whoever calls the function must not change what it passes during the copy"
    if not all(is_tensor(program, copy) for copy in found):
        yield "the `to` of the batch's own class has to take non_blocking"
    if any(handed_on_later(program, copy.call, copy.source) for copy in found):
        yield "what the batch is given to afterwards must not change it during the copy"


def is_tensor(program: Program, copy: Copy) -> bool:
    """Whether a member of a batch is moved that PyTorch has made: only tensors can be."""
    return copy.source.member and all(
        collates_plainly(program.loaders.home(loader), loader) for loader in copy.loaders
    )
