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
        order = torch.tensor(np.arange(len(frames)))
        return batch, noise, order

## Leaves alone
What is not proved to be an array: parameters without annotation, results of other modules (but for
environments of Gym and Gymnasium that are known to give arrays), lists and numbers (TL303 looks at
lists of arrays), NumPy scalars such as `np.mean(x)` and `np.random.rand()`.  Arrays that are
changed, returned or kept after the call, and tensors that are changed in place while somebody else
holds the array: there the copy is needed.  Memory that is, or may be, read-only: `np.broadcast_to`,
`np.frombuffer`, memory maps, `np.asarray` of an unknown object.  Functions that also have a branch
without the copy, for the same array.  `requires_grad=True`, which neither `as_tensor` nor
`from_numpy` takes; a slice that runs backwards, which none of them takes.  `torch.Tensor(array)`
and `torch.FloatTensor(array)`, which convert to float32, and use the memory of an array that has
it.

Conversions that copy anyway: to a dtype that is known to differ, as `np.random.rand` to float32
above, to one that the array is not known to have (but for int64 and float64, NumPy's own), of what
`np.load` gives to any dtype, and to a device that is or may be a GPU.  What `.float()` or the like
converts at once, where only one of two copies is saved.

What costs nothing that anybody would notice.  What is not seen to run in every training step,
forward pass or step of an evaluation, for every sample (`__getitem__`) or for every batch
(`collate_fn`): of what runs once a run, only a whole dataset is reported, an array that `np.load`
reads or that is joined of others, as the `__init__` of a dataset copies it or a `TensorDataset`
holds it.  Arrays of a few bytes: of at most 4,096 elements by their written shape; places and
ranges (`np.arange`, `np.random.permutation`, `np.where(x)[0]`); an array that is made right there
of a list of numbers or labels, since to read the list takes longer than the copy; and what a
vector environment of Gym answers with one number for each environment (rewards, what has ended),
or a single one shows in a few numbers.  One copy in a turn that generates with a model.  A column
that is moved to a GPU: what has gaps is copied into one piece for that.

It is a warning in training steps, forward passes, `__getitem__` and `collate_fn`s.  Evaluations
and whole datasets are information, and so is what may convert to int64 or float64.

## Fix safety
Safe where nothing else can reach the array: it was made in the call itself, or is a
local variable that is made in this file, is not passed on or stored, and
has no further use that could tell.  Values, dtype and strides are then the same
(`torch.tensor` keeps the strides of an array, too).  Unsafe where somebody else may
hold the array (a parameter, an attribute, a view): the tensor would change with the
array and the array with the tensor.  Unsafe as well for a slice with gaps between
its rows: `torch.tensor` closes them, so `.view()` can fail without the copy.

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

from torchlint.analysis import environments
from torchlint.analysis.arguments import Given
from torchlint.analysis.conversions import renamed, torch_dtype
from torchlint.analysis.datasets import TAKES
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.host_results import is_chain, loop_around
from torchlint.analysis.loops import Role
from torchlint.analysis.origins import origins
from torchlint.analysis.ownership import Fate, Owner, Ownership
from torchlint.analysis.pinning import is_called_label
from torchlint.analysis.values import Device, Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import RemoveArgument
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.ownership import Holding
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

UNTAKEN = ("requires_grad", "pin_memory")  # by as_tensor and from_numpy
KEYWORDS = (*UNTAKEN, "data", "dtype", "device")
LISTED = ("numpy.array", "numpy.asarray")
FEW = 4096  # elements: a call of torch takes as long as to copy them
SQUARES = frozenset({"numpy.eye", "numpy.identity"})
SHAPED = SQUARES | {"numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full"}
RANGES = frozenset({
    "numpy.arange", "numpy.linspace", "numpy.random.permutation", "numpy.random.choice",
    "numpy.flatnonzero", "numpy.bincount",
})  # fmt: skip
PLACES = RANGES | {"numpy.where", "numpy.nonzero"}
JOINED = frozenset({
    "numpy.load", "numpy.stack", "numpy.concatenate", "numpy.vstack", "numpy.hstack",
})  # fmt: skip
NUMBERS = (Kind.NUMBER, Kind.BOOL)
CASTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "bool", "type"})
SHARES = "the tensor shares its memory with the array: a change of one is a change of the other"
STRIDES = "the tensor keeps the gaps of the slice, so `.view()` may ask for `.reshape()`"


def tensor_copies_numpy(program: Program) -> Iterator[Finding]:
    """Yield calls of `torch.tensor` on arrays that a tensor could use as they are."""
    ownership = Ownership(program)
    for call in program.calls_of("torch.tensor"):
        data = program.argument(call, "data", "torch.tensor")
        if data.arg is None or not copies(program, call, data.arg.value):
            continue
        if deliberate(program, call, data.arg.value) or not is_felt(program, call, data.arg.value):
            continue
        holding = ownership.of(data.arg.value)
        fate = ownership.fate(call)
        shared = holding.owner is not Owner.SOLE
        if holding.owner is Owner.NEEDED or Fate.RESIZED in fate or (shared and fate):
            continue
        yield finding(program, call, data.arg, holding)


def copies(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether the call copies an array that could be used without a copy."""
    value = program.value(data)
    if value.kind is not Kind.NDARRAY:
        return False
    if any(arg.keyword and arg.keyword.value not in KEYWORDS for arg in call.args):
        return False
    for name in UNTAKEN:
        given = program.argument(call, name, "torch.tensor")
        if given.given is not Given.NO and given.literal() != "False":
            return False
    if may_convert(program, call, data) and likely_converts(program, call, data):
        return False
    return not converts(program, call, value) and not runs_backwards(program, data)


def deliberate(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether the same function also shares this array: then the copy here is a choice."""
    here = program.function(call)
    code = program.code(data)
    return any(
        program.function(other) is here and other.args and program.code(other.args[0].value) == code
        for other in program.calls_of("torch.as_tensor", "torch.from_numpy")
    )


def converts(program: Program, call: cst.Call, array: Value) -> bool:
    """Whether a dtype or a device is asked for that makes a copy necessary."""
    for wanted in program.argument(call, "dtype", "torch.tensor").values:
        dtype = torch_dtype(program, wanted)
        if dtype and array.dtype and dtype != array.dtype:
            return True
    return device_of(program, call) not in (None, Device.CPU)  # a GPU gets its own copy


def likely_converts(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether an array of an unknown dtype is rather copied: NumPy's own are int64 and float64."""
    wanted = program.argument(call, "dtype", "torch.tensor").values
    own = {torch_dtype(program, one) for one in wanted} <= {"int64", "float64"}
    return not own or is_loaded(program, data)


def runs_backwards(program: Program, data: cst.BaseExpression) -> bool:
    """``array[::-1]``: neither `torch.tensor` nor `torch.as_tensor` takes negative strides."""
    return any(
        isinstance(one.slice, cst.Slice)
        and isinstance(one.slice.step, cst.UnaryOperation)
        and isinstance(one.slice.step.operator, cst.Minus)
        for made in origins(program, data)
        if isinstance(made, cst.Subscript)
        for one in made.slice
    )


def is_loaded(program: Program, data: cst.BaseExpression) -> bool:
    """``np.load(path)["x"]``: only the file knows the dtype."""
    while isinstance(data, cst.Subscript):
        data = data.value
    return any(
        isinstance(made, cst.Call) and program.qualified(made.func) == "numpy.load"
        for made in origins(program, data)
    )


def may_convert(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether a dtype is asked for that the array may not have: then a copy is made anyway."""
    asked = not program.argument(call, "dtype", "torch.tensor").absent
    return asked and not program.value(data).dtype


def device_of(program: Program, call: cst.Call) -> Device | None:
    """Return where the tensor is put; None where no device is given."""
    device = program.argument(call, "device", "torch.tensor")
    if device.given is Given.NO:
        return None
    if len(device.values) != 1:
        return Device.UNKNOWN
    return program.values.device(device.values[0]) or Device.UNKNOWN


def finding(program: Program, call: cst.Call, data: cst.Arg, holding: Holding) -> Finding:
    """Return the finding; info where it is not sure that each step or sample loses a copy."""
    what = described(program, data.value)
    alone = holding.owner is Owner.SOLE
    message = f"`torch.tensor` copies {what}" + (", which nothing else uses" if alone else "")
    fix = without_copy(program, call, holding)
    help_text = "" if fix is None else f"`{fix.title.split('`')[1]}` uses its memory"
    sure = runs_often(program, call) and not evaluates(program, call)
    sure = sure and not may_convert(program, call, data.value)
    return Finding(call, message, fix, None if sure else Severity.INFO, help=help_text)


def is_converted(program: Program, call: cst.Call) -> bool:
    """Whether `.float()` or the like converts the tensor at once: one of two copies is saved."""
    match program.parent(call):
        case cst.Attribute(value=made, attr=cst.Name(value=name)) as func if made is call:
            above = program.parent(func)
            given = above.args if isinstance(above, cst.Call) else ()
            to = name == "to" and any(program.value(a.value).kind is Kind.DTYPE for a in given)
            return name in CASTS or to
        case _:
            return False


# -- what the copy costs --------------------------------------------------------------------------


def is_felt(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether more than a few bytes are copied again and again, or a whole dataset is."""
    if is_converted(program, call) or is_few(program, call, data):
        return False
    if has_gaps(program, data) and is_moved(program, call):
        return False  # the GPU gets one piece, which is a copy on the host
    if runs_often(program, call):
        return not (evaluates(program, call) and generates(program, call))
    return is_whole(program, data) and holds_samples(program, call)


def has_gaps(program: Program, data: cst.BaseExpression) -> bool:
    """Whether an array is a column, or another part with gaps between its elements."""
    return any(
        isinstance(made, cst.Subscript)
        and len(made.slice) > 1
        and isinstance(made.slice[0].slice, cst.Slice)
        for made in origins(program, data)
    )


def is_moved(program: Program, call: cst.Call) -> bool:
    """Whether the tensor is moved to a device in the same function."""
    above = program.parent(call)
    names = {program.code(call)}
    if isinstance(above, cst.Assign):
        names |= {dotted(one.target) for one in above.targets} - {""}
    return any(
        program.function(move) is program.function(call) and program.code(func.value) in names
        for move, func in program.method_calls("to", "cuda")
    )


def runs_often(program: Program, call: cst.Call) -> bool:
    """Whether a call runs in every step or forward pass, or for every sample or batch."""
    context = program.context(call)
    if context.role in (Role.TRAIN, Role.FORWARD, Role.EVAL):
        return not context.guarded
    return any(name in TAKES or "collate" in name for name in functions_to(program, call))


def evaluates(program: Program, call: cst.Call) -> bool:
    """Whether a call runs in the steps of an evaluation."""
    return program.context(call).role is Role.EVAL


def functions_to(program: Program, call: cst.Call) -> list[str]:
    """Return the names of the functions that lead to a call."""
    functions = (program.function(place) for place in ways_to(program, call))
    return [one.name.value for one in functions if one is not None]


def generates(program: Program, call: cst.Call) -> bool:
    """Whether a model generates something in each turn of the loop: what is one copy to that."""
    loop = loop_around(program, call)
    return loop is not None and any(
        "generat" in dotted(other.func).rpartition(".")[2].lower() and is_chain(program, other)
        for other in program.index.below(loop.body, cst.Call)
    )


def is_few(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether an array is known to take a few bytes, or less to copy than to make of a list."""
    if program.value(data).type in (environments.EACH, environments.FEW):
        return True
    collates = "collate" in " ".join(functions_to(program, call))
    made = origins(program, data)
    return bool(made) and all(
        is_small(program, one) or lists_numbers(program, one, collates=collates) for one in made
    )


def is_small(program: Program, node: cst.CSTNode) -> bool:
    """Whether an array is made of places (``np.arange(n)``), or of a small shape as written."""
    match node:
        case cst.Subscript(value=cst.Call(func=func)):
            return program.qualified(func) in PLACES
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=shape), *_]):
            name = program.qualified(func)
            square = 2 if name in SQUARES else 1
            return name in RANGES or (name in SHAPED and 0 <= size_of(shape) ** square <= FEW)
        case _:
            return False


def size_of(shape: cst.BaseExpression) -> int:
    """Return how many elements a written shape has; of any other, too many."""
    match shape:
        case cst.Integer():
            return int(shape.evaluated_value)
        case cst.Tuple(elements=parts) | cst.List(elements=parts):
            return math.prod(size_of(part.value) for part in parts)
        case _:
            return FEW + 1


def lists_numbers(program: Program, made: cst.CSTNode, *, collates: bool) -> bool:
    """Whether an array is made of a list of numbers: beside that, one more copy is nothing."""
    return (
        isinstance(made, cst.Call)
        and program.qualified(made.func) in LISTED
        and bool(made.args)
        and are_numbers(program, made.args[0].value, collates=collates)
    )


def are_numbers(program: Program, node: cst.BaseExpression, *, collates: bool) -> bool:
    """Whether an expression is a list of numbers, or of what is called labels.

    In a `collate_fn` labels are a list, unless they are seen to be arrays: one a sample.
    """
    value = program.value(node)
    member = value.each().kind
    listed = value.kind in (Kind.LIST, Kind.TUPLE)
    if listed and member in NUMBERS:
        return True
    unseen = member not in (Kind.NDARRAY, Kind.TENSOR, Kind.LIST)
    return (collates or listed) and unseen and is_called_label(dotted(node).rpartition(".")[2])


def is_whole(program: Program, data: cst.BaseExpression) -> bool:
    """Whether an array is read by `np.load`, or joined of others: it may hold a whole dataset."""
    made = [
        parts.value if isinstance(parts, cst.Subscript) else parts
        for parts in origins(program, data)
    ]
    return bool(made) and all(
        isinstance(one, cst.Call) and program.qualified(one.func) in JOINED for one in made
    )


def holds_samples(program: Program, call: cst.Call) -> bool:
    """Whether a tensor is made, once, for a dataset: in its `__init__`, or for `TensorDataset`."""
    if loop_around(program, call) is not None:
        return False
    owner, function = program.classes.around(call), program.function(call)
    if owner is not None and owner.is_dataset:
        return function is not None and function.name.value == "__init__"
    return any(
        call in origins(program, arg.value)
        for made in program.calls_of("torch.utils.data.TensorDataset")
        for arg in made.args
    )


def described(program: Program, node: cst.BaseExpression) -> str:
    """Return the code of an array as a phrase for the message."""
    return f"the array `{program.brief(node)}`"


def without_copy(program: Program, call: cst.Call, holding: Holding) -> Fix | None:
    """Return the fix, or None where the call passes what the other functions do not take."""
    unpacks = any(arg.star for arg in call.args)
    if unpacks and not all(program.argument(call, name).absent for name in UNTAKEN):
        return None
    dropped = [arg for arg in call.args if arg.keyword and arg.keyword.value in UNTAKEN]
    # not from_numpy: it does not follow a default device, which any file may set
    rewrites = renamed(program, call, "as_tensor")
    if rewrites is None:
        return None
    unsafe = [SHARES] * (holding.owner is not Owner.SOLE) + [STRIDES] * holding.part
    return Fix(
        "Use `torch.as_tensor`",
        Safety.UNSAFE if unsafe else Safety.SAFE,
        (*rewrites, *(RemoveArgument(call, arg) for arg in dropped)),
        changes="; ".join(unsafe),
    )
