"""A running total reads the loss from the GPU in every training step.

## Why
`.item()` (and `float(loss)`) waits until the GPU has finished everything that was queued. In every
step that keeps the CPU from running ahead, and the GPU idles while the next kernels are prepared. A
sum that is read after the loop can stay on the device until then.

## Bad
    import torch

    def train(model, loader):
        model.cuda()
        total = 0.0
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            total += loss.item()
        return total

## Good
    import torch

    def train(model, loader):
        model.cuda()
        total = 0.0
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            total += loss.detach().double()
        total = float(total)
        return total

## Leaves alone
- Reads every n steps, once an epoch, after the loop, or for an option that is off by default.
- Totals that each step reads: `log-every-step` reports what feeds those.
- Totals of Python numbers, and of tensors on the host.

It is information in an evaluation, under a condition of which nothing is known, and for what is not
proved to be a tensor on a GPU.

## Fix safety
Safe where the total starts as a Python number, and is read only after the loop or in a block that
runs every few steps: a float64 tensor on the device adds up to the same bits as Python's float, and
counts stay whole numbers. Unsafe where the device may be MPS, which has only float32. No fix where
the value is not proved to be a tensor, or under a framework.

## Evidence
A CPU has nothing to show: on a CPU the loss is there already, and reading it is free.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import InsertAfter, InsertBefore, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Tensor
from torchlint.training.frequency import Rate
from torchlint.training.host_reads import How
from torchlint.training.totals import Total, is_cut_off, is_whole, plain, totals_fed
from torchlint_rules.judging import by_statement, safety, severity, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.host_reads import HostRead
    from torchlint.training.script import Script

PRIMARIES = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)  # that methods can be called on


def item_accumulate_in_train_loop(script: Script) -> Iterator[Finding]:
    """Report running totals that read a GPU tensor in every step."""
    for read in (read for found in by_statement(script, How.NUMBER) for read in found):
        for total in running_totals(script, read)[:1]:
            where = "once after the loop" if total.is_read_after else "only where it is reported"
            is_trained = script.frequency(read.node).rate is Rate.STEP
            has_graph = any(
                isinstance(one, Tensor)
                and (one.graph or (is_trained and one.dtype not in ("bool", "int")))
                for one in script.value(read.tensor)
            )
            yield Finding(
                read.node,
                f"`{script.module.brief(read.node)}` {waits(script, read)}; add up `{total.name}` "
                f"on the device{', detached,' if has_graph else ''} and read it {where}",
                fix(script, total, read),
                severity(script.frequency(read.node), read.sure),
            )


def running_totals(script: Script, read: HostRead) -> tuple[Total, ...]:
    """Return the totals that a number is read for alone, and that no step reads."""
    totals = totals_fed(script, read) if read.how is How.NUMBER else ()
    return () if any(total.is_read_in_each_turn for total in totals) else totals


# -- the fix -------------------------------------------------------------------------------------


def fix(script: Script, total: Total, read: HostRead) -> Fix | None:
    """Keep the total on the device; read it after the loop and where a periodic block begins."""
    tensors = [one for one in script.value(read.tensor) if isinstance(one, Tensor) and one.sure]
    heads, starts, factors = total.heads(), total.starts, total.factors(read)
    if not tensors or len(tensors) != len(script.value(read.tensor)) or script.frameworks:
        return None
    if heads is None or factors is None or not starts:
        return None
    is_whole_start = all(isinstance(one, cst.Integer) for one in starts)
    counts = is_whole_start and not factors and is_whole(script, read)
    is_float = all(isinstance(one, cst.Float) for one in starts) or all(
        one.graph for one in tensors
    )
    if not counts and (not is_float or is_cut_off(script, read)):
        return None
    is_cuda = {one.device for one in tensors} <= {Device.CUDA, Device.HOST}
    exact = counts or (is_cuda and not script.connected.may_use_mps)
    inner = plain(read.tensor)
    code = script.module.bare(inner)
    tensor = code if isinstance(inner, PRIMARIES) else f"({code})"
    new = tensor if counts else f"{tensor}.detach().{'double' if exact else 'float'}()"
    convert = f"{total.name} = {'int' if counts else 'float'}({total.name})"
    rewrites: list[Rewrite] = [Replace(read.node, new)]
    rewrites += [InsertBefore(head, convert) for head in heads]
    if total.is_read_after:
        rewrites.append(InsertAfter(last_conversion(script, total.loop), convert))
    return Fix(
        f"Add up `{total.name}` on the device",
        safety(exact),
        tuple(rewrites),
        "" if exact else "the total is rounded to float32: MPS has no float64",
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
