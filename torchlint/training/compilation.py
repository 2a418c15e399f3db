"""Compilation: whether models are compiled, and whether and where they could be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import LAYERS
from torchlint.semantics.values import (
    Device,
    Function,
    Instance,
    Library,
    Method,
    Number,
    Object,
    Truth,
)
from torchlint.syntax.calls import keywords
from torchlint.training.copies import moves_of
from torchlint.training.gpu_condition import condition_for_gpu, name_of_torch
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.copies import DeviceCopy
    from torchlint.training.frequency import Frequencies
    from torchlint.training.models import Uses
    from torchlint.training.parts import Parts
    from torchlint.training.step_models import StepModel

COMPILERS = tuple(
    """torch.compile torch.jit.script torch.jit.trace torch._dynamo.optimize torch.cuda.graph
    torch.cuda.make_graphed_callables torch_tensorrt. torch_xla. thunder.jit""".split()
)
# What breaks a graph in two, or has kernels of its own; what a compiler follows.
_BREAKS = """nn.LSTM nn.GRU nn.RNN sparse nn.utils. quantization ao. Tensor.item Tensor.tolist
    Tensor.numpy Tensor.nonzero"""
BREAKS = tuple(f"torch.{name}" for name in _BREAKS.split())
FOLLOWED = ("torch.", "torchvision.", "timm.", "builtins.")


@dataclass(eq=False)
class Compilation:
    """What is compiled in connected files, and what could be."""

    evaluation: Evaluation
    frequencies: Frequencies
    uses: Uses
    parts: Parts

    @cached_property
    def _compiled(self) -> list[tuple[cst.CSTNode, int, At | None]]:
        """What compiles something: the call or decorator, its file, and the model, if it is one."""
        found: list[tuple[cst.CSTNode, int, At | None]] = []
        for call, file in self.evaluation.files.of(cst.Call):
            if any(map(_is_compiler, self.uses.value(call.func))):
                given = self.uses.value(call.args[0].value) if call.args else ()
                found += [(call, file, made_by(one)) for one in given] or [(call, file, None)]
            found += [(call, file, one) for one in self._compiled_in_place(call)]
        for decorator, file in self.evaluation.files.of(cst.Decorator):
            if any(map(_is_compiler, self.uses.value(decorator.decorator))):
                found.append((decorator, file, None))
        return found

    def _compiled_in_place(self, call: cst.Call) -> Iterator[At | None]:
        """``model.compile()``, unless it is a method of the project's."""
        value, kind = self.uses.value, self.frequencies.effects.kind
        match call.func:
            case cst.Attribute(attr=cst.Name(value="compile"), value=owner) as func:
                if not any(isinstance(one, (Function, Library)) for one in value(func)):
                    models = (one for one in value(owner) if kind(one) in ("module", "model"))
                    yield from map(made_by, models)

    @property
    def compiles_anything(self) -> bool:
        """Whether anything is compiled."""
        return bool(self._compiled)

    def compiles(self, model: StepModel) -> bool | None:
        """Whether a model, or anything but another model, is compiled; None by an option only."""
        around = self._around(model)
        near = self.evaluation.files.together(model.run.file) if self._compiled else ()
        guards = [
            self.frequencies.of(node, file).guard
            for node, file, made in self._compiled
            if file in near and (made is None or made in around or model.made is None)
        ]
        return None if guards and all(guards) else bool(guards)

    def is_refused(self, model: StepModel) -> bool:
        """Whether there is one layer only, or a compiler fails, as at second derivatives.

        It gives up where a forward pass counts its calls.
        """
        layers = [one.kind for one in model.value if isinstance(one, Object) and one.kind in LAYERS]
        is_small = len(layers) == len(model.value) and "Transformer" not in "".join(layers)
        makings = self.evaluation.makings
        around = [makings[at][2] for at in self._around(model) if at in makings]
        if is_small or "torch.nn.DataParallel" in around:
            return True
        return any(
            self.uses.value(given) != (Truth(value=False),)
            for file, scope in model.step.scopes
            for call in self.uses.module(file).index.below(scope, cst.Call)
            for word, given in keywords(call).items()
            if word == "create_graph"
        ) or any(
            isinstance(one, Number)
            for cls in self.parts.classes(model.value)
            if (forward := self.evaluation.classes.method(cls.at, "forward")) is not None
            for grown in forward[0].module.index.below(forward[1], cst.AugAssign)
            if isinstance(grown.target, cst.Attribute)
            for one in self.uses.value(grown.target)
        )

    def is_whole(self, model: StepModel) -> bool:
        """Whether a compiler is seen to make one graph of a model that is compiled in place."""
        return all(map(self._has_forward, model.value)) and all(
            one.name.startswith(FOLLOWED) and not one.name.startswith(BREAKS)
            for one in self.parts.of(model.value)
        )

    def _has_forward(self, one: Alternative) -> bool:
        """Whether a model has a forward pass of its own: torch's are passed over."""
        classes = self.evaluation.classes
        if isinstance(one, Object):
            return one.kind.startswith(("torchvision.", "timm."))
        return (
            isinstance(one, Instance)
            and classes.method(one.cls, "forward") is not None
            and classes.method(one.cls, "compile") is None
            and not classes.is_open(one.cls)
        )

    def moves(self, model: StepModel) -> list[DeviceCopy]:
        """Return what moves a model to where it may be trained on a GPU."""
        moves = moves_of(self.uses, [model.made] if model.made is not None else [])
        return [one for one in moves if one.targets != {Device.HOST}]

    def place(self, model: StepModel) -> tuple[cst.BaseStatement, str, str] | None:
        """Return behind what a model can be compiled in place, by which code, on which condition.

        That is the line that makes it and gives it a name; the condition, that a GPU is used, is
        "" where it is so for certain.
        """
        statement, moves = self.uses.module(model.file).statement(model.node), self.moves(model)
        match statement:
            case cst.SimpleStatementLine(
                [cst.Assign([cst.AssignTarget(cst.Name(name))], made)]
            ) if moves and model.made is not None:
                condition = condition_for_gpu(self.evaluation, model.made, moves)
                is_it = {made_by(one) for one in self.uses.value(made)} == {model.made}
                asks_torch = condition is not None and condition.startswith("torch.")
                is_bound = not asks_torch or name_of_torch(self.evaluation, model.made)
                if condition is not None and is_bound and is_it:
                    asks = condition.replace(".accelerator.", ".cuda.")
                    return statement, f"{name}.compile()", "" if asks == "True" else asks
        return None

    def _around(self, model: StepModel) -> list[At]:
        return self.uses.around(model.made) if model.made is not None else []


def _is_compiler(one: Alternative) -> bool:
    match one:
        case Library(name=name) | Object(kind=name) | Method(owner=Library(name=name)):
            return name.startswith(COMPILERS)
    return False
