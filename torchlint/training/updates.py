"""Optimizers by the calls that make them: as what, for which models, and whether any steps them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.tables.torch_classes import SCALERS, kind_of
from torchlint.semantics.values import (
    Class,
    Device,
    Function,
    Library,
    Method,
    Nothing,
    Object,
    Truth,
    Unknown,
)
from torchlint.syntax.chains import dotted
from torchlint.training.copies import DeviceCopy, moves_of
from torchlint.training.effects import unit_around
from torchlint.training.gpu_work import works_on_gpu
from torchlint.training.optimizers import made, models_of
from torchlint.training.scaling import is_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.values import At, Value
    from torchlint.training.models import Use
    from torchlint.training.script import Script

# Parameters by place, behind which all are passed by keyword.
PLACES = {
    "torch.optim.SGD": ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "*"),
    "torch.optim.Adagrad": (
        "params", "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "foreach",
    ),
}  # fmt: skip
OTHERS = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad", "*")
# Packages of devices of other makers.
ACCELERATORS = frozenset({"torch_xla", "torch_npu", "torch_directml", "torch_mlu", "torch_musa",
                          "habana_frameworks", "intel_extension_for_pytorch"})  # fmt: skip
KEEP = frozenset({"load_state_dict", "state_dict", "param_groups", "zero_grad", "state", "defaults",
                  "add_param_group", "eval", "train"})  # fmt: skip


@dataclass(eq=False)
class Optimizer:
    """A call that makes an optimizer, ``kinds`` being the classes that it may call."""

    script: Script
    node: cst.Call
    at: At
    kinds: tuple[str, ...]

    @cached_property
    def given(self) -> tuple[dict[str, Argument], bool]:
        """What it is told, and whether that is all."""
        names = PLACES.get(self.kinds[0], OTHERS)
        return given_to(self.script.connected.evaluation, self.node, names)

    def is_on(self, name: str) -> bool:
        """Whether a switch is certainly on."""
        given = self.given[0].get(name)
        return given is not None and given.always and given.value == (Truth(True),)

    def is_off(self, name: str) -> bool:
        """Whether a switch is certainly off."""
        given = self.given[0].get(name)
        return given is not None and given.value == (Truth(False),)

    def is_open(self, name: str) -> bool:
        """Whether nobody decides about a switch, or it is off."""
        given = self.given[0].get(name)
        is_none = given is None or all(isinstance(one, Nothing) for one in given.value)
        return is_none or self.is_off(name)

    # -- where -------------------------------------------------------------------------------

    @cached_property
    def models(self) -> frozenset[At]:
        """The models that it is for, as far as they are seen."""
        objects = self.script.value(self.node)
        return models_of(self.script.connected.evaluation, objects) or frozenset()

    @cached_property
    def moves(self) -> tuple[DeviceCopy, ...]:
        """Where its models are moved, in the order of files and text."""
        return moves_of(self.script.connected.uses, self.models)

    @cached_property
    def on_gpu(self) -> bool | None:
        """Whether it updates parameters on a GPU; None where it may."""
        targets = frozenset[Device]().union(*(one.targets for one in self.moves))
        if targets == {Device.CUDA}:
            return True
        evaluation = self.script.connected.evaluation
        makings = map(evaluation.node, self.models)
        if any(isinstance(one, cst.Call) and works_on_gpu(evaluation, one) for one in makings):
            return True
        stays = bool(self.models) and not self.script.connected.uses_gpu and not targets
        return False if stays or targets == {Device.HOST} else None

    def is_behind(self, move: DeviceCopy) -> bool | None:
        """Whether it is made after a move; None where the order is not seen."""
        evaluation = self.script.connected.evaluation
        own = unit_around(evaluation, self.node, self.at.file)
        unit = unit_around(evaluation, move.node, move.file)
        order = unit.module.index.order
        if unit is own:
            return order(move.node) < order(self.node)
        calls = [call for caller, call in own.callers.values() if caller is unit]
        if calls:
            is_around = any(unit.module.index.inside(call, move.node) for call in calls)
            return not is_around and all(order(move.node) < order(call) for call in calls)
        makings = [(evaluation.node(one), one.file) for one in self.models]
        return all(unit_around(evaluation, *one) is unit for one in makings) or None

    # -- what becomes of it ------------------------------------------------------------------

    @cached_property
    def _uses(self) -> list[Use]:
        return self.script.connected.uses.of(self.at)

    @cached_property
    def steps(self) -> tuple[tuple[cst.Call, cst.BaseExpression | None, int], ...]:
        """The calls that let it step, each with the scaler that does so, if any."""
        found: list[tuple[cst.Call, cst.BaseExpression | None, int]] = []
        for use in self._uses:
            module = self.script.connected.uses.module(use.file)
            above = module.parent(use.parent)
            match use.parent, above:
                case cst.Attribute(attr=cst.Name(value="step")), cst.Call(func=func):
                    if func is use.parent:
                        found.append((above, None, use.file))
                case cst.Arg(), cst.Call(func=cst.Attribute(value=by, attr=cst.Name(value="step"))):
                    found.append((above, by, use.file))
        return tuple(found)

    @cached_property
    def may_step(self) -> bool:
        """Whether anything may let it step, be it code that is not seen.

        Nothing does where it is only cleared, loaded or saved.
        """
        taken = any(self._leaves(use) for use in self._uses)
        return bool(self.steps) or taken or not any(self.script.connected.uses.methods(self.at))

    @cached_property
    def is_wrapped(self) -> bool:
        """Whether code that is not seen gets it, and nothing else steps it."""
        return not self.steps and any(
            self._is_taken(use) for use in self._uses if isinstance(use.parent, cst.Arg)
        )

    @cached_property
    def is_compiled(self) -> bool:
        """``torch.compile(optimizer.step)``."""
        uses = self.script.connected.uses
        for use in self._uses:
            module = uses.module(use.file)
            above = module.parent(use.parent)
            call = module.parent(above) if isinstance(above, cst.Arg) else None
            if isinstance(use.parent, cst.Attribute) and isinstance(call, cst.Call):
                names = [one.name for one in uses.value(call.func) if isinstance(one, Library)]
                if names == ["torch.compile"]:
                    return True
        return False

    def loads(self) -> Iterator[tuple[cst.Call, int]]:
        """Yield where a state is loaded into it."""
        for call in self.script.connected.uses.methods(self.at):
            if call.name == "load_state_dict" and call.node.args:
                yield call.node, call.file

    def _leaves(self, use: Use) -> bool:
        uses = self.script.connected.uses
        match use.parent:
            case cst.Attribute(attr=cst.Name(value=name)):
                return name not in KEEP
            case cst.Arg():
                return self._is_taken(use)
            case cst.Assign(targets=targets):
                stored = [one.target for one in targets if isinstance(one.target, cst.Attribute)]
                owners = [uses.value(one.value) for one in stored]
                return any(Unknown() in owner or not owner for owner in owners)
        module = uses.module(use.file)
        for above in module.index.ancestors(use.node):
            if isinstance(above, cst.Return):
                return not unit_around(uses.evaluation, above, use.file).callers
            if isinstance(above, cst.BaseSmallStatement):
                break
        return isinstance(use.parent, (cst.Yield, cst.Lambda))

    def _is_taken(self, use: Use) -> bool:
        """Whether an argument goes to what is not seen, and is no scheduler or function of Python.

        What is seen uses it where its parameter is used.
        """
        uses = self.script.connected.uses
        call = uses.module(use.file).parent(use.parent)
        value = uses.value(call.func) if isinstance(call, cst.Call) else ()
        if use.node is getattr(call, "func", None):
            return False
        return not value or any(
            isinstance(one, (Unknown, Method, Object))
            or (isinstance(one, Library) and not _only_reads(one.name))
            for one in value
            if not isinstance(one, (Function, Class))
        )


def _only_reads(name: str) -> bool:
    return name.startswith("builtins.") or kind_of(name) == "scheduler"


def optimizers(script: Script) -> Iterator[Optimizer]:
    """Yield the optimizers that a file makes."""
    evaluation = script.connected.evaluation
    for call in script.module.index.of(cst.Call):
        at = evaluation.at(call, script.file)
        made = [one for one in script.value(call) if isinstance(one, Object) and one.call == at]
        kinds = tuple(one.kind for one in made if kind_of(one.kind) == "optimizer")
        if kinds:
            yield Optimizer(script, call, at, kinds)


def may_scale(script: Script) -> bool:
    """Whether connected files make a gradient scaler."""
    makings = script.connected.evaluation.makings.values()
    return any(name in SCALERS for _, _, name in makings)


def is_enabled(script: Script, scaler: Value) -> bool | None:
    """Whether a scaler scales: certainly (True), certainly not (False), or perhaps (None)."""
    evaluation = script.connected.evaluation
    if is_off(evaluation, scaler):
        return False
    for one in scaler:
        given = made(evaluation, one) if isinstance(one, Object) else None
        enabled = given.get("enabled") if given is not None else None
        if given is None or (enabled is not None and enabled.value != (Truth(True),)):
            return None
    return True


def may_be_refused(script: Script) -> bool:
    """Whether fused kernels may refuse parameters: sparse gradients, complex numbers, devices."""
    evaluation = script.connected.evaluation
    for module in script.connected.files.modules:
        if any(f"complex{bits}" in module.index.named for bits in (64, 128)):
            return True
        for alias in module.index.of(cst.ImportAlias):
            above = module.parent(alias)
            home = above.module if isinstance(above, cst.ImportFrom) else alias.name
            if home is not None and dotted(home).partition(".")[0] in ACCELERATORS:
                return True
    return any(
        not _is_certainly_off(given_to(evaluation, call, ())[0].get("sparse"))
        for _, call, name in evaluation.makings.values()
        if name in ("torch.nn.Embedding", "torch.nn.EmbeddingBag")
    )


def _is_certainly_off(given: Argument | None) -> bool:
    return given is None or given.value == (Truth(False),)
