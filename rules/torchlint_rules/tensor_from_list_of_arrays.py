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
- Lists of numbers, of lists and of NumPy's scalars; lists of which an element is not known.
- Lists of several tensors, which `torch.stack` is for; what is not seen to be a tensor.

It is a warning in every training step, for every sample and for every batch; what runs once or as
often as nobody knows is information.  Where the call pins memory, or a default device is set, there
is no fix.

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

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import AddImport, Replace
from torchlint.rule import Finding
from torchlint.semantics.array_types import dtype_named
from torchlint.semantics.values import Array, Device, Nothing, Place, Sequence, Tensor, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.beside import beside, numpy_function
from torchlint.training.frequency import Rate
from torchlint_rules.judging import often, safety, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

# Legacy constructors -> the dtype they convert to, and the method that does so.
LEGACY = {
    "torch.Tensor": ("float32", "float"), "torch.FloatTensor": ("float32", "float"),
    "torch.DoubleTensor": ("float64", "double"), "torch.HalfTensor": ("float16", "half"),
    "torch.LongTensor": ("int64", "long"), "torch.IntTensor": ("int32", "int"),
}  # fmt: skip
CUDA = tuple(f"torch.cuda.{name}" for name in ("FloatTensor", "DoubleTensor", "LongTensor"))
FLOATS = frozenset({"float16", "float32", "float64"})
DEFAULTS = ("torch.set_default_tensor_type", "torch.set_default_device")
FILLED = frozenset("zeros ones empty full".split())
CALLERS = "callers in other files may pass something that is no tensor"
CHANGES = (
    "of an empty list, and of integers mixed with floats, NumPy makes float64 and "
    "`torch.tensor` float32"
)


def tensor_from_list_of_arrays(script: Script) -> Iterator[Finding]:
    """Find tensors made of lists of arrays, and copies made of tensors."""
    for call, name in script.calls_of("torch.tensor", *LEGACY, *CUDA):
        words = {
            arg.keyword.value if arg.keyword else arg.star or "data": arg.value for arg in call.args
        }
        data = words.get("data")
        if data is None or "*" in words or len(words) < len(call.args):
            continue
        if name != "torch.tensor" and len(words) > 1:
            continue
        if holds_arrays(script, data):
            yield from_list(script, call, name, words)
        elif name == "torch.tensor" and is_tensor(script, data, call):
            yield from_tensor(script, call, words)
        elif name == "torch.tensor" and (tensor := only_one(script, data)):
            yield from_one(script, call, tensor)
    for call in script.module.index.of(cst.Call) if is_asked(script) else ():
        match call.func, call.args:
            case cst.Attribute(value=like, attr=cst.Name("new_tensor")), [
                cst.Arg(star="", value=data)
            ] if is_tensor(script, like) and is_tensor(script, data):
                yield from_new_tensor(script, call, like, data)


def is_asked(script: Script) -> bool:
    """Whether the file calls `new_tensor` anywhere."""
    return "new_tensor" in script.module.index.named


def is_tensor(
    script: Script, node: cst.BaseExpression, made_of_it: cst.CSTNode | None = None
) -> bool:
    """Whether an expression is certainly a tensor, and not only what is made of it here."""
    value, evaluation = script.value(node), script.connected.evaluation
    here = evaluation.at(made_of_it, script.file) if made_of_it is not None else None
    tensors = [one for one in value if isinstance(one, Tensor) and one.sure]
    is_itself = here is not None and all(one.made == here for one in tensors)
    return bool(value) and len(tensors) == len(value) and not is_itself


def holds_arrays(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a list or tuple of arrays, and of nothing else."""
    value = script.value(node)
    held = [
        each
        for one in value
        if isinstance(one, Sequence)
        for part in (
            *(one.elements or ()),
            one.element,
            script.connected.evaluation.elements(one.made).value if one.made else (),
        )
        for each in part
    ]
    lists = all(isinstance(one, Sequence) and one.kind in ("list", "tuple") for one in value)
    return lists and bool(held) and all(isinstance(one, Array) for one in held)


# -- lists of arrays ---------------------------------------------------------------------------


def from_list(
    script: Script, call: cst.Call, name: str, words: dict[str, cst.BaseExpression]
) -> Finding:
    """Return the finding for a list of arrays."""
    frequency, data = script.frequency(call), words["data"]
    code = script.module.code(data)
    what = f"the arrays in `{code}`" if len(code) <= 40 and "\n" not in code else "a list of arrays"
    message = (
        f"`{name}` reads {what} number by number{often(frequency)}; `np.array` joins them at once"
    )
    return Finding(call, message, stacked(script, call, name, words), severity(frequency))


def stacked(
    script: Script, call: cst.Call, name: str, words: dict[str, cst.BaseExpression]
) -> Fix | None:
    """Return the fix: one array is made of the list first.

    For `torch.tensor` it goes to `as_tensor`, which follows a default device as well.
    """
    numpy, code, data = numpy_function(script, call, "array"), script.module.code, words["data"]
    changes_dtype = name == "torch.Tensor" and script.connected.calls("torch.set_default_dtype")
    if numpy is None or name in CUDA or changes_dtype or set(words) - {"data", "dtype", "device"}:
        return None
    function = "from_numpy" if name in LEGACY else "as_tensor"
    found = beside(script, call.func, function)
    if found is None:
        return None
    joined = f"{numpy[0]}({code(data)})"
    rewrites: list[Rewrite]
    if name in LEGACY:
        rewrites = [Replace(call, f"{found[0]}({joined}).{LEGACY[name][1]}()")]
    elif isinstance(data, cst.Tuple):  # its brackets would stay around what replaces it
        args = [
            (f"{arg.keyword.value}=" if arg.keyword else "")
            + (joined if arg.value is data else code(arg.value))
            for arg in call.args
        ]
        rewrites = [Replace(call, f"{found[0]}({', '.join(args)})")]
    else:
        rewrites = [Replace(call.func, found[0]), Replace(data, joined)]
    rewrites += [AddImport("torch", function)] if found[1] else []
    rewrites += [AddImport("numpy as np")] if numpy[1] else []
    is_safe = is_exact(script, name, data, words.get("dtype"))
    title = f"Make one array of them for `torch.{function}`"
    return Fix(title, safety(is_safe), tuple(rewrites), "" if is_safe else CHANGES)


def is_exact(
    script: Script, name: str, data: cst.BaseExpression, dtype: cst.BaseExpression | None
) -> bool:
    """Whether the list is written out, of one floating dtype and one shape."""
    if not isinstance(data, (cst.List, cst.Tuple)) or not data.elements:
        return False
    nodes = [element.value for element in data.elements]
    values = [script.value(node) for node in nodes]
    dtypes = {one.dtype for value in values for one in value if isinstance(one, Array)}
    wanted = "float32" if dtype is None else torch_dtype(script, dtype)
    if len(dtypes) > 1 or not {*dtypes, wanted, LEGACY.get(name, ("float32",))[0]} <= FLOATS:
        return False
    shapes = {shape_of(script, node) for node in nodes}
    return len(nodes) == 1 or (len(shapes) == 1 and None not in shapes)


def torch_dtype(script: Script, node: cst.BaseExpression) -> str:
    """Return NumPy's name of a dtype as torch names it, "" where it is not known."""
    known = {"torch.float": "float32", "torch.half": "float16", "torch.double": "float64"}
    return known.get(script.name(node)) or dtype_named(script.value(node))


def shape_of(script: Script, node: cst.BaseExpression) -> str | None:
    """Return the code of the shape with which an array is made on the spot, if it is."""
    match node:
        case cst.Call(args=[cst.Arg(keyword=None, star="", value=shape), *_]):
            last = script.name(node.func).rpartition(".")[2]
            return script.module.code(shape) if last in FILLED else None
    return None


# -- tensors -----------------------------------------------------------------------------------


def from_tensor(script: Script, call: cst.Call, words: dict[str, cst.BaseExpression]) -> Finding:
    """Return the finding for a tensor that is made of a tensor (TL303b)."""
    frequency, tensor = script.frequency(call), words["data"]
    message = (
        f"`torch.tensor` copies the tensor `{script.module.brief(tensor)}` with a warning"
        f"{often(frequency)}; `.detach().clone()` does so without"
    )
    return Finding(call, message, cloned(script, call, words), severity(frequency), case="b")


def cloned(script: Script, call: cst.Call, words: dict[str, cst.BaseExpression]) -> Fix | None:
    """Return the fix: a detached copy, with the dtype, device and gradient that are asked for."""
    tensor, known = words["data"], {"data", "dtype", "device", "requires_grad"}
    if set(words) - known or sets_device(script):
        return None
    asked = {
        name: script.module.code(node)
        for name, node in words.items()
        if not all(isinstance(one, Nothing) for one in script.value(node)) or not script.value(node)
    }
    moved = [f"{name}={asked[name]}" for name in ("dtype", "device") if name in asked]
    copy = f".to({', '.join(moved)}, copy=True)" if moved else ".clone()"
    code = f"{detached(script, tensor)}{copy}"
    grad = words.get("requires_grad")
    if grad is not None and script.value(grad) != (Truth(False),):
        code += f".requires_grad_({script.module.code(grad)})"
    title = f"Copy it with `.detach(){'.to()' if moved else '.clone()'}`"
    is_sure = not by_callers(script, tensor)
    return Fix(title, safety(is_sure), (Replace(call, code),), "" if is_sure else CALLERS)


def sets_device(script: Script) -> bool:
    """Whether the file changes where tensors are made by default."""
    return any(map(script.connected.calls, DEFAULTS)) or any(
        isinstance(one, Place)
        for block in script.module.index.of(cst.With)
        for item in block.items
        for one in script.value(item.item)
    )


def by_callers(script: Script, node: cst.BaseExpression) -> bool:
    """Whether it is a parameter that only the calls that are seen show to be a tensor."""
    return any(
        one.kind is Bind.PARAMETER
        and isinstance(one.value, cst.Param)
        and one.value.annotation is None
        for one in script.connected.evaluation.bindings(node)
    )


def detached(script: Script, tensor: cst.BaseExpression) -> str:
    """Return the code of a tensor without its history."""
    code = script.module.code(tensor)
    match tensor:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="detach")), args=[]):
            return code
        case cst.Name() | cst.Attribute() | cst.Call() | cst.Subscript():
            return f"{code}.detach()"
    return f"({code}).detach()"


def only_one(script: Script, data: cst.BaseExpression) -> cst.BaseExpression | None:
    """``[t]`` of a tensor on the host, in training steps: of one elsewhere it is a wait as well."""
    match data:
        case cst.List(elements=[cst.Element(value=tensor)]) if is_tensor(script, tensor):
            devices = {getattr(one, "device", None) for one in script.value(tensor)}
            is_step = script.frequency(data).rate is Rate.STEP
            return tensor if is_step and devices == {Device.HOST} else None
    return None


def from_one(script: Script, call: cst.Call, tensor: cst.BaseExpression) -> Finding:
    """Return the finding for a list of one tensor (TL303b): information, since it is a number."""
    brief, frequency = script.module.brief, script.frequency(call)
    message = (
        f"`{brief(call)}` reads the number out of the tensor `{brief(tensor)}` to make a tensor of "
        "it"
    )
    help_ = f"`{detached(script, tensor)}.reshape(1)` is one already"
    return Finding(call, message, None, severity(frequency, False), case="b", help=help_)


def from_new_tensor(
    script: Script, call: cst.Call, like: cst.BaseExpression, data: cst.BaseExpression
) -> Finding:
    """Return the finding for `y.new_tensor(x)` of a tensor (TL303b)."""
    code = f"{detached(script, data)}.to({script.module.code(like)}, copy=True)"
    is_sure = not (by_callers(script, data) or by_callers(script, like))
    changes = "" if is_sure else CALLERS
    fix = Fix("Copy it with `.detach().to()`", safety(is_sure), (Replace(call, code),), changes)
    message = "`new_tensor` copies a tensor with a warning; `.detach().to(..., copy=True)` does not"
    return Finding(call, message, fix, severity(script.frequency(call)), case="b")
