"""A tensor is made on the host and then copied to the GPU, where it could have been made.

## Why
`torch.zeros(n).to(device)` fills memory on the host, then waits for a copy to the GPU.
`torch.zeros(n, device=device)` starts one small kernel and waits for nothing.

TL301b, in training steps: `torch.tensor(0.5, device=device)` copies a number, where `torch.full`
fills it in; a tensor of written numbers need be copied only once, before the loop. TL301c: an array
that NumPy fills, made only to be copied to the GPU.

## Bad
    import torch

    def train(model, steps):
        for step in range(steps):
            ones = torch.ones(64, 1).to("cuda")
            model(ones).mean().backward()

## Good
    import torch

    def train(model, steps):
        for step in range(steps):
            ones = torch.ones(64, 1, device="cuda")
            model(ones).mean().backward()

## Leaves alone
- Tensors that are given a `generator` or `out`, or that the host uses before they are moved.
- `.to(dtype)`, and moves to the CPU, to MPS or XLA.
- Tensors of values, `torch.tensor(values)`: with `device=` they are copied as well (but TL301b).

It is a warning in every training step; else, and for a device that may be no GPU, information.

## Fix safety
Safe for constants and ranges of whole numbers. Unsafe for random numbers, which the GPU then draws,
for other ranges, which may differ in the last digit, and with `requires_grad=True`, since the
tensor becomes a leaf. No fix where a later line moves the tensor, for TL301c and lists, and where
the move asks for a dtype in which the values would be others.

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
from torchlint.syntax.calls import has_keyword, keyword_of, keywords, last_name, positional
from torchlint.training.allocations import TYPED, array_of, is_number
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
LARGEST = 3e38  # about the largest float32: `torch.full` refuses what is larger


def create_on_cpu_then_move(script: Script) -> Iterator[Finding]:
    """Find tensors that are made on the host only to be copied to the GPU."""
    for one in script.allocations:
        if one.function:
            yield moved(script, one)
        elif finding := uploaded(script, one):
            yield finding


def moved(script: Script, one: Allocation) -> Finding:
    """Return the finding for a tensor that is made on the host and moved."""
    frequency, brief = script.frequency(one.made), script.module.brief
    where, place = one.where if one.is_direct else None, "the GPU"
    if where is not None and not is_number(script.value(where)):
        is_beside = any(isinstance(other, Tensor) for other in script.value(where))
        place = f"`{brief(where)}{'.device' if is_beside else ''}`"
    is_chosen = one.function == "randperm" or keywords(one.made).keys() & {"device", "pin_memory"}
    comma, without = " and", ""
    if not one.is_direct:
        mover = script.connected.files.modules[one.file].brief(one.move)
        comma, without = ", and", f", without `{mover}`"
    return Finding(
        one.move if one.is_direct else one.made,
        f"`{brief(one.made)}` is made on the host{comma} then copied to {place}{often(frequency)}",
        fix(script, one) if one.is_direct else None,
        severity(frequency, one.target is Device.CUDA, not is_chosen),
        help=f"make it there: `torch.{one.function}(..., device=...)`{without}",
    )


def fix(script: Script, one: Allocation) -> Fix | None:
    """Return the fix: the tensor is made where it is wanted."""
    code, made = script.module.code, one.made
    words, places, given = keywords(one.move), positional(one.move), keywords(made)
    device = device_code(script, one)
    if device is None or not words.keys() <= {"device", "dtype", "non_blocking"} or places[3:]:
        return None
    if given.keys() & {"device", "pin_memory"}:
        return None
    is_to = last_name(one.move.func) == "to"
    dtype = words.get("dtype", places[1] if len(places) > 1 and is_to else None)
    rewrites: list[Rewrite] = [DropMethod(one.move)]
    kind = TYPED.get(script.name(made.func))
    if kind is not None:
        if not isinstance(made.func, cst.Attribute):
            return None
        rewrites.append(Replace(made.func, f"{code(made.func.value)}.empty"))
    if dtype is not None and script.value(dtype) != (Nothing(),):
        if one.function not in ANY_TYPE or one.methods:
            return None
        old, new = given.get("dtype"), code(dtype)
        rewrites.append(Replace(old, new) if old else AddArgument(made, "dtype", new))
    elif kind:
        rewrites.append(AddArgument(made, "dtype", f"torch.{kind}"))
    rewrites.append(AddArgument(made, "device", device))
    changes = "; ".join(doubts(script, one, given.get("requires_grad")))
    return Fix("Make it on the device", safety(not changes), tuple(rewrites), changes)


def device_code(script: Script, one: Allocation) -> str | None:
    """Return the device that a move names, as code; None where it may be something else."""
    where, name = one.where, last_name(one.move.func)
    if name not in ("to", "cuda") or any(arg.star for arg in one.move.args):
        return None
    value = () if where is None else script.value(where)
    if name == "cuda":
        if where is None or value == (Nothing(),):
            return '"cuda"'
        if isinstance(where, cst.Integer):
            return f'"cuda:{where.value}"'
    if where is None or any(isinstance(each, (Tensor, Nothing)) for each in value):
        return None
    code = script.module.code(where)
    is_place = any(isinstance(each, (Place, Text, Number)) for each in value)
    return code if (is_place or name == "to") and not set(code) & set("\n#") else None


def doubts(script: Script, one: Allocation, grad: cst.BaseExpression | None) -> Iterator[str]:
    """Yield what is not the same when the tensor is made on the GPU."""
    if one.function in RANDOM or set(one.methods) & DRAWS:
        yield "the numbers come from the random generator of the GPU"
    ends = [arg for arg in one.made.args if keyword_of(arg) in ("", "start", "end", "step")]
    is_typed = has_keyword(one.made, ("dtype",)) and all(
        isinstance(t, Tensor) and t.dtype == "int" for t in script.value(one.made)
    )
    values = [n for end in ends for n in script.value(end.value) or (None,)]
    counts = all(isinstance(n, Number) and isinstance(n.value, int) for n in values)
    counts = one.function == "arange" and (len(ends) == 1 or is_typed or counts)
    if one.function in ("linspace", "arange") and not counts:
        yield "the numbers may differ in the last digit"
    if grad is not None and script.module.code(grad) != "False":
        yield "the tensor becomes a leaf, whose gradient is kept"


def uploaded(script: Script, one: Allocation) -> Finding | None:
    """Return the finding for values that are copied in every step, and need not be."""
    frequency, call, brief = script.frequency(one.made), one.made, script.module.brief
    if frequency.rate is not Rate.STEP or frequency.guard:
        return None
    level = severity(frequency, one.target is Device.CUDA)
    array = array_of(script.connected.evaluation, call, script.connected.holders)
    if array is not None:
        text = f"`{brief(array)}` is made on the host and then copied to the GPU{often(frequency)}"
        makes = "make it there: torch has functions like this one, with `device=`"
        return Finding(call, text, None, level, case="c", help=makes)
    words = keywords(call)
    data = words.get("data", call.args[0].value if call.args else None)
    if data is None or not words.keys() <= {"data", "dtype", "device"} or not is_written_out(data):
        return None
    if not isinstance(data, (cst.List, cst.Tuple)):
        if script.name(call.func) != "torch.tensor":
            return None
        text = f"`{brief(call)}` copies a number to the GPU{often(frequency)}"
        fills = "`torch.full((), number, device=...)` fills it in there"
        whole = one.move if one.is_direct else call
        return Finding(whole, text, filled(script, one, data), level, case="b", help=fills)
    if is_written(script, call) is not False:
        return None
    text = f"`{brief(call)}` copies the same numbers to the GPU{often(frequency)}"
    before = "make the tensor once, before the loop"
    return Finding(call, text, None, level, case="b", help=before)


def is_written_out(node: cst.BaseExpression) -> bool:
    """Whether an expression is a number or a bool as written that each dtype holds, or a list."""
    match node:
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
            return not isinstance(inner, cst.Name) and is_written_out(inner)
        case cst.Name(value="True" | "False"):
            return True
        case cst.Integer() | cst.Float():
            return abs(node.evaluated_value) < LARGEST
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            return bool(elements) and all(is_written_out(one.value) for one in elements)
    return False


def filled(script: Script, one: Allocation, data: cst.BaseExpression) -> Fix | None:
    """Return the fix: the number is filled in on the GPU."""
    call, code, words = one.made, script.module.code, keywords(one.made)
    device = code(words["device"]) if "device" in words else device_code(script, one)
    is_plain = one.move is call or (one.is_direct and not one.methods and len(one.move.args) <= 1)
    if device is None or not isinstance(call.func, cst.Attribute) or not is_plain:
        return None
    dtype = f", dtype={code(words['dtype'])}" if "dtype" in words else ""
    text = f"{code(call.func.value)}.full((), {code(data)}{dtype}, device={device})"
    fits = "\n" not in code(call)
    return Fix("Fill it in on the device", safety(), (Replace(one.move, text),)) if fits else None
