"""Methods of tensors, models, loaders, containers and strings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import library, numpy_calls
from torchlint.semantics.arguments import first_of
from torchlint.semantics.array_types import dtype_named
from torchlint.semantics.operations import element_of, entry_of
from torchlint.semantics.options import PARSER, add_option, parsed
from torchlint.semantics.sets import parts_of
from torchlint.semantics.tables import tensors as tables
from torchlint.semantics.tables.torch_classes import CONTAINERS, kind_of
from torchlint.semantics.tensors import device_of, mixed, moved
from torchlint.semantics.values import (
    NEVER,
    Array,
    Device,
    Dictionary,
    Function,
    Guess,
    Instance,
    Iterator,
    Loaded,
    Nothing,
    Number,
    Object,
    Parameters,
    Sequence,
    Tensor,
    Text,
    Truth,
)
from torchlint.syntax.calls import last_name

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, At, Value

# What wraps models, optimizers and loaders, and hands them back in their order.
PREPARES = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning.fabric.Fabric"})
MODULE_SELF = frozenset(
    """to cuda cpu xpu eval train half float double bfloat16 type apply
    requires_grad_ to_empty share_memory ipu""".split()
)
OF_PARAMETERS = frozenset("parameters buffers state_dict".split())
NAMED = frozenset("named_parameters named_buffers".split())
ENTRIES = frozenset("keys values items get pop".split())  # what dictionaries have
# Methods of an array that give memory of its own.
NEW_ARRAYS = frozenset("astype copy flatten repeat round clip cumsum cumprod argsort".split())
OF_MODULES = frozenset("modules children".split())


def call(run: Run, node: cst.Call, owner: Alternative, name: str, passed: Several[Passed]) -> Value:
    """Return what a method gives that is none of a class of the project."""
    match owner:
        case Tensor():
            return of_tensor(run, node, owner, name, passed)
        case Array():
            return _of_array(run, node, owner, name, passed)
        case Sequence() | Dictionary():
            return _of_container(run, node, owner, name, passed)
        case Instance() | Guess(what="model"):
            return _of_module(run, node, owner, name, passed)
        case Object():
            return _of_object(run, node, owner, name, passed)
        case Text():
            return _of_text(run, name)
        case Number():  # of NumPy
            return run.one(owner)
    return run.sets.unknown


def of_tensor(run: Run, node: cst.Call, one: Tensor, name: str, passed: Several[Passed]) -> Value:
    """Return what a method of a tensor gives."""
    if name in ("to", "cuda", "cpu", "type_as", "type"):
        return _moved(run, one, name, passed)
    if name == "item":
        return run.one(Number(None, run.at(node)))
    if name == "tolist":
        return run.one(Sequence("list", None, run.one(Number(None, run.at(node))), None))
    if name in ("numpy", "__array__"):
        return run.one(Array(one.batch, run.at(node), "bool" if one.dtype == "bool" else ""))
    if name in tables.NUMBERS or name == "size":
        number = run.one(Number())
        is_all = name == "size" and not passed
        return run.one(Sequence("tuple", None, number, None)) if is_all else number
    if name in tables.BOOLS or name in ("equal", "allclose"):
        return run.one(Truth())
    if name in tables.NOTHING:
        return run.one(Nothing())
    if name.startswith("new_"):
        return run.one(Tensor(one.device, made=run.at(node)))
    if one.loaded and not one.sure and name in ENTRIES:
        return _of_whole(run, one, name)
    changed = one if name in tables.RESHAPES else replace(one, made=None)
    if name in tables.PERHAPS:
        is_laid_out = not _is_permuted(node)
        changed = replace(
            changed, loaded=min(one.loaded, Loaded.PERHAPS if is_laid_out else Loaded.NO)
        )
    elif name not in tables.VIEWS:
        others = [each for arg in passed for each in arg.value if isinstance(each, Tensor)]
        is_in_place = name.endswith("_") and not name.endswith("__")
        changed = mixed(one, *others)
        if is_in_place:
            changed = replace(changed, loaded=one.loaded, device=one.device)
    return library.results(run, name, changed, [one], has_dim=bool(passed))


def _is_permuted(node: cst.Call) -> bool:
    """``x.permute(0, 2, 1).contiguous()``: it is laid out anew."""
    func = node.func
    inner = func.value if isinstance(func, cst.Attribute) else None
    return isinstance(inner, cst.Call) and last_name(inner.func) in tables.PERMUTES


def _of_whole(run: Run, one: Tensor, name: str) -> Value:
    """A batch that nothing is known of is a dictionary, where it is used as one."""
    text, part = run.one(Text()), run.one(one)
    if name == "keys":
        return run.sets.nested(Iterator(text))
    if name == "items":
        return run.sets.nested(
            Iterator(run.sets.nested(Sequence("tuple", (text, part), NEVER, None)))
        )
    return run.sets.nested(Iterator(part)) if name == "values" else part


def _moved(run: Run, one: Tensor, name: str, passed: Several[Passed]) -> Value:
    if name in ("cpu", "cuda"):
        return run.one(moved(one, Device.HOST if name == "cpu" else Device.CUDA))
    where = first_of(passed, 0, "device")
    for each in where:
        if isinstance(each, Tensor):
            return run.one(moved(one, each.device))
    names = [getattr(each, "name", "") for each in where]
    if not all(word.startswith("torch.") for word in names):
        return run.one(moved(one, device_of(where)))
    if not names:
        return run.one(replace(one, made=None))
    if names[0].endswith("Tensor"):  # ``x.type(torch.cuda.FloatTensor)``
        one = moved(one, Device.CUDA if any("cuda" in word for word in names) else Device.HOST)
    dtype = "float" if "float" in names[0] else one.dtype
    return run.one(replace(one, made=None, loaded=min(one.loaded, Loaded.PERHAPS), dtype=dtype))


def _of_array(run: Run, node: cst.Call, one: Array, name: str, passed: Several[Passed]) -> Value:
    if name in numpy_calls.REDUCES or name == "item":
        is_float = one.dtype.startswith("float") and not name.startswith("a")
        array = replace(one, dtype=one.dtype if is_float else "", made=run.at(node))
        axis = any(not arg.keyword or arg.keyword in ("axis", "keepdims") for arg in passed)
        return run.one(array if axis and name != "item" else Number(None, one.read))
    if name == "tolist":
        return run.one(Sequence("list", None, run.one(Number(None, one.read)), None))
    if name in NEW_ARRAYS:
        is_sure = not any(arg.keyword == "copy" for arg in passed)
        dtype = dtype_named(first_of(passed, 0, "dtype")) if name == "astype" else one.dtype
        dtype = "" if name in ("argsort", "cumsum", "cumprod") else dtype
        return run.one(replace(one, dtype=dtype, made=run.at(node) if is_sure else None))
    is_same = name not in ("view", "nonzero", "argpartition", "searchsorted")
    return run.one(replace(one, dtype=one.dtype if is_same else "", made=None))


def _of_container(
    run: Run,
    node: cst.Call,
    one: Sequence | Dictionary,
    name: str,
    passed: Several[Passed],
) -> Value:
    made, at = one.made, run.at(node)
    if name in ("append", "add", "insert", "appendleft", "put"):
        value = first_of(passed, 1 if name == "insert" else 0)
        if made is not None:
            run.give(run.evaluation.elements(made), at, value)
        return run.one(Nothing())
    held = run.evaluation.put_into(run, made)
    element = run.sets.all([*parts_of(one), held])
    if name in ("extend", "update"):
        if made is not None:
            _put_all(run, made, at, passed)
        return run.one(Nothing())
    if name in ("pop", "popleft", "popitem"):
        return element or run.sets.unknown
    if name == "copy":
        return run.one(one)
    if isinstance(one, Dictionary):
        return _of_dictionary(run, one, name, passed, element)
    return run.one(Number()) if name in ("index", "count") else run.one(Nothing())


def _put_all(run: Run, made: At, at: At, passed: Several[Passed]) -> None:
    """``xs.extend(ys)``, ``entries.update(others, a=1)``."""
    entries = {arg.keyword: arg.value for arg in passed if arg.keyword}
    others = NEVER
    for one in (one for arg in passed if not arg.keyword for one in arg.value):
        if isinstance(one, Dictionary):
            entries.update(one.entries)
        else:
            is_known = isinstance(one, (Sequence, Iterator))
            held = run.sets.all(parts_of(one)) if is_known else run.sets.unknown
            others = run.sets.union(others, held)
    for key, value in ("", others), *entries.items():
        run.give(run.evaluation.elements(made, key), at, value)


def _of_dictionary(
    run: Run, one: Dictionary, name: str, passed: Several[Passed], element: Value
) -> Value:
    text = run.one(Text())
    if name == "items":
        pair = run.sets.nested(Sequence("tuple", (text, element or run.sets.unknown), NEVER, None))
        return run.sets.nested(Iterator(pair))
    if name == "values":
        return run.sets.nested(Iterator(element or run.sets.unknown))
    if name == "keys":
        return run.sets.nested(Iterator(text))
    if name in ("get", "setdefault"):
        match first_of(passed, 0):
            case (Text(value=str(key)),):
                found = entry_of(run, one, key)
                if key in dict(one.entries):
                    return found
                return run.sets.union(found, first_of(passed, 1) or run.one(Nothing()))
        return run.sets.union(element, first_of(passed, 1) or run.one(Nothing()))
    return run.sets.unknown


def _of_module(
    run: Run, node: cst.Call, one: Instance | Guess | Object, name: str, passed: Several[Passed]
) -> Value:
    if name in MODULE_SELF:
        if name in ("to", "cuda", "cpu") and not isinstance(one, Guess):
            run.evaluation.place(run, node, one, _placed(name, passed))
        return run.one(one)
    if name == "register_buffer" and isinstance(one, Instance):
        _registered(run, node, one, passed)
        return run.one(Nothing())
    call = getattr(one, "call", None)
    models = (call,) if call is not None else ()
    if name in OF_PARAMETERS:
        return run.one(Parameters(models))
    if name in NAMED:
        return named_tensors(run)
    if name in OF_MODULES:
        held = NEVER
        if name == "children" and isinstance(one, Object) and one.kind in CONTAINERS:
            held = run.evaluation.put_into(run, one.call)
        return run.sets.nested(Iterator(held or run.sets.unknown))
    return run.sets.unknown


def _registered(run: Run, node: cst.Call, one: Instance, passed: Several[Passed]) -> None:
    """``self.register_buffer("mask", t)``: an attribute that is moved together with the model."""
    value = run.sets.of(
        moved(each, Device.UNKNOWN) if isinstance(each, Tensor) else each
        for each in first_of(passed, 1, "tensor")
    )
    for each in first_of(passed, 0, "name"):
        if isinstance(each, Text) and each.value is not None:
            run.give(run.evaluation.attribute(one.cls, each.value), run.at(node), value)


def named_tensors(run: Run) -> Value:
    """Return what ``named_parameters()`` gives."""
    pair = run.one(Text()), run.one(Tensor())
    return run.sets.nested(Iterator(run.sets.nested(Sequence("tuple", pair, NEVER, None))))


def _placed(name: str, passed: Several[Passed]) -> Device:
    """Return where a model is moved to."""
    if name != "to":
        return Device.CUDA if name == "cuda" else Device.HOST
    return device_of(first_of(passed, 0, "device"))


def _of_object(run: Run, node: cst.Call, one: Object, name: str, passed: Several[Passed]) -> Value:
    kind = kind_of(one.kind)
    if one.kind in CONTAINERS and name in ("append", "extend", "insert", "add_module"):
        value = first_of(passed, 1 if name in ("insert", "add_module") else 0)
        held = element_of(run, value) if name == "extend" else value
        if one.call is not None:
            run.give(run.evaluation.elements(one.call), run.at(node), held)
        return run.one(one)
    if kind in ("module", "criterion"):
        return _of_module(run, node, one, name, passed)
    if one.kind in PREPARES and name in ("prepare", "setup"):
        values = tuple(arg.value or run.sets.unknown for arg in passed)
        for each in (each for value in values for each in value):
            if isinstance(each, (Instance, Object)):
                run.evaluation.place(run, node, each, Device.CUDA)
        if len(values) == 1:
            return values[0]
        return run.sets.nested(Sequence("tuple", values, NEVER, None))
    if one.kind == PARSER:
        if name == "add_argument":
            return add_option(run, node, one, passed)
        if name in ("parse_args", "parse_known_args"):
            return parsed(run, one, name)
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return run.one(one)
    if one.kind == numpy_calls.GENERATOR:
        return numpy_calls.call(run, node, f"numpy.random.{name}", passed)
    if kind == "optimizer" and name == "step":
        for each in first_of(passed, 0, "closure"):
            if isinstance(each, Function):
                run.evaluation.call_function(run, node, each, ())
    if kind == "scaler" and name == "scale":
        return first_of(passed, 0, "outputs") or run.sets.unknown
    return run.sets.unknown


def _of_text(run: Run, name: str) -> Value:
    if name in ("split", "splitlines", "rsplit"):
        return run.one(Sequence("list", None, run.one(Text()), None))
    if name.startswith(("is", "starts", "ends")):
        return run.one(Truth())
    if name in ("find", "index", "count"):
        return run.one(Number())
    return run.one(Text())
