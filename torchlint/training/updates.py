"""Optimizers by the calls that make them: as what, and for which models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.sets import flat
from torchlint.semantics.tables.torch_classes import SCALERS, kind_of
from torchlint.semantics.values import Device, Nothing, Object, Truth
from torchlint.training.copies import moves_of
from torchlint.training.optimizers import models_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.values import At
    from torchlint.training.script import Script

# Packages of devices of other makers.
ACCELERATORS = frozenset(
    """torch_xla torch_npu torch_directml torch_mlu torch_musa habana_frameworks
    intel_extension_for_pytorch""".split()
)
# Parameters by place, behind which all are passed by keyword.
ADAGRAD = "params lr lr_decay weight_decay initial_accumulator_value eps foreach"
PLACES = {
    "torch.optim.SGD": ("params", "lr", "momentum"),
    "torch.optim.Adagrad": tuple(ADAGRAD.split()),
}


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
        names = PLACES.get(self.kinds[0], ("params", "lr"))
        return given_to(self.script.connected.evaluation, self.node, names)

    def is_told(self, name: str, truth: bool) -> bool:
        """Whether a switch is certainly on, or certainly off."""
        given = self.given[0].get(name)
        return given is not None and given.value == (Truth(truth),) and (given.always or not truth)

    def is_open(self, name: str) -> bool:
        """Whether nobody decides about a switch, or it is off."""
        given = self.given[0].get(name)
        is_none = given is None or all(isinstance(one, Nothing) for one in given.value)
        return is_none or self.is_told(name, False)

    @cached_property
    def is_on_cpu(self) -> bool:
        """Whether it updates parameters on the CPU, as far as is seen."""
        params = self.given[0].get("params")
        held = {getattr(one, "device", None) for one in flat(params.value)} if params else set()
        if held - {None} == {Device.HOST}:
            return True
        connected = self.script.connected
        models = models_of(connected.evaluation, self.script.value(self.node)) or frozenset()
        targets = frozenset[Device]().union(
            *(one.targets for one in moves_of(connected.uses, models))
        )
        return targets == {Device.HOST} or not (targets or not models or connected.uses_gpu)

    def calls(self, method: str) -> Iterator[tuple[cst.Call, int]]:
        """Yield where a method of it is called, each with its file."""
        for call in self.script.connected.uses.methods(self.at):
            if call.name == method:
                yield call.node, call.file


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


def speaks_of(script: Script, name: str) -> bool:
    """Whether connected files speak of something by its name, as a string."""
    return name in script.connected.evaluation.texts
