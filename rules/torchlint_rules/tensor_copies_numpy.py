"""`torch.tensor` copies a NumPy array whose memory the tensor could use.

## Why
`torch.tensor(array)` always copies.  `torch.as_tensor(array)` gives a tensor
over the same memory, at a cost that does not depend on the size.  Where the array
was made for this one call, as in `torch.tensor(np.stack(frames))`, nobody is
left to notice the difference, and the copy is pure loss.

## Bad
    import numpy as np
    import torch

    def collate(frames):
        batch = torch.tensor(np.stack(frames))
        noise = torch.tensor(np.random.rand(len(frames), 9), dtype=torch.float32)
        order = torch.tensor(np.arange(len(frames)))
        return batch, noise, order

## Good
    import numpy as np
    import torch

    def collate(frames):
        batch = torch.as_tensor(np.stack(frames))
        noise = torch.tensor(np.random.rand(len(frames), 9), dtype=torch.float32)
        order = torch.as_tensor(np.arange(len(frames)))
        return batch, noise, order

## Leaves alone
- What is not seen to be an array: parameters without annotation, lists, NumPy's numbers.
- Arrays that are changed after the call, and tensors that are changed in place while somebody else
  holds the array: there the copy is needed.
- Memory that is or may be read-only: `np.frombuffer`, memory maps, `np.asarray` of an image.
- Functions that share the memory of the same array in another branch.
- Conversions to another dtype or to a GPU, which copy anyway.
- `requires_grad=True` and `pin_memory=True`, which `as_tensor` does not take.
- `torch.Tensor(array)`, which converts to float32.

It is a warning in every training step, for every sample and for every batch.  What runs once or as
often as nobody knows is information, and so are few numbers, what may be a number of NumPy, and
what may convert.  Of an array that is returned or stored later there is no fix.

## Fix safety
Safe where nothing else can reach the array: it was made in the call itself, or is a
local variable that is not passed on or stored, and has no further use that could tell.
Values, dtype and strides are then the same (`torch.tensor` keeps the strides of an array, too).
Unsafe where somebody else may hold the array (a parameter, an attribute, a view): the tensor would
change with the array and the array with the tensor.  Unsafe as well for a slice, which may have
gaps between its rows: `torch.tensor` closes them, so `.view()` can fail without the copy.

The fix is `torch.as_tensor` and never `torch.from_numpy`: that one does not follow a
default device (`torch.set_default_device`, `with torch.device(...)`), which any other
file may set, and raises on what turns out to be a NumPy scalar.

## Evidence
`torchlint bench TL302` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- sample, side 512: 705 µs and 338 µs, 2.08 x (1.90 to 2.28): faster; results bitwise equal.
- sample, side 84: 11.8 µs and 8.09 µs, 1.46 x (1.43 to 1.50): faster; results bitwise equal.

On a GPU: not measured yet.

## References
PyTorch documentation, `torch.tensor`, `torch.from_numpy`, `torch.as_tensor`
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import AddImport, RemoveArgument, Replace
from torchlint.rule import Finding
from torchlint.semantics.array_types import dtype_named
from torchlint.semantics.tensors import device_of
from torchlint.semantics.values import Array, Device, Nothing, Number, Sequence, Truth
from torchlint.syntax.calls import keyword_of
from torchlint.training.array_memory import ArrayMemory, Holder
from torchlint.training.beside import beside
from torchlint_rules.judging import often, safety, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

WORDS = frozenset({"data", "dtype", "device", "requires_grad", "pin_memory"})
UNTAKEN = ("requires_grad", "pin_memory")  # by as_tensor
FEW = 4096  # elements: a call of torch takes as long as to copy them
SHAPED = ("numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full")
LISTED = ("numpy.array", "numpy.asarray")
SHARES = "the tensor shares its memory with the array: a change of one is a change of the other"

GAPS = "the tensor keeps the gaps of the slice, so `.view()` may ask for `.reshape()`"


def tensor_copies_numpy(script: Script) -> Iterator[Finding]:
    """Find calls of `torch.tensor` on arrays that a tensor could use as they are."""
    for call, _ in script.calls_of("torch.tensor"):
        words = {arg.keyword.value if arg.keyword else "data": arg.value for arg in call.args}
        data = words.get("data")
        if data is None or not words.keys() <= WORDS or any(arg.star for arg in call.args):
            continue
        value = script.value(data)
        arrays = [one for one in value if isinstance(one, Array)]
        others = [one for one in value if one not in arrays]
        if not arrays or not all(isinstance(one, (Number, Nothing)) for one in others):
            continue
        converts = may_convert(script, words, arrays)
        if converts is None or any(script.value(words[w]) != (Truth(False),)
                                   for w in UNTAKEN if w in words):  # fmt: skip
            continue
        memory = ArrayMemory(script.connected.evaluation, script.file)
        holder = memory.holder(data)
        if holder is Holder.CHANGED or memory.is_written(call, resized=True):
            continue
        if holder is not Holder.NOBODY and memory.is_written(call):
            continue
        if is_chosen(script, call, data):
            continue
        is_sure = not others and not converts and not is_few(script, data)
        is_array = not any(isinstance(one, Number) for one in others)
        yield finding(script, call, data, holder, is_array=is_array, is_sure=is_sure)


def may_convert(
    script: Script, words: dict[str, cst.BaseExpression], arrays: list[Array]
) -> bool | None:
    """Whether a dtype is asked for that the array may not have; None where a copy is made anyway.

    An array of an unknown type is rather converted, but to int64 and float64, NumPy's own.
    """
    none = (Nothing(),)
    where = words.get("device")
    found = none if where is None else script.value(where)
    if found != none and device_of(found) is not Device.HOST:
        return None
    wanted = words.get("dtype")
    if wanted is None or script.value(wanted) == none:
        return False
    name = script.name(wanted)
    short = {"torch.float": "float32", "torch.long": "int64"}.get(name)
    asked = short or dtype_named(script.value(wanted))
    own = {one.dtype for one in arrays}
    if own == {asked} and asked:
        return False
    return True if "" in own and asked in ("int64", "float64") else None


def is_chosen(script: Script, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether the same function also shares the memory of this array: the copy is a choice."""
    here, code = script.module.function(call), script.module.code(data)
    return any(
        script.module.function(other) is here
        and other.args
        and script.module.code(other.args[0].value) == code
        for other, _ in script.calls_of("torch.as_tensor", "torch.from_numpy")
    )


def is_few(script: Script, data: cst.BaseExpression) -> bool:
    """Whether an array has few elements as written, or is made right there of a list of numbers."""
    if not isinstance(data, cst.Call) or not data.args:
        return False
    name, first = script.name(data.func), data.args[0].value
    if name in LISTED:
        return any(
            isinstance(one, Sequence)
            and all(isinstance(n, Number) for part in (*(one.elements or ()), one.element)
                    for n in part)
            for one in script.value(first)
        )  # fmt: skip
    return name in SHAPED and size_of(first) <= FEW


def size_of(shape: cst.BaseExpression) -> int:
    """Return how many elements a written shape has; of any other, too many."""
    match shape:
        case cst.Integer():
            return int(shape.evaluated_value)
        case cst.Tuple(elements=parts) | cst.List(elements=parts):
            return math.prod(size_of(part.value) for part in parts)
    return FEW + 1


def finding(
    script: Script,
    call: cst.Call,
    data: cst.BaseExpression,
    holder: Holder,
    *,
    is_array: bool,
    is_sure: bool,
) -> Finding:
    """Return the finding."""
    frequency = script.frequency(call)
    alone = ", which nothing else uses," if holder is Holder.NOBODY else ""
    rate = often(frequency)
    what = f"`torch.tensor` copies {'the array ' if is_array else ''}`{script.module.brief(data)}`"
    alone = alone if is_array else f"{alone or ','} where it is an array and no number,"
    fix = None if holder is Holder.KEPT else without_copy(script, call, holder)
    return Finding(
        call,
        f"{what}{alone if rate else alone.rstrip(',')}{rate}",
        fix,
        severity(frequency, is_sure and holder is not Holder.KEPT),
        help="`torch.as_tensor` uses its memory" if fix else "",
    )


def without_copy(script: Script, call: cst.Call, holder: Holder) -> Fix | None:
    """Return the fix.

    It is not `from_numpy`, which does not follow a default device, which any file may set.
    """
    found = beside(script, call.func, "as_tensor")
    if found is None:
        return None
    dropped = [arg for arg in call.args if keyword_of(arg) in UNTAKEN]
    target = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    rewrites: list[Rewrite] = [Replace(target, "as_tensor")]
    rewrites += [RemoveArgument(call, arg) for arg in dropped]
    rewrites += [AddImport("torch", "as_tensor")] if found[1] else []
    is_alone = holder is Holder.NOBODY
    title = f"Use `{found[0]}`, which does not copy"
    has_gaps = any(isinstance(arg.value, cst.Subscript) for arg in call.args)
    changes = f"{SHARES}; {GAPS}" if has_gaps else SHARES
    return Fix(title, safety(is_alone), tuple(rewrites), "" if is_alone else changes)
