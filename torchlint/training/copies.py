"""Copies between the host and a device: `.to(device)`, `.cuda()`, `.cpu()`, and whose batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.tensors import places_of
from torchlint.semantics.values import (
    Class,
    Device,
    Instance,
    Library,
    Loaded,
    Method,
    Number,
    Tensor,
    Text,
    Truth,
)
from torchlint.syntax.calls import keyword_of
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Iterator as Several

    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.loaders import Loader
    from torchlint.training.models import Uses

MOVES = frozenset({"to", "cuda", "cpu", "type"})
# Bases of classes whose objects a loader pins part by part.
PARTS = frozenset("builtins.dict builtins.tuple builtins.list typing.NamedTuple".split())


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCopy:
    """A copy of a tensor: ``value`` is what is copied, ``targets`` where it may go.

    ``where`` is the expression that names the device, None where the method does.
    """

    node: cst.Call
    file: int
    tensor: cst.BaseExpression
    value: Value
    targets: frozenset[Device]
    where: cst.BaseExpression | None
    non_blocking: cst.BaseExpression | None
    is_certain: bool  # it goes to a GPU, under no condition in its function

    @property
    def is_upload(self) -> bool:
        """Whether it may copy from the host to a GPU."""
        known = {one.device for one in self.value if isinstance(one, Tensor)}
        is_host = known != {Device.CUDA}
        return is_host and (Device.CUDA in self.targets or self.targets == {Device.UNKNOWN})

    @property
    def target(self) -> Device:
        """Where it goes, as far as that is one device; to a GPU where it may."""
        if Device.CUDA in self.targets:
            return Device.CUDA
        return next(iter(self.targets)) if len(self.targets) == 1 else Device.UNKNOWN

    @property
    def is_seen(self) -> bool:
        """Whether the code names the GPU that it goes to."""
        return Device.CUDA in self.targets

    def loaded(self, loader: At) -> Loaded:
        """Whether what is copied is still memory of a loader's batch."""
        tensors = [one for one in self.value if isinstance(one, Tensor)]
        found = [one.loaded for one in tensors if one.batch == loader]
        best = max(found, default=Loaded.NO)
        return min(best, Loaded.PERHAPS) if Loaded.NO in found else best


def all_copies(evaluation: Evaluation) -> Several[DeviceCopy]:
    """Yield the copies of connected files, in the order of the files and of the walk."""
    for call, file in evaluation.files.of(cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in MOVES:
            continue
        methods = evaluation.value(func)
        if not any(isinstance(one, Method) and isinstance(one.owner, Tensor) for one in methods):
            continue
        found = targets_of(evaluation, call, func.attr.value)
        if found is not None:
            flag, value = _non_blocking(evaluation, call), evaluation.value(func.value)
            is_certain = _is_certain(evaluation, call, file, found[0])
            yield DeviceCopy(call, file, func.value, value, *found, flag, is_certain)


def _is_certain(
    evaluation: Evaluation, call: cst.Call, file: int, targets: frozenset[Device]
) -> bool:
    kinds = (cst.FunctionDef, cst.Lambda, cst.If, cst.IfExp)
    found = (one for one in evaluation.index(file).ancestors(call) if isinstance(one, kinds))
    return targets == {Device.CUDA} and not isinstance(next(found, None), (cst.If, cst.IfExp))


def moves_of(uses: Uses, models: Iterable[At]) -> tuple[DeviceCopy, ...]:
    """Return where models are moved, by what holds them too, in the order of files and text."""
    calls = {
        id(call.node): call
        for model in models
        for one in uses.around(model)
        for call in uses.methods(one)
        if call.name in ("to", "cuda")
    }
    found: list[DeviceCopy] = []
    for call in calls.values():
        targets = targets_of(uses.evaluation, call.node, call.name)
        if targets is not None and isinstance(call.node.func, cst.Attribute):
            model = call.node.func.value
            is_certain = _is_certain(uses.evaluation, call.node, call.file, targets[0])
            found.append(DeviceCopy(call.node, call.file, model, (), *targets, None, is_certain))
    return tuple(sorted(found, key=lambda one: uses.evaluation.at(one.node, one.file)))


def targets_of(
    evaluation: Evaluation, call: cst.Call, name: str
) -> tuple[frozenset[Device], cst.BaseExpression | None] | None:
    """Return where a move goes to, and what says so; None where it only changes the type."""
    if name == "cpu":
        return frozenset({Device.HOST}), None
    if name == "type":
        types = [one for arg in call.args[:1] for one in evaluation.value(arg.value)]
        words = [getattr(one, "name", None) or getattr(one, "value", "") for one in types]
        moves = [str(word).startswith("torch.cuda.") for word in words]
        targets = (Device.CUDA, Device.HOST) if not all(moves) else (Device.CUDA,)
        return (frozenset(targets), None) if any(moves) else None
    given = [arg.value for arg in call.args if arg.keyword is None or keyword_of(arg) == "device"]
    if name == "cuda":
        return frozenset({Device.CUDA}), given[0] if given else None
    for node in given:
        value = evaluation.value(node)
        if value and all(_is_type(one) for one in value):
            continue
        tensors = {one.device for one in value if isinstance(one, Tensor)}
        return frozenset(tensors or places_of(value)), node
    return None


def _is_type(one: Alternative) -> bool:
    return isinstance(one, (Library, Truth)) or (isinstance(one, Text) and one.value == "float32")


def _non_blocking(evaluation: Evaluation, call: cst.Call) -> cst.BaseExpression | None:
    """Return what says whether the host waits: by keyword, by place, or hidden in a star."""
    for place, arg in enumerate(call.args):
        value = evaluation.value(arg.value)
        is_flag = place > 0 and any(isinstance(one, (Truth, Number)) for one in value)
        is_third = place > 1 and arg.keyword is None  # after a device and a type
        if arg.star or is_third or (is_flag and arg.keyword is None):
            return arg.value
        if keyword_of(arg) == "non_blocking":
            return arg.value
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Where the batches of a loader are copied to a GPU, and what they are objects of."""

    evaluation: Evaluation
    loader: Loader
    copies: tuple[DeviceCopy, ...]  # that may go from the host to a GPU

    def may_be_object(self, copy: DeviceCopy) -> bool:
        """Whether what is copied may be no tensor: a batch as a whole, or of a function's own."""
        is_sure = all(isinstance(one, Tensor) and one.sure for one in copy.value)
        return not is_sure and (self._is_item(copy) or not self.loader.lacks("collate_fn"))

    def _is_item(self, copy: DeviceCopy) -> bool:
        bound = self.evaluation.bindings(copy.tensor)
        over = [one.value for one in bound if one.kind is Bind.FOR and not one.path]
        values = (self.evaluation.value(one) for one in over)
        return any(self.evaluation.loader_of(value) == self.loader.at for value in values)

    @property
    def classes(self) -> list[ClassOf]:
        """The classes of the project whose objects batches are, or hold."""
        evaluation = self.evaluation
        found: dict[At, None] = {}
        for one in self.loader.value("collate_fn"):
            at = getattr(one, "at", None)
            if isinstance(one, Instance):
                at = evaluation.method_of(one.cls, "__call__")
            unit = evaluation.units.get(at) if at else None
            for each in flat(unit.returned.value) if unit else (one,):
                if isinstance(each, (Class, Instance)):
                    found[each.at if isinstance(each, Class) else each.cls] = None
        known = map(evaluation.classes.of, found)
        return [one for one in known if one is not None]

    def uploads(self) -> list[tuple[DeviceCopy, Loaded]]:
        """Return the copies of what the loader gave to a GPU, with how sure it still is that."""
        found = ((copy, copy.loaded(self.loader.at)) for copy in self.copies)
        return [(copy, loaded) for copy, loaded in found if loaded is not Loaded.NO]

    def is_pinned(self, cls: ClassOf) -> bool | None:
        """Whether a loader pins objects of a class; None where its bases are not known."""
        classes = self.evaluation.classes
        if classes.method(cls.at, "pin_memory") or PARTS & set(classes.library_bases(cls.at)):
            return True
        return None if classes.is_open(cls.at) else False

    def parts_of(self, cls: ClassOf) -> list[DeviceCopy]:
        """Return the copies of parts of the objects of a class to a GPU."""
        value = self.evaluation.value
        return [
            copy
            for copy in self.copies
            if isinstance(copy.tensor, cst.Attribute)
            and any(getattr(one, "cls", None) == cls.at for one in value(copy.tensor.value))
        ]
