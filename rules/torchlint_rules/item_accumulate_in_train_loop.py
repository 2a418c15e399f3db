"""A running total reads the loss from the GPU in every training step.

## Why
`.item()` (and `float(loss)`) waits until the GPU has finished everything that was queued.  Doing it
in every step keeps the CPU from running ahead, so that the GPU idles between steps while the next
kernels are prepared.  A sum that is read after the loop can stay on the device until then.
`loss.data[0]`, the spelling of `loss.item()` up to torch 0.4, is the same read.

## Bad
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(8, 4) for _ in range(3)]

    total = 0.0
    for batch in batches:
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)

## Good
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(8, 4) for _ in range(3)]

    total = 0.0
    for batch in batches:
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.detach().double()
    total = float(total)
    print(total)

## Leaves alone
- Reads every n steps, once an epoch, or where an option asks for them that is off by default.
- Totals that each step reads: `log-every-step` reports what feeds those.
- Totals after the loop, totals of Python numbers, and tensors on the host.

Totals of an evaluation loop, those under a condition of which nothing is known, and those of what
is not proved to be a tensor on a GPU are reported as information.  A local total that nothing reads
is reported as well: its line can go.  A total of a number that a condition of the step has read
before is told of without a fix: that number can be given a name.

## Fix safety
Safe in the exact form: the total starts as a Python number, is only added to, and is read only
after the loop or in a block that runs every few steps.  It is then kept as a float64 tensor on the
device, which adds up to the same bits as Python's own float; counts stay whole numbers.  Unsafe
where the device may be MPS, which has no float64 (the project names it, or the device is not
known): there the total is kept in float32, and its last digits may differ.  There is no fix where
the value is not proved to be a tensor, where a framework runs the loop, nor for `loss.data[0]`, as
a torch that runs it may not run what replaces it.  A sum that nothing reads is deleted, which is
safe where the line does nothing else.

## Evidence
A CPU has nothing to show: on a CPU the loss is there already, and reading it is free.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
- PyTorch FAQ, "My model reports cuda runtime error(2): out of memory"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement, InsertAfter, InsertBefore, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Method, Tensor
from torchlint.training.host_reads import How
from torchlint.training.read_names import CONVERSIONS
from torchlint.training.read_uses import Use
from torchlint.training.terms import is_count, is_scaled, plain, reads_whole
from torchlint.training.totals import Total, totals_fed
from torchlint_rules.judging import STEPS, safety, severity, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

AGAIN = "give the first number a name, and use it here as well"
PRIMARIES = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)  # that methods can be called on
ONLY_READ = frozenset("item detach cpu size mean sum eq".split())


def item_accumulate_in_train_loop(script: Script) -> Iterator[Finding]:
    """Report running totals that read a GPU tensor in every step."""
    for read in script.host_reads:
        totals = running_totals(script, read)
        if not totals:
            continue
        frequency, total = script.frequency(read.node), totals[0]
        is_unread = total.is_local and not total.reads and total.is_direct(read)
        again = is_decided_before(script, read)
        change = delete(script, total, read) if is_unread else fix(script, total, read)
        yield Finding(
            read.node,
            f"`{script.module.brief(read.node)}` {waits(script, read)}; "
            + (AGAIN if again else advice(script, total, read, is_unread=is_unread)),
            None if again or not total.is_direct(read) else change,
            severity(frequency, read.sure),
            help=spelling(script, read),
        )


def running_totals(script: Script, read: HostRead) -> tuple[Total, ...]:
    """Return the totals that a read of each step is for alone, and that no step reads."""
    frequency = script.frequency(read.node)
    if read.how is not How.NUMBER or frequency.guard or frequency.rate not in STEPS:
        return ()
    totals = totals_fed(script, read)
    return () if any(total.is_read_in_each_turn for total in totals) else totals


def advice(script: Script, total: Total, read: HostRead, *, is_unread: bool) -> str:
    """Say what to do with a total."""
    if is_unread:
        return f"nothing reads `{total.name}`, so that the line can go"
    is_kept = isinstance(total.target, cst.Subscript) and not isinstance(
        total.target.value, cst.Name
    )
    where = (
        "once after the loop"
        if total.is_read_after and not is_kept
        else "only where it is reported"
    )
    has_graph = any(isinstance(one, Tensor) and one.graph for one in script.value(read.tensor))
    detached = ", detached," if has_graph else ""
    return f"add up `{total.name}` on the device{detached} and read it {where}"


def is_decided_before(script: Script, read: HostRead) -> bool:
    """Whether a condition of the same step has read the number: ``if not isfinite(...):``."""
    tensor, loop = plain(read.tensor), script.frequency(read.node).loop
    for other in script.host_reads:
        if other.node is read.node:
            return False
        frequency = script.frequency(other.node)
        if (
            script.module.same(plain(other.tensor), tensor)
            and reads_whole(script, other) == reads_whole(script, read)
            and (frequency.loop, frequency.guard) == (loop, None)
            and Use.DECIDES in script.uses(other)
            and script.module.function(other.node) is script.module.function(read.node)
        ):
            return True
    return False


def spelling(script: Script, read: HostRead) -> str:
    """Say how torch spells a read today; "" where it is spelled so."""
    brief = script.module.brief(read.tensor)
    return f"current torch spells it `{brief}.item()`" if read.is_old else ""


# -- the fix -------------------------------------------------------------------------------------


def fix(script: Script, total: Total, read: HostRead) -> Fix | None:
    """Keep the total on the device; read it after the loop and where a periodic block begins."""
    value = script.value(read.tensor)
    is_tensor = all(isinstance(one, Tensor) and one.sure for one in value)
    if not value or not is_tensor or read.is_old or script.frameworks or total.scope is None:
        return None
    heads, starts = total.heads(), total.starts
    if heads is None or not starts or not total.is_only_added_to:
        return None
    counts = is_count(script, read) and all(isinstance(one, cst.Integer) for one in starts)
    is_float = all(isinstance(one, cst.Float) for one in starts) or all(
        isinstance(one, Tensor) and bool(one.graph) for one in value
    )
    if not counts and (reads_whole(script, read) or not is_float or not is_scaled(script, read)):
        return None
    devices = {one.device for one in value if isinstance(one, Tensor)}
    has_float64 = devices <= {Device.CUDA, Device.HOST} and not script.connected.may_use_mps
    exact = counts or has_float64
    inner = plain(read.tensor)
    code = script.module.bare(inner)
    tensor = code if isinstance(inner, PRIMARIES) else f"({code})"
    new = tensor if counts else f"{tensor}.detach().{'double' if exact else 'float'}()"
    convert = f"{total.name} = {'int' if counts else 'float'}({total.name})"
    rewrites: list[Rewrite] = [Replace(read.node, new)]
    rewrites += [InsertBefore(head, convert) for head in heads]
    if total.goes_on:
        rewrites.append(InsertAfter(last_conversion(script, total.loop), convert))
    return Fix(
        f"Add up `{total.name}` on the device",
        safety(exact),
        tuple(rewrites),
        "" if exact else "the total is rounded to float32: MPS has no float64",
    )


def delete(script: Script, total: Total, read: HostRead) -> Fix | None:
    """Delete a sum that nothing reads, where the line does nothing else."""
    line = script.module.statement(read.node)
    if script.frameworks or read.is_old or not read.sure:
        return None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    if not all(only_reads(script, call) for call in script.module.index.below(line, cst.Call)):
        return None
    return Fix(f"Delete the sum `{total.name}`", Safety.SAFE, (DeleteStatement(line),))


def only_reads(script: Script, call: cst.Call) -> bool:
    """Whether a call changes nothing."""
    return script.name(call.func).partition("builtins.")[2] in (*CONVERSIONS, "len") or any(
        isinstance(one, Method) and isinstance(one.owner, Tensor) and one.name in ONLY_READ
        for one in script.value(call.func)
    )


def last_conversion(script: Script, loop: cst.For | cst.While) -> cst.BaseStatement:
    """Return the loop, or the last of the lines after it that read other totals, to keep order."""
    last: cst.BaseStatement = loop
    block = script.module.parent(loop)
    statements = block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ()
    for statement in statements[statements.index(loop) + 1 :]:
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(value=name))],
                        value=cst.Call(
                            func=cst.Name(value="float" | "int"),
                            args=[cst.Arg(value=cst.Name(value=read))],
                        ),
                    )
                ]
            ) if name == read:
                last = statement
            case _:
                break
    return last
