"""`torch.tensor` copies a NumPy array whose memory the tensor could use.

## Why
`torch.tensor(array)` always copies.  `torch.as_tensor(array)` gives a tensor
over the same memory, at a cost that does not depend on the size.  Where the array
was made for this one call, as in `torch.tensor(np.stack(frames))`, nobody is
left to notice the difference, and the copy is pure loss.

## Bad
    import numpy as np
    import torch

    frames = [np.zeros((84, 84)) for _ in range(4)]
    batch = torch.tensor(np.stack(frames))
    weights = torch.tensor(np.random.rand(4), dtype=torch.float32)
    targets = torch.tensor(np.arange(4), dtype=torch.long)

## Good
    import numpy as np
    import torch

    frames = [np.zeros((84, 84)) for _ in range(4)]
    batch = torch.as_tensor(np.stack(frames))
    weights = torch.tensor(np.random.rand(4), dtype=torch.float32)
    targets = torch.as_tensor(np.arange(4), dtype=torch.long)

## Leaves alone
What is not proved to be an array: parameters without annotation, results of other modules (but for
environments of Gym and Gymnasium that are known to give arrays), lists and numbers (TL303 looks at
lists of arrays), NumPy scalars such as `np.mean(x)` and `np.random.rand()`.  Arrays that are
changed, returned or kept after the call, and tensors that are changed in place while somebody else
holds the array: there the copy is needed.  Memory that is, or may be, read-only: `np.broadcast_to`,
`np.frombuffer`, memory maps, `np.asarray` of an unknown object.  Functions that also have a branch
without the copy, for the same array.  Conversions that copy anyway: to a dtype that is known to
differ, as `np.random.rand` to float32 above, or a list of quotients of Python numbers, of what
`np.load` gives to any dtype, and to a device that is or may be a GPU.  What the `__init__` of a
module copies, once; what prepares the samples of a dataset as that is made (in a loop of its
`__init__`, or of `process` of PyTorch Geometric) or picks them once
(`dataset[torch.tensor(chosen)]`); one copy in a turn that generates with a model; and one number
for each sample, as the labels in a `collate_fn`: a few bytes.  `requires_grad=True`, which neither
`as_tensor` nor `from_numpy` takes.  `torch.Tensor(array)` and `torch.FloatTensor(array)`, which
convert to float32, and use the memory of an array that has it.

It is a warning in training steps, forward passes, `__getitem__` and `collate_fn`s; what runs once
a run or an epoch, or nobody can tell how often, is information, and so is what `.float()` or the
like converts at once: only one of two copies is saved.  So is an array that is made right there of
a list of numbers: to read the list takes longer than the copy; and what a vector environment of Gym
answers with one number for each environment (rewards, what has ended): a few bytes.

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

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import environments
from torchlint.analysis.arguments import Given
from torchlint.analysis.conversions import renamed, torch_dtype
from torchlint.analysis.datasets import TAKES
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.host_results import is_chain, loop_around
from torchlint.analysis.index import dotted
from torchlint.analysis.loops import Role
from torchlint.analysis.once import prepares_samples, runs_once
from torchlint.analysis.origins import origins
from torchlint.analysis.ownership import Fate, Owner, Ownership
from torchlint.analysis.pinning import is_called_label
from torchlint.analysis.rewrites import RemoveArgument
from torchlint.analysis.values import Device, Kind
from torchlint.edits import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.ownership import Holding
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

UNTAKEN = ("requires_grad", "pin_memory")  # by as_tensor and from_numpy
KEYWORDS = (*UNTAKEN, "data", "dtype", "device")
LISTED = ("numpy.array", "numpy.asarray")
DEPTH = 4  # lists in one another, and functions that return them
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
        if deliberate(program, call, data.arg.value) or builds_module(program, call):
            continue
        if prepares(program, call) or counts_samples(program, call, data.arg.value):
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
    unsure = may_convert(program, call, data)
    if unsure and (is_loaded(program, data) or converts_quotients(program, call, data)):
        return False
    return not converts(program, call, value)


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


def is_loaded(program: Program, data: cst.BaseExpression) -> bool:
    """``np.load(path)["x"]``: only the file knows the dtype."""
    while isinstance(data, cst.Subscript):
        data = data.value
    return any(
        isinstance(made, cst.Call) and program.qualified(made.func) == "numpy.load"
        for made in origins(program, data)
    )


def converts_quotients(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether another dtype is asked for than that of quotients of Python's: float64."""
    wanted = program.argument(call, "dtype", "torch.tensor").values
    asked = {torch_dtype(program, one) for one in wanted}
    return (
        bool(asked)
        and not asked & {"", "float64"}
        and any(
            isinstance(made, cst.Call)
            and program.qualified(made.func) in LISTED
            and bool(made.args)
            and are_quotients(program, made.args[0].value, 0)
            for made in origins(program, data)
        )
    )


def are_quotients(program: Program, node: cst.CSTNode, depth: int) -> bool:
    """``[[i / width for i in range(n)] for _ in range(m)]``, also of what a function returns."""
    match node:
        case _ if depth > DEPTH:
            return False
        case cst.ListComp(elt=element) | cst.List(elements=[cst.Element(value=element), *_]):
            return are_quotients(program, element, depth + 1)
        case cst.Call():
            made = origins(program, node)
            return node not in made and all(are_quotients(program, one, depth + 1) for one in made)
        case cst.BinaryOperation(left=left, operator=cst.Divide(), right=right):
            kinds = {program.value(left).kind, program.value(right).kind}
            return Kind.NUMBER in kinds and kinds <= {Kind.NUMBER, Kind.UNKNOWN}
        case _:
            return False


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
    """Return the finding; info where the call is not seen to run again and again."""
    what = described(program, data.value)
    alone = holding.owner is Owner.SOLE
    message = f"`torch.tensor` copies {what}" + (", which nothing else uses" if alone else "")
    fix = without_copy(program, call, holding)
    help_text = "" if fix is None else f"`{fix.title.split('`')[1]}` uses its memory"
    sure = not may_convert(program, call, data.value) and runs_often(program, call)
    sure = sure and not is_converted(program, call) and not lists_numbers(program, call, data.value)
    small = (environments.EACH, environments.FEW)
    sure = sure and program.value(data.value).type not in small  # a few bytes
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


def lists_numbers(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether an array is made of a list of numbers: beside that, one more copy is nothing.

    The labels of a batch are such a list, unless they are seen to be arrays: one a sample.
    """
    collates = in_collate(program, call)
    made = origins(program, data) if isinstance(data, cst.Name) else [data]
    return bool(made) and all(
        isinstance(one, cst.Call)
        and program.qualified(one.func) in LISTED
        and bool(one.args)
        and are_numbers(program, one.args[0].value, collates=collates)
        for one in made
    )


def counts_samples(program: Program, call: cst.Call, data: cst.BaseExpression) -> bool:
    """Whether a batch is given an array of one number a sample: that is a copy of a few bytes."""
    return in_collate(program, call) and lists_numbers(program, call, data)


def in_collate(program: Program, call: cst.Call) -> bool:
    """Whether a call runs in a `collate_fn`, by its name."""
    return "collate" in " ".join(functions_to(program, call))


def are_numbers(program: Program, node: cst.BaseExpression, *, collates: bool) -> bool:
    """Whether an expression is a list of numbers, or what is called labels in a `collate_fn`."""
    value = program.value(node)
    member = value.each().kind
    if value.kind in (Kind.LIST, Kind.TUPLE) and member in NUMBERS:
        return True
    unseen = member not in (Kind.NDARRAY, Kind.TENSOR, Kind.LIST)
    return collates and unseen and is_called_label(dotted(node).rpartition(".")[2])


def builds_module(program: Program, call: cst.Call) -> bool:
    """Whether a call runs as a module is made: a buffer is copied once, and is small."""
    owner, function = program.classes.around(call), program.function(call)
    named = function is not None and function.name.value == "__init__"
    return named and owner is not None and owner.is_module


def prepares(program: Program, call: cst.Call) -> bool:
    """Whether a copy prepares samples, or picks them once, or comes beside a whole generation."""
    if prepares_samples(program, call) or generates(program, call):
        return True
    return isinstance(program.parent(call), cst.Index) and runs_once(program, call)


def generates(program: Program, call: cst.Call) -> bool:
    """Whether a model generates something in each turn of the loop: what is one copy to that."""
    loop = loop_around(program, call)
    return (
        loop is not None
        and program.context(call).role in (Role.OTHER, Role.EVAL)
        and any(
            "generat" in dotted(other.func).rpartition(".")[2].lower() and is_chain(program, other)
            for other in program.index.below(loop.body, cst.Call)
        )
    )


def runs_often(program: Program, call: cst.Call) -> bool:
    """Whether a call runs in every training step or forward pass, or for every sample."""
    context = program.context(call)
    if context.role in (Role.TRAIN, Role.FORWARD):
        return not context.guarded
    return any(name in TAKES or "collate" in name for name in functions_to(program, call))


def functions_to(program: Program, call: cst.Call) -> list[str]:
    """Return the names of the functions that lead to a call."""
    functions = (program.function(place) for place in ways_to(program, call))
    return [one.name.value for one in functions if one is not None]


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
