"""`torch.tensor` takes a list of arrays apart element by element, or copies a tensor.

## Why
Given a list, `torch.tensor` makes a Python object of every single number in it. For a list of
arrays NumPy does the same work in compiled code: PyTorch itself warns that this is "extremely slow"
and recommends `numpy.array()` first.

TL303b: `torch.tensor(x)` and `y.new_tensor(x)` of a tensor warn too, and only do
`x.detach().clone()`.

## Bad
    import numpy as np
    import torch

    frames = [np.random.rand(84) for _ in range(4)]
    batch = torch.tensor(frames, dtype=torch.float32)

## Good
    import numpy as np
    import torch

    frames = [np.random.rand(84) for _ in range(4)]
    batch = torch.as_tensor(np.array(frames), dtype=torch.float32)

## Leaves alone
- Lists of numbers, of lists and of NumPy's scalars; lists of which an element is not known.
- Lists of tensors, which `torch.stack` is for; what is not seen to be a tensor.

It is a warning in every training step and for every sample or batch, else information.

## Fix safety
Safe for lists that are written out, of one known floating dtype. Otherwise unsafe: of an empty
list, and of int64 mixed with float32, `torch.tensor` makes float32 and NumPy float64.

TL303b: safe, but where only the calls in this file show that a parameter is a tensor. No fix where
the call pins memory or a default device is set.

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
from torchlint.semantics.sets import parts_of
from torchlint.semantics.values import Array, Nothing, Place, Sequence, Tensor, Truth
from torchlint.syntax.calls import argument_of, keywords, positional
from torchlint.syntax.scopes import Bind
from torchlint.training.allocations import TYPED
from torchlint.training.spelling import beside, name_at
from torchlint_rules.judging import often, safety, severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

    Words: TypeAlias = Mapping[str, cst.BaseExpression]

FLOATS = frozenset({"float16", "float32", "float64"})
NAMED = {"torch.float": "float32", "torch.half": "float16", "torch.double": "float64"}
DEFAULTS = ("torch.set_default_tensor_type", "torch.set_default_device", "torch.set_default_dtype")
CALLERS = "callers in other files may pass something that is no tensor"
CHANGES = (
    "of an empty list, and of integers mixed with floats, NumPy makes float64 and "
    "`torch.tensor` float32"
)


def tensor_from_list_of_arrays(script: Script) -> Iterator[Finding]:
    """Find tensors made of lists of arrays, and copies made of tensors."""
    for call, name in script.calls_of("torch.tensor", *TYPED):
        words, data = keywords(call), argument_of(call, "data", 0)
        if data is None or any(arg.star for arg in call.args) or len(positional(call)) > 1:
            continue
        frequency = script.frequency(call)
        if holds_arrays(script, data):
            text = f"`{name}` reads the arrays in `{script.module.brief(data)}` number by number"
            text += f"{often(frequency)}; `np.array` joins them at once"
            yield Finding(call, text, stacked(script, call, name, data), severity(frequency))
        elif name == "torch.tensor" and is_tensor(script, data, call):
            yield from_tensor(script, call, data, words)
    for call in script.module.index.of(cst.Call):
        match call:
            case cst.Call(cst.Attribute(like, cst.Name("new_tensor")), [cst.Arg(data, star="")]):
                if is_tensor(script, like, call) and is_tensor(script, data, call):
                    yield from_tensor(script, call, data, {"": like})


def is_tensor(script: Script, node: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether an expression is certainly a tensor, and not only what a call makes of it."""
    value, here = script.value(node), script.connected.evaluation.at(call, script.file)
    tensors = [one for one in value if isinstance(one, Tensor) and one.sure]
    return len(tensors) == len(value) and any(one.made != here for one in tensors)


def holds_arrays(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a list or tuple of arrays, and of nothing else."""
    value, elements = script.value(node), script.connected.evaluation.elements
    held = [each for one in value for part in parts_of(one) for each in part]
    made = [one.made for one in value if isinstance(one, Sequence) and one.made]
    held += [each for at in made for each in elements(at).value]
    lists = all(isinstance(one, Sequence) and one.kind in ("list", "tuple") for one in value)
    return lists and bool(held) and all(isinstance(one, Array) for one in held)


# -- lists of arrays ---------------------------------------------------------------------------


def stacked(script: Script, call: cst.Call, name: str, data: cst.BaseExpression) -> Fix | None:
    """Return the fix: one array is made of the list first.

    For `torch.tensor` it goes to `as_tensor`, which follows a default device as well.
    """
    module, words = script.module, keywords(call)
    function = "from_numpy" if name in TYPED else "as_tensor"
    numpy = name_at(script, call, "numpy", "array", "np")
    prefix = beside(script, call.func, "torch", function)
    changes_type = name in TYPED and script.connected.evaluation.calls("torch.set_default_dtype")
    if not numpy or prefix is None or changes_type or words.keys() - {"data", "dtype", "device"}:
        return None
    rewrites: list[Rewrite]
    joined = f"{numpy}({module.code(data)})"
    if name in TYPED:
        method = name.removeprefix("torch.").removesuffix("Tensor").lower() or "float"
        rewrites = [Replace(call, f"{prefix}{function}({joined}).{method}()")]
    else:
        rewrites = [Replace(call.func, f"{prefix}{function}"), Replace(data, joined)]
    rewrites += [] if prefix else [AddImport("torch", function)]
    is_new = numpy.partition(".")[0] not in module.index.root.bindings
    rewrites += [AddImport("numpy as np")] if is_new else []
    is_safe = is_exact(script, name, data, words.get("dtype"))
    title = f"Make one array of them for `torch.{function}`"
    return Fix(title, safety(is_safe), tuple(rewrites), "" if is_safe else CHANGES)


def is_exact(
    script: Script, name: str, data: cst.BaseExpression, dtype: cst.BaseExpression | None
) -> bool:
    """Whether the list is written out, and of one floating dtype as what is asked for."""
    if not isinstance(data, (cst.List, cst.Tuple)) or not data.elements:
        return False
    values = [script.value(element.value) for element in data.elements]
    own = {one.dtype for value in values for one in value if isinstance(one, Array)}
    wanted = TYPED.get(name) or "float32"
    if dtype is not None:
        wanted = NAMED.get(script.name(dtype)) or dtype_named(script.value(dtype))
    return len(own) == 1 and own | {wanted} <= FLOATS


# -- tensors -----------------------------------------------------------------------------------


def from_tensor(script: Script, call: cst.Call, data: cst.BaseExpression, words: Words) -> Finding:
    """Return the finding for a tensor that is made of a tensor (TL303b)."""
    frequency, brief = script.frequency(call), script.module.brief
    message = (
        f"`{brief(call.func)}` copies the tensor `{brief(data)}` with a warning"
        f"{often(frequency)}; `.detach().clone()` does so without"
    )
    copy = cloned(script, call, data, words)
    return Finding(call, message, copy, severity(frequency), case="b")


def cloned(script: Script, call: cst.Call, tensor: cst.BaseExpression, words: Words) -> Fix | None:
    """Return the fix: a detached copy, with the dtype, device and gradient that are asked for.

    A tensor whose dtype and device it shall have is in ``words`` under "".
    """
    code = script.module.code
    if words.keys() - {"data", "dtype", "device", "requires_grad", ""} or sets_device(script):
        return None
    given = [one for one in ("", "dtype", "device") if one in words]
    asked = [one for one in given if script.value(words[one]) != (Nothing(),)]
    moved = [f"{one}={code(words[one])}" if one else code(words[one]) for one in asked]
    copied = code(tensor)
    if not copied.endswith(".detach()"):
        tight = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        copied = f"{copied}.detach()" if tight else f"({copied}).detach()"
    copied += f".to({', '.join(moved)}, copy=True)" if moved else ".clone()"
    grad = words.get("requires_grad")
    if grad is not None and script.value(grad) != (Truth(False),):
        copied += f".requires_grad_({code(grad)})"
    title = f"Copy it with `.detach(){'.to()' if moved else '.clone()'}`"
    is_sure = not any(by_callers(script, one) for one in (tensor, words.get("")))
    return Fix(title, safety(is_sure), (Replace(call, copied),), "" if is_sure else CALLERS)


def sets_device(script: Script) -> bool:
    """Whether the file changes where tensors are made by default."""
    return any(map(script.connected.evaluation.calls, DEFAULTS)) or any(
        isinstance(one, Place)
        for item in script.module.index.of(cst.WithItem)
        for one in script.value(item.item)
    )


def by_callers(script: Script, node: cst.BaseExpression | None) -> bool:
    """Whether it is a parameter that only the calls that are seen show to be a tensor."""
    return any(
        one.kind is Bind.PARAMETER
        and isinstance(one.value, cst.Param)
        and one.value.annotation is None
        for one in script.connected.evaluation.bindings(node)
    )
