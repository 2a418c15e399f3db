"""What something seems to be that nothing shows: by annotation, by use, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.names import is_of_library
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import (
    NEVER,
    Array,
    Class,
    Device,
    Guess,
    Instance,
    Library,
    Number,
    Object,
    Place,
    Sequence,
    Tensor,
    Text,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value
    from torchlint.syntax.scopes import Scope

_PLAIN: dict[str, Alternative] = {
    "builtins.int": Number(), "builtins.float": Number(), "builtins.bool": Truth(),
    "builtins.str": Text(), "torch.device": Place(Device.UNKNOWN),
    "numpy.ndarray": Array(), "numpy.typing.NDArray": Array(),
    "torch.Tensor": Tensor(), "torch.FloatTensor": Tensor(), "torch.LongTensor": Tensor(),
}  # fmt: skip
_LISTS = frozenset("""builtins.list typing.List typing.Sequence collections.abc.Sequence""".split())
_KIND = {"module": "model"}
# What shows a thing to be of a kind: methods of which all are called on it.
USES = (
    ({"zero_grad", "step"}, "optimizer"),
    ({"parameters", "train"}, "model"),
    ({"parameters", "eval"}, "model"),
    ({"load_state_dict", "eval"}, "model"),
    ({"train", "eval"}, "model"),
    ({"unscale_", "update"}, "scaler"),
    ({"scale", "update"}, "scaler"),
)


def guessed(run: Run, param: cst.Param) -> Value:
    """Return what a parameter seems to be."""
    if param.annotation is not None and (found := _annotated(run, param.annotation.annotation)):
        return found
    name = param.name.value
    return _seeming(run, run.unit.scope, name, name) or run.sets.unknown


def guessed_name(run: Run, target: cst.Name, value: Value) -> Value:
    """Return what a name may be, by its use as well, that gets a value of which nothing is known.

    It gets no other one.  A scaler that something unknown makes may do by itself what PyTorch's
    has to be asked for.
    """
    match value:
        case (Unknown(),):
            pass
        case (Object(kind=name),) if not is_of_library(name):
            pass
        case _:
            return value
    binding = run.index.bound(target)
    if binding is None or len(binding.scope.bindings[binding.name]) > 1:
        return value
    found = _used(run, binding.scope, binding.name)
    is_own = any(isinstance(one, Guess) and one.what == "scaler" for one in found)
    return value if is_own else run.sets.union(found, value)


def _seeming(run: Run, scope: Scope, name: str, word: str) -> Value:
    """Return what a name of a scope seems to be by its use, or by a word that it is known by."""
    if found := _used(run, scope, name):
        return found
    match run.evaluation.convention(word):
        case "tensor":
            return run.one(Tensor(sure=False))
        case "device":
            return run.one(Place(Device.UNKNOWN))
        case what:
            return run.one(Guess(what)) if what else NEVER


def _used(run: Run, scope: Scope, name: str) -> Value:
    used = run.evaluation.files.methods_called(run.unit.at.file, scope, name)
    if "backward" in used:
        return run.one(Tensor())
    for needed, what in USES:
        if needed <= used:
            return run.one(Guess(what, is_used=True))
    return NEVER


def _annotated(run: Run, node: cst.BaseExpression) -> Value:
    whole = run.value(node)
    inner: Value = ()
    if isinstance(node, cst.Subscript):  # ``list[np.ndarray]``
        whole = run.value(node.value)
        if isinstance(index := node.slice[0].slice, cst.Index):
            inner = _annotated(run, index.value)
    found: list[Alternative] = []
    for one in whole:
        match one:
            case Library(name=name) if name in _PLAIN:
                found.append(_PLAIN[name])
            case Library(name=name) if kind := kind_of(name):
                found.append(Guess(_KIND.get(kind, kind)))
            case Library(name=name) if name in _LISTS and inner:
                found += run.sets.nested(Sequence("list", None, inner, None))
            case Class(at=at):
                found.append(Instance(at, None))
    return run.sets.of(found) if found else ()
