"""A tensor is made on the host and then copied to the GPU, where it could have been made.

## Why
`torch.zeros(n).to(device)` allocates and fills memory on the host, then waits for a copy to the
GPU.  `torch.zeros(n, device=device)` starts one small kernel and waits for nothing.  In every
training step the difference is paid again and again.

## Bad
    import torch

    def train(generator, critic, optimizer, steps):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for step in range(steps):
            ones = torch.ones(64, 1).to(device)
            loss = (critic(generator.sample()) - ones).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import torch

    def train(generator, critic, optimizer, steps):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for step in range(steps):
            ones = torch.ones(64, 1, device=device)
            loss = (critic(generator.sample()) - ones).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Tensors that are given a `generator` or `out`, or hold nothing: `torch.zeros(0, n)`.
- `.to(dtype)`, moves to the CPU, to MPS or XLA, and to what may be no device.
- Tensors of values, `torch.tensor(values)`: with `device=` they are copied as well (but TL301b).
- Tensors moved in a later line that the host reads, fills or changes before.
- TL301b and TL301c outside of steps, and where the step writes into the tensor.

It is a warning in every training step; what runs once, now and then, or as often as nobody knows,
is information, and so is a device that may be no GPU.  A tensor that a later line or a function of
the project moves is reported where it is made, without a fix.

**TL301b**: `torch.tensor(0.5, device=device)` copies one number in every step, which
`torch.full((), 0.5, device=device)` fills in there; a tensor of several numbers that are the same
in every step is copied once if it is made before the loop.

**TL301c**: an array that NumPy fills with a constant or random numbers, made only to be copied to
the GPU in every step.  No fix: the numbers and their type would be others.

## Fix safety
Safe for zeros, ones, full, empty, eye, a range of whole numbers and one number: the same values.
Unsafe for random numbers, which come from the generator of the GPU then; for `linspace` and ranges
of fractions, which may differ in the last digit; with `requires_grad=True`, since the tensor
becomes a leaf.  No fix where the move asks for a dtype that other values would be made in, for that
of another tensor, or for a memory format, nor after `.expand(...)`, whose rows share memory.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Create tensors directly on the target device"
- PyTorch source code, torch/profiler/_pattern_matcher.py, "ExtraCUDACopyPattern"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import AddArgument, DropMethod, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Nothing, Number, Place, Tensor, Text
from torchlint.syntax.calls import has_keyword, keywords, last_name
from torchlint.training.allocations import TYPED, array_of, is_number, is_whole, move_argument
from torchlint.training.constants import is_same_each_time, number_in
from torchlint.training.frequency import Rate
from torchlint.training.written import is_written
from torchlint_rules.judging import often, safety, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.allocations import Allocation
    from torchlint.training.script import Script

ANY_TYPE = frozenset({"zeros", "ones", "empty", "eye"})  # the same values in every dtype
RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal"})
DRAWS = frozenset({"normal_", "uniform_", "random_"})
SPREADS = frozenset({"expand", "expand_as"})
OTHERS = {
    "random": "the numbers come from the random generator of the GPU",
    "digits": "the numbers may differ in the last digit",
    "leaf": "the tensor becomes a leaf, whose gradient is kept",
}


def create_on_cpu_then_move(script: Script) -> Iterator[Finding]:
    """Find tensors that are made on the host only to be copied to the GPU."""
    for one in script.allocations:
        if one.function:
            yield moved(script, one)
        elif finding := uploaded(script, one):
            yield finding


def moved(script: Script, one: Allocation) -> Finding:
    """Return the finding for a tensor that is made on the host and moved."""
    frequency = script.frequency(one.made)
    where = move_argument(one.move) if one.is_direct else None
    value = () if where is None else script.value(where)
    place = "the GPU"
    if where is not None and not is_number(script.connected.evaluation, where):
        is_beside = any(isinstance(other, Tensor) for other in value)
        place = f"`{script.module.brief(where)}{'.device' if is_beside else ''}`"
    words = keywords(one.made)
    is_chosen = one.function == "randperm" or "device" in words or "pin_memory" in words
    comma, without = " and", ""
    if not one.is_direct:
        mover = script.connected.files.modules[one.file].brief(one.move)
        comma, without = ", and", f", without `{mover}`"
    return Finding(
        one.move if one.is_direct else one.made,
        f"`{script.module.brief(one.made)}` is made on the host{comma} then copied to {place}"
        f"{often(frequency)}",
        fix(script, one) if one.is_direct else None,
        severity(frequency, one.target is Device.CUDA, not is_chosen),
        help=f"make it there: `torch.{one.function}(..., device=...)`{without}",
    )


def fix(script: Script, one: Allocation) -> Fix | None:
    """Return the fix: the tensor is made where it is wanted."""
    words = keywords(one.move)
    places = [arg.value for arg in one.move.args if arg.keyword is None]
    device, made = device_code(script, one.move), one.made
    given = keywords(made)
    if device is None or not words.keys() <= {"device", "dtype", "non_blocking"} or places[3:]:
        return None
    if set(one.methods) & SPREADS or given.keys() & {"device", "pin_memory"}:
        return None
    if any(isinstance(inner, cst.List) and one.function == "full" for inner in lists(made)):
        return None
    dtype = None
    if last_name(one.move.func) == "to":
        dtype = words.get("dtype", places[1] if len(places) > 1 else None)
    rewrites: list[Rewrite] = [DropMethod(one.move)]
    kind = TYPED.get(script.name(made.func))
    if kind is not None:
        if not isinstance(made.func, cst.Attribute):
            return None
        rewrites.append(Replace(made.func, f"{script.module.code(made.func.value)}.empty"))
    if dtype is not None and script.value(dtype) != (Nothing(),):
        if one.function not in ANY_TYPE or one.methods:
            return None
        code = script.module.code(dtype)
        old = given.get("dtype")
        rewrites.append(Replace(old, code) if old else AddArgument(made, "dtype", code))
    elif kind:
        rewrites.append(AddArgument(made, "dtype", f"torch.{kind}"))
    rewrites.append(AddArgument(made, "device", device))
    changes = doubts(script, one, given.get("requires_grad"))
    return Fix("Make it on the device", safety(not changes), tuple(rewrites), "; ".join(changes))


def lists(made: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the list of ``torch.tensor([value] * n)``."""
    first = made.args[0].value if made.args else None
    while isinstance(first, cst.BinaryOperation):
        first = first.left
    if first is not None and made.args[0].keyword is None:
        yield first


def device_code(script: Script, move: cst.Call) -> str | None:
    """Return the device that a move names, as code; None where it may be something else."""
    where = move_argument(move)
    name = last_name(move.func)
    if name not in ("to", "cuda") or any(arg.star for arg in move.args):
        return None
    value = () if where is None else script.value(where)
    if name == "cuda":
        if where is None or value == (Nothing(),):
            return '"cuda"'
        if isinstance(where, cst.Integer):
            return f'"cuda:{where.value}"'
    if where is None or any(isinstance(one, (Tensor, Nothing)) for one in value):
        return None
    code = script.module.code(where)
    is_place = any(isinstance(one, (Place, Text, Number)) for one in value)
    return code if (is_place or name == "to") and not set(code) & set("\n#") else None


def doubts(script: Script, one: Allocation, grad: cst.BaseExpression | None) -> list[str]:
    """Return what is not the same when the tensor is made on the GPU."""
    found = [OTHERS["random"]] if one.function in RANDOM or set(one.methods) & DRAWS else []
    ends = [
        arg.value
        for arg in one.made.args
        if arg.keyword is None or arg.keyword.value in ("start", "end", "step")
    ]
    counts = one.function == "arange" and (
        len(ends) == 1
        or all(is_whole(script.connected.evaluation, end) for end in ends)
        or is_of_ints(script, one)
    )
    found += [OTHERS["digits"]] if one.function in ("linspace", "arange") and not counts else []
    is_leaf = grad is not None and script.module.code(grad) != "False"
    return [*found, OTHERS["leaf"]] if is_leaf else found


def is_of_ints(script: Script, one: Allocation) -> bool:
    """Whether a tensor is asked for as one of whole numbers."""
    value = script.value(one.made)
    asked = has_keyword(one.made, ("dtype",))
    return asked and all(isinstance(t, Tensor) and t.dtype == "int" for t in value)


def uploaded(script: Script, one: Allocation) -> Finding | None:
    """Return the finding for values that are copied in every step, and need not be."""
    frequency, call = script.frequency(one.made), one.made
    if frequency.rate is not Rate.STEP or frequency.guard:
        return None
    level = severity(frequency, one.target is Device.CUDA)
    array = array_of(script.connected.evaluation, call, script.connected.holders)
    if array is not None:
        text = f"`{script.module.brief(array)}` is made on the host and then copied to the GPU"
        makes = "make it there: torch has functions like this one, with `device=`"
        return Finding(call, f"{text}{often(frequency)}", None, level, case="c", help=makes)
    words = keywords(call)
    data = words.get("data", call.args[0].value if call.args else None)
    if data is None or not words.keys() <= {"data", "dtype", "device"}:
        return None
    if number_in(data) and script.name(call.func) == "torch.tensor":
        whole = one.move if one.is_direct else call
        text = f"`{script.module.brief(call)}` copies a number to the GPU{often(frequency)}"
        fills = "`torch.full((), number, device=...)` fills it in there"
        return Finding(whole, text, filled(script, one, data), level, case="b", help=fills)
    if not is_same_each_time(script, data, call) or is_written(script, call) is not False:
        return None
    text = f"`{script.module.brief(call)}` copies the same numbers to the GPU{often(frequency)}"
    before = "make the tensor once, before the loop"
    return Finding(call, text, None, level, case="b", help=before)


def filled(script: Script, one: Allocation, data: cst.BaseExpression) -> Fix | None:
    """Return the fix: the number is filled in on the GPU."""
    call, code = one.made, script.module.code
    words = keywords(call)
    device = code(words["device"]) if "device" in words else device_code(script, one.move)
    is_plain = one.move is call or not any(arg.keyword for arg in one.move.args)
    if device is None or not isinstance(call.func, cst.Attribute) or "\n" in code(call):
        return None
    if (
        not one.is_direct
        or one.methods
        or not is_plain
        or len(one.move.args) > 1 + (one.move is call) * 9
    ):
        return None
    dtype = f", dtype={code(words['dtype'])}" if "dtype" in words else ""
    text = f"{code(call.func.value)}.full((), {code(data)}{dtype}, device={device})"
    return Fix("Fill it in on the device", safety(), (Replace(one.move, text),))
