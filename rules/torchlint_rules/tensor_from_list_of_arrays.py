"""`torch.tensor` takes a list of arrays apart element by element, or copies a tensor.

## Why
Given a list, `torch.tensor` makes a Python object of every single number in it.
For a list of arrays NumPy does the same work in compiled code: PyTorch
itself warns that this is "extremely slow" and recommends `numpy.array()` first.

TL303b: `torch.tensor(x)` and `y.new_tensor(x)` of a tensor `x` warn too, since
it is not plain whether a copy, a detached copy or the tensor itself was meant.
What they do is `x.detach().clone()`, which says so and does not warn.  In training
steps `torch.tensor([x])` of one tensor on the host, which has to hold one number, is
information: `x.detach().reshape(1)` makes no Python object of it.

## Bad
    import numpy as np
    import torch

    frames = [np.random.rand(84) for _ in range(4)]
    batch = torch.tensor(frames, dtype=torch.float32)
    first = torch.tensor(batch)

## Good
    import numpy as np
    import torch

    frames = [np.random.rand(84) for _ in range(4)]
    batch = torch.as_tensor(np.array(frames), dtype=torch.float32)
    first = batch.detach().clone()

## Leaves alone
Lists of numbers, of lists and of NumPy scalars; lists whose elements are not known
(`env.step()` returns what the environment likes; of those that come with Gymnasium and
observe a `Box`, such as `CartPole-v1`, that is an array); lists of several tensors, which
`torch.stack` is for; what is not proved to be a tensor.  What runs a single time on a few
arrays that the file itself makes of lists, such as the sentences of an example.  Where the
call pins memory, or where a default device is set in the file, it is reported without a fix.

Lists of arrays in a class or function that nothing in the project uses are information, and so is
what is seen to run a single time, such as the data that a script makes before it trains.

## Fix safety
A list of arrays: safe for a list that is written out, whose elements are of one
known floating dtype and one known shape.  Otherwise unsafe: of an empty list
`torch.tensor` makes a float32 tensor and NumPy a float64 array, and of a mixture of
int64 and float32 NumPy makes float64.  `np.array` and not `np.stack`, because it takes
an empty list and always gives rows without gaps, as `torch.tensor` does.

A tensor (TL303b): safe; unsafe where it is a parameter without annotation, which only
the calls in this file show to be a tensor.  A dtype or device goes into
`.to(..., copy=True)`, which copies once, as `torch.tensor` does, and `requires_grad=True`
becomes `.requires_grad_(True)`.

## Evidence
`torchlint bench TL303` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, length 128, features 512: 6.73 ms and 1.47 ms, 4.56 x (4.40 to 4.73): faster;
  results bitwise equal.
- training step, length 64, features 16: 372 µs and 261 µs, 1.43 x (1.40 to 1.45): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
PyTorch documentation, `torch.tensor`; NumPy documentation, `numpy.array`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import Given
from torchlint.analysis.conversions import (
    imports,
    numpy_function,
    sets_device,
    sets_dtype,
    spelled,
    torch_dtype,
)
from torchlint.analysis.datasets import TAKES
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.few_arrays import lists_few
from torchlint.analysis.loops import Role
from torchlint.analysis.once import runs_once
from torchlint.analysis.unused import is_unused
from torchlint.analysis.values import Device, Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.edits.rewrites import Rewrite

# Legacy constructors -> the dtype they convert to, and the method that does so.
LEGACY = {
    "torch.Tensor": ("float32", "float"), "torch.FloatTensor": ("float32", "float"),
    "torch.DoubleTensor": ("float64", "double"), "torch.HalfTensor": ("float16", "half"),
    "torch.LongTensor": ("int64", "long"), "torch.IntTensor": ("int32", "int"),
}  # fmt: skip
CUDA = tuple(f"torch.cuda.{name}" for name in ("FloatTensor", "DoubleTensor", "LongTensor"))
FLOATS = ("float16", "float32", "float64")
CALLERS = "callers in other files may pass something that is no tensor"
CHANGES = (
    "of an empty list, and of integers mixed with floats, NumPy makes float64 and "
    "`torch.tensor` float32"
)


def tensor_from_list_of_arrays(program: Program) -> Iterator[Finding]:
    """Yield tensors made of lists of arrays, and copies made of tensors."""
    for call in program.calls_of("torch.tensor", *LEGACY, *CUDA):
        name = program.qualified(call.func)
        data = data_of(program, call, name)
        if data is None:
            continue
        value = program.value(data.value)
        if value.kind in (Kind.LIST, Kind.TUPLE) and holds_arrays(value):
            if lists_few(program, data.value) and is_paid_once(program, call):
                continue  # milliseconds, in all
            yield from_list(program, call, name, data)
        elif name == "torch.tensor" and value.is_tensor:
            yield from_tensor(program, call, data)
        elif name == "torch.tensor" and is_one_tensor(program, data.value):
            yield from_one(program, call, data)
    for call, func in program.method_calls("new_tensor"):
        match call.args:
            case [cst.Arg(star="") as arg] if program.value(func.value).is_tensor:
                if program.value(arg.value).is_tensor:
                    yield from_new_tensor(program, call, func)


def data_of(program: Program, call: cst.Call, name: str) -> cst.Arg | None:
    """Return the argument that holds the data; sizes are several arguments."""
    if name == "torch.tensor":
        return program.argument(call, "data", name).arg
    plain = len(call.args) == 1 and not call.args[0].star and call.args[0].keyword is None
    return call.args[0] if plain else None


def holds_arrays(value: Value) -> bool:
    """Whether every element of a list is an array."""
    return value.each().kind is Kind.NDARRAY


# -- lists of arrays ------------------------------------------------------------------------------


def from_list(program: Program, call: cst.Call, name: str, data: cst.Arg) -> Finding:
    """Return the finding for a list of arrays."""
    code = program.code(data.value)
    what = f"the arrays in `{code}`" if len(code) <= 40 and "\n" not in code else "a list of arrays"
    message = f"`{name}` reads {what} number by number; `np.array` joins them at once"
    seldom = is_unused(program, call) or is_paid_once(program, call)
    severity = Severity.INFO if seldom else None
    return Finding(call, message, stacked(program, call, name, data), severity)


def is_paid_once(program: Program, call: cst.Call) -> bool:
    """Whether a call is seen to run a single time, and not for steps, batches or samples."""
    if program.context(call).role is not Role.OTHER or not runs_once(program, call):
        return False
    functions = [program.function(place) for place in ways_to(program, call)]
    return not any(
        one is not None and (one.name.value in TAKES or is_passed_on(program, one))
        for one in functions
    )


def is_passed_on(program: Program, function: cst.FunctionDef) -> bool:
    """``DataLoader(data, collate_fn=function)``: who takes it may call it any number of times."""
    for name in program.index.named.get(function.name.value, ()):
        above = program.parent(name)
        passed = above if isinstance(above, cst.Attribute) and above.attr is name else name
        holder = program.parent(passed)
        if isinstance(holder, cst.Arg) and holder.value is passed:
            return True
    return False


def stacked(program: Program, call: cst.Call, name: str, data: cst.Arg) -> Fix | None:
    """Return the fix: make one array of the list first."""
    array = numpy_function(program, call, "array")
    if array is None or name in CUDA or (name == "torch.Tensor" and sets_dtype(program)):
        return None
    joined = f"{array[0]}({program.code(data.value)})"
    if name in LEGACY:
        rewrites = legacy(program, call, name, joined)
        function = "from_numpy"
    else:
        if not takes(call, ("dtype", "device")):
            return None
        function = "as_tensor"  # it follows a default device, which any file may set
        rewrites = called(program, call, function, data, joined)
    if rewrites is None:
        return None
    safe = exact(program, call, name, data.value)
    return Fix(
        f"Make one array of them for `torch.{function}`",
        Safety.SAFE if safe else Safety.UNSAFE,
        (*rewrites, *array[1]),
        changes="" if safe else CHANGES,
    )


def takes(call: cst.Call, names: tuple[str, ...]) -> bool:
    """Whether a call of `torch.tensor` passes nothing besides the data and these keywords."""
    passed = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return passed <= {*names, "data"} and not any(arg.star for arg in call.args)


def called(
    program: Program, call: cst.Call, function: str, data: cst.Arg, joined: str
) -> tuple[Rewrite, ...] | None:
    """Return the rewrites that call another function on the joined array."""
    name = spelled(program, call.func, function)
    if name is None:
        return None
    added = imports(program, call.func, function)
    if not program.is_in_parentheses(data.value):
        return (Replace(call.func, name), Replace(data.value, joined), *added)
    # brackets of a tuple would stay around what replaces it
    args = [program.bare(arg) for arg in call.args]
    place = next(i for i, arg in enumerate(call.args) if arg is data)
    args[place] = joined if data.keyword is None else f"data={joined}"
    return (Replace(call, f"{name}({', '.join(args)})"), *added)


def legacy(program: Program, call: cst.Call, name: str, array: str) -> tuple[Rewrite, ...] | None:
    """Return the rewrites of `torch.FloatTensor(xs)`, which converts as well."""
    function = spelled(program, call.func, "from_numpy")
    if function is None:
        return None
    code = f"{function}({array}).{LEGACY[name][1]}()"
    return (Replace(call, code), *imports(program, call.func, "from_numpy"))


def exact(program: Program, call: cst.Call, name: str, data: cst.BaseExpression) -> bool:
    """Whether the list is written out, of one floating dtype and one shape."""
    if not isinstance(data, (cst.List, cst.Tuple)) or not data.elements:
        return False
    values = [program.value(element.value) for element in data.elements]
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 or not dtypes <= {*FLOATS} or any(value.rank < 0 for value in values):
        return False
    for wanted in program.argument(call, "dtype", "torch.tensor").values:
        if torch_dtype(program, wanted) not in FLOATS:
            return False
    if name in LEGACY and LEGACY[name][0] not in FLOATS:
        return False
    shapes = {shape_of(program, element.value) for element in data.elements}
    return len(data.elements) == 1 or (len(shapes) == 1 and None not in shapes)


def shape_of(program: Program, node: cst.BaseExpression) -> str | None:
    """Return the code of the shape with which an array is made on the spot, if it is."""
    match node:
        case cst.Call(args=[cst.Arg(keyword=None, star="", value=shape), *_]):
            last = program.qualified(node.func).rpartition(".")[2]
            return program.code(shape) if last in ("zeros", "ones", "empty", "full") else None
        case _:
            return None


# -- tensors --------------------------------------------------------------------------------------


def from_tensor(program: Program, call: cst.Call, data: cst.Arg) -> Finding:
    """Return the finding for a tensor that is made of a tensor (TL303b)."""
    what = program.brief(data.value)
    message = (
        f"`torch.tensor` copies the tensor `{what}` with a warning; `.detach().clone()` does so "
        "without"
    )
    return Finding(call, message, cloned(program, call, data.value), case="b")


def cloned(program: Program, call: cst.Call, tensor: cst.BaseExpression) -> Fix | None:
    """Return the fix: a detached copy, with the dtype, device and gradient that are asked for."""
    if not takes(call, ("dtype", "device", "requires_grad")) or sets_device(program):
        return None
    moved = [
        f"{name}={program.code(argument.values[0])}"
        for name in ("dtype", "device")
        if (argument := program.argument(call, name, "torch.tensor")).given is Given.YES
    ]
    copy = f".to({', '.join(moved)}, copy=True)" if moved else ".clone()"
    code = f"{detached(program, tensor)}{copy}"
    grad = program.argument(call, "requires_grad", "torch.tensor")
    if grad.values and grad.literal() != "False":
        code += f".requires_grad_({program.code(grad.values[0])})"
    title = f"Copy it with `.detach(){'.to()' if moved else '.clone()'}`"
    if by_callers(program, tensor):
        return Fix(title, Safety.UNSAFE, (Replace(call, code),), changes=CALLERS)
    return Fix(title, Safety.SAFE, (Replace(call, code),))


def by_callers(program: Program, node: cst.BaseExpression) -> bool:
    """Whether it is a parameter that only the calls in this file show to be a tensor."""
    if not isinstance(node, cst.Name):
        return False
    params = [b.value for b in program.flow.reaching(node) if b.kind is Bind.PARAMETER]
    return any(isinstance(param, cst.Param) and param.annotation is None for param in params)


def detached(program: Program, tensor: cst.BaseExpression) -> str:
    """Return the code of a tensor without its history."""
    code = program.code(tensor)
    match tensor:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="detach")), args=[]):
            return code
        case cst.Name() | cst.Attribute() | cst.Call() | cst.Subscript():
            return f"{code}.detach()"
        case _:
            return f"({code}).detach()"


def is_one_tensor(program: Program, data: cst.BaseExpression) -> bool:
    """``[t]`` of a tensor on the host, in training steps: of one elsewhere it is a wait as well."""
    match data:
        case cst.List(elements=[cst.Element(value=tensor)]):
            value = program.value(tensor)
            known = value.is_tensor and value.device is Device.CPU
            return known and program.context(data).role is Role.TRAIN
        case _:
            return False


def from_one(program: Program, call: cst.Call, data: cst.Arg) -> Finding:
    """Return the finding for a list of one tensor (TL303b): information, since it is a number."""
    assert isinstance(data.value, cst.List)
    tensor = data.value.elements[0].value
    message = (
        f"`{program.brief(call)}` reads the number out of the tensor `{program.brief(tensor)}` to "
        "make a tensor of it"
    )
    help_ = f"`{detached(program, tensor)}.reshape(1)` is one already"
    return Finding(call, message, None, Severity.INFO, case="b", help=help_)


def from_new_tensor(program: Program, call: cst.Call, func: cst.Attribute) -> Finding:
    """Return the finding for `y.new_tensor(x)` of a tensor (TL303b)."""
    like = program.code(func.value)
    code = f"{detached(program, call.args[0].value)}.to({like}, copy=True)"
    fix = Fix("Copy it with `.detach().to()`", Safety.SAFE, (Replace(call, code),))
    message = "`new_tensor` copies a tensor with a warning; `.detach().to(..., copy=True)` does not"
    return Finding(call, message, fix, case="b")
