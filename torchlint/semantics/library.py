"""Calls of functions and classes of libraries: torch, NumPy, Python's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.semantics import builtin_calls, numpy_calls
from torchlint.semantics.arguments import first_of
from torchlint.semantics.callbacks import CALLERS, PARTIAL, called_back, of_partial, partial
from torchlint.semantics.loaders import COLLATES, put_together
from torchlint.semantics.models import of_model
from torchlint.semantics.names import is_of_library
from torchlint.semantics.operations import element_of
from torchlint.semantics.options import PARSER, new_parser
from torchlint.semantics.run import GRAD
from torchlint.semantics.sets import flat, is_known
from torchlint.semantics.tables import tensors as tables
from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS, kind_of
from torchlint.semantics.tensors import device_of, mixed, places_of, together
from torchlint.semantics.values import (
    NEVER,
    RANK,
    Array,
    Device,
    Iterator,
    Nothing,
    Number,
    Object,
    Parameters,
    Place,
    Sequence,
    Tensor,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value

# What goes through what it is given, and gives that on.
PASSES_ON = tables.names(
    """tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.std.tqdm tqdm.tqdm_notebook
    rich.progress.track itertools.islice itertools.cycle prefetch_generator.BackgroundGenerator"""
)
PREPARES = "apex.amp.initialize"  # hands back a model and its optimizer
NORMS = tables.names("clip_grad_norm_ get_total_norm", "torch.nn.utils.")
HAND_BACK = tables.names(
    """copy.copy copy.deepcopy torch.compile torch.jit.script torch.jit.trace typing.cast
    torch.autograd.Variable torch.nn.SyncBatchNorm.convert_sync_batchnorm
    torch.nn.utils.weight_norm torch.nn.utils.spectral_norm
    torch.nn.utils.parametrizations.weight_norm torch.nn.utils.parametrizations.spectral_norm"""
)


def call(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what calling something of a library gives, by its name."""
    package = name.partition(".")[0]
    if package in ("builtins", "collections"):
        return builtin_calls.call(run, node, name.partition(".")[2], passed)
    if package == "numpy":
        return numpy_calls.call(run, node, name, passed)
    if name in HAND_BACK:
        return _handed_back(run, node, name, passed)
    may_pass_on = name in PASSES_ON or not is_of_library(name)  # progress bars that nobody knows
    if may_pass_on and passed and not passed[0].keyword:
        value = passed[0].value
        if (loader := run.evaluation.loader_of(value)) or name in PASSES_ON:
            return run.sets.nested(Iterator(element_of(run, value), loader))
    if name == PREPARES:
        values = tuple(first_of(passed, place) or run.sets.unknown for place in range(2))
        return run.sets.nested(Sequence("tuple", values, NEVER, None))
    if name in CALLERS:
        return called_back(run, node, name, passed)
    if name == PARTIAL:
        return partial(run, node, passed)
    if name == PARSER:
        return new_parser(run, node, passed)
    if kind_of(name) or name in CONTAINERS:
        return _made(run, node, name, passed)
    if package == "torch":
        return _torch(run, node, name, passed)
    return run.one(Object(name, run.at(node)))


def _torch(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """``torch.zeros(...)``, ``torch.device(...)``, ``F.relu(x)``."""
    short = name.rpartition(".")[2]
    if name == "torch.device":
        return run.sets.of(Place(one) for one in places_of(first_of(passed, 0, "device")))
    if name == "torch.utils.data.random_split":
        part = run.one(Object("torch.utils.data.Subset", run.at(node)))
        return run.sets.nested(Sequence("list", None, part, None))
    if name in COLLATES:
        return put_together(run, first_of(passed, 0, "batch"))
    if name == "torch.set_grad_enabled":
        value = first_of(passed, 0, "mode")
        run.evaluation.enabled[run.at(node)] = value
        run.env[GRAD] = value, ()
        return run.one(Object(name, run.at(node)))
    if name == "torch.accelerator.current_accelerator":
        return run.sets.of([Place(Device.CUDA), Place(Device.OTHER)])
    if name == "torch.cuda.device_count":
        return run.one(Number())
    if name == "torch.distributed.get_rank":
        return run.one(Object(RANK, None))
    if name == "torch.nn.Parameter":
        return run.sets.each(
            first_of(passed, 0) or run.one(Tensor()),
            lambda one: run.one(
                replace(one, made=None, dtype="float") if isinstance(one, Tensor) else Tensor()
            ),
        )
    if name in tables.FACTORIES or (name.startswith("torch.cuda.") and short.endswith("Tensor")):
        return _factory(run, node, name, passed)
    if name in tables.LIKE:
        return _like(run, node, passed)
    if short.startswith("is_") and short != "is_nonzero":
        return run.one(Truth())
    if name in NORMS:
        return run.one(_norm(run, passed))
    if name in tables.NO_TENSOR or short.startswith(("get_", "set_")):
        return run.one(Object(name, run.at(node)))
    if name.startswith(
        ("torch.nn.functional.", "torch.fft.", "torch.linalg.", "torch.special.")
    ) or (name.count(".") == 1 and short[:1].islower()):
        return of_operation(run, short, passed)
    return run.one(Object(name, run.at(node)))


def _norm(run: Run, passed: Several[Passed]) -> Tensor:
    """Return the norm of gradients: it lives where their model does."""
    models = [
        call
        for one in first_of(passed, 0, "parameters")
        if isinstance(one, Parameters)
        for call in one.models
    ]
    places = {run.evaluation.placed(run, Object("", call)) for call in models}
    device = places.pop() if len(places) == 1 else Device.UNKNOWN
    return Tensor(device, dtype="float", sure=device is not Device.UNKNOWN)


def _factory(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """What makes a tensor: on the device that it is told, else on the host."""
    device = first_of(passed, 99, "device")
    where = device_of(device) if device and device != run.one(Nothing()) else Device.HOST
    if name.startswith("torch.cuda."):
        where = Device.CUDA
    source = first_of(passed, 0, "data")
    tensor = Tensor(where, made=run.at(node), dtype=_dtype(name, passed))
    for one in source:
        if isinstance(one, Array):
            tensor = replace(tensor, batch=one.batch)
        elif isinstance(one, Tensor) and name in ("torch.as_tensor", "torch.tensor"):
            where = one.device if not device else where
            tensor = replace(tensor, device=where, batch=one.batch)
    return run.one(tensor)


def _dtype(name: str, passed: Several[Passed]) -> str:
    match first_of(passed, 99, "dtype"):
        case (one,):
            word = getattr(one, "name", "")
            if "bool" in word:
                return "bool"
            if "int" in word or "long" in word:
                return "int"
            return "float" if "float" in word or "half" in word else ""
    if name.endswith(("randint", "arange", "randperm", "LongTensor", "IntTensor", "indices")):
        return "int"
    return "bool" if name.endswith("BoolTensor") else ""


def _like(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    found = [one for one in first_of(passed, 0, "input") if isinstance(one, Tensor)]
    device = first_of(passed, 99, "device")
    where = device_of(device) if device else together(found)
    return run.one(Tensor(where, made=run.at(node), sure=bool(found)))


def of_operation(run: Run, short: str, passed: Several[Passed]) -> Value:
    """Return what an operation on tensors gives."""
    values = [arg.value for arg in passed]
    held = [one for value in values for one in value if isinstance(one, Sequence)]
    values += [run.evaluation.put_into(run, one.made) for one in held]
    given = [one for value in values for one in flat(value) if isinstance(one, Tensor)]
    tensor = mixed(*given) if given else Tensor(sure=False)
    return results(run, short, tensor, given, has_dim=len(passed) > 1)


def results(
    run: Run, short: str, tensor: Tensor, given: Several[Tensor], *, has_dim: bool
) -> Value:
    """Return a tensor, or as many as an operation of this name gives, with the type that it has."""
    if short in tables.MASKS:
        tensor = replace(tensor, dtype="bool", graph=())
    elif short in tables.INDICES or (
        short in tables.SUMS and any(one.dtype in ("bool", "int") for one in given)
    ):
        tensor = replace(tensor, dtype="int", graph=())
    elif short in tables.DETACHED:
        tensor = replace(tensor, graph=())
    elif short in ("float", "half", "double", "bfloat16"):
        tensor = replace(tensor, dtype="float")
    if short in ("topk", "sort") or (short in tables.PAIR_WITH_DIM and has_dim):
        pair = run.one(tensor), run.one(replace(tensor, dtype="int", graph=()))
        return run.sets.nested(Sequence("tuple", pair, NEVER, None))
    if short in tables.SEVERAL:
        return run.sets.nested(Sequence("tuple", None, run.one(tensor), None))
    return run.one(tensor)


def _made(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """An instance of a class of a library that rules know."""
    at = run.at(node)
    held = first_of(passed, 0, "module") if name in WRAPPERS else NEVER
    run.evaluation.made(run, node, name, held)
    if name in CONTAINERS:
        for arg in passed:
            held = element_of(run, arg.value) if name != "torch.nn.Sequential" else arg.value
            run.give(run.evaluation.elements(at), run.at(arg.node), held)
    return run.one(Object(name, at))


def _handed_back(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """``copy.deepcopy(model)``, ``torch.compile(model)``: what it is given, or one like it."""
    value = first_of(passed, 1 if name == "typing.cast" else 0)
    if name in WRAPPERS:
        run.evaluation.made(run, node, name, value)
    return value or run.sets.unknown


def called_object(run: Run, node: cst.Call, one: Object, passed: Several[Passed]) -> Value:
    """Return what calling an object of a library gives: a layer, a loss."""
    kind = kind_of(one.kind)
    if one.kind == PARTIAL:
        return of_partial(run, node, one, passed)
    if one.kind in WRAPPERS:
        inner = run.evaluation.inside(one)
        value = run.sets.all(run.evaluation.apply(run, node, each, passed) for each in inner)
        if is_known(value):
            return value
        known = run.sets.of(each for each in value if not isinstance(each, Unknown))
        return known or of_model(run, node, one, passed, NEVER)
    if kind == "module":
        return of_model(run, node, one, passed, NEVER)
    if kind == "criterion":
        given = [each for arg in passed for each in arg.value if isinstance(each, Tensor)]
        return run.one(mixed(*given) if given else Tensor(sure=False))
    return run.sets.unknown
