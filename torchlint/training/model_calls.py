"""Runs of models: whether they are recorded, and whether they have parameters that learn."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.run import ASSUMED, GRAD
from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS
from torchlint.semantics.values import (
    Function,
    Instance,
    Library,
    Method,
    Object,
    Parameters,
    Tensor,
    Truth,
    Unknown,
)
from torchlint.syntax.calls import argument_of, last_name
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.effects import Effects

# What layers with parameters are called, by how their names begin.
_LEARNS = tuple(
    """Linear Bilinear Conv Lazy Batch SyncBatch Layer RMS Group Embedding RNN LSTM GRU Transformer
    Multihead PReLU""".split()
)
_MODULES = ("module", "model", "criterion")
_FALSE, _TRUE = (Truth(False),), (Truth(True),)


class Recording(enum.Enum):
    """Whether gradient mode is on around a call."""

    ON = enum.auto()
    ASSUMED = enum.auto()  # nobody is seen to call the function, and it does not say
    SOME = enum.auto()  # some of its callers turn it off, some do not
    UNKNOWN = enum.auto()  # a context or decorator decides that nobody knows
    OFF = enum.auto()


@dataclass(eq=False)
class ModelCalls:
    """What is known of runs of models in connected files."""

    evaluation: Evaluation
    effects: Effects
    _learns: dict[Alternative, bool] = field(default_factory=dict)

    def behind(self, nodes: Iterable[cst.BaseExpression]) -> list[At]:
        """Return the runs of models that tensors come from."""
        found = {
            call
            for node in nodes
            for one in self.evaluation.value(node)
            if isinstance(one, Tensor)
            for call in one.graph
        }
        return sorted(found)

    def recording(self, call: At) -> Recording:
        """Return whether a call is recorded."""
        node = self.evaluation.node(call)
        value = self.evaluation.modes.get(id(node), {}).get(GRAD, ())
        found = {getattr(one, "value", None) for one in value if one != ASSUMED}
        if not value:
            unit = unit_around(self.evaluation, node, call.file)
            return Recording.ON if isinstance(unit.node, cst.Module) else Recording.ASSUMED
        if None in found:
            return Recording.UNKNOWN
        if False in found:
            return Recording.OFF if len(value) == 1 else Recording.SOME
        return Recording.ON if found else Recording.ASSUMED

    def keeps(self, tensor: Tensor) -> bool:
        """Whether autograd would go back from a tensor, through a model with parameters."""
        return any(self.records(call) for call in tensor.graph)

    def records(self, call: At) -> bool:
        """Whether what a call runs has parameters that gradients are recorded for, or may have."""
        func = getattr(self.evaluation.node(call), "func", None)
        value = self.evaluation.value(func)
        is_held = not self._held.isdisjoint(self._attributes(func))
        return not is_held and (not value or any(self.learns(one) for one in value))

    def learns(self, one: Alternative) -> bool:
        """Whether a model has parameters that gradients are recorded for, or may have."""
        if one not in self._learns:
            self._learns[one] = True  # what holds itself
            self._learns[one] = self._has_parameters(one)
        return self._learns[one]

    def _has_parameters(self, one: Alternative) -> bool:
        match one:
            case Function(owner=Instance() as owner) | Method(owner=owner):
                return self.learns(owner)
            case Object(call=call) | Instance(call=call) if call in self.frozen:
                return False
            case Object(kind=kind, call=call) if kind in CONTAINERS or kind in WRAPPERS:
                held: Value = self.evaluation.inside(one)
                if kind in CONTAINERS and call:
                    held = self.evaluation.elements(call).value
                return not held or any(map(self.learns, held))
            case Object(kind=kind) if kind.startswith("torch.nn."):
                return kind.rpartition(".")[2].startswith(_LEARNS)
            case Instance(cls=cls):
                classes = self.evaluation.classes
                bases = {"torch.nn.Module", "builtins.object", *classes.library_bases(cls)}
                is_known = len(bases) == 2 and not classes.is_open(cls)
                return not is_known or any(map(self._makes_parameters, classes.lineage(cls)))
            case Library():
                return False
        return True

    def _makes_parameters(self, home: ClassOf) -> bool:
        """Whether a class, apart from its bases, has such parameters or layers."""
        called = set[str]()
        for call in home.module.index.below(home.node, cst.Call):
            if self.evaluation.library(call.func) == "torch.nn.Parameter" and (
                self.evaluation.value(argument_of(call, "requires_grad", 1)) != _FALSE
            ):
                return True
            if last_name(call.func) in ("register_parameter", "add_module"):
                return True
            called.add(last_name(call.func))
        held = [
            (one, name)
            for (owner, name), cell in self.evaluation.attributes.items()
            for one in cell.value
            if owner == home.at
        ]
        return any(
            name in called
            if isinstance(one, Unknown)
            else self.effects.kind(one) in _MODULES and self.learns(one)
            for one, name in held
        )

    @cached_property
    def frozen(self) -> frozenset[At]:
        """The models whose parameters are told to need no gradients, by what made them."""
        told = (node for node in self._told(_FALSE) if not any(self._attributes(node)))
        found = [one for node in told for one in self.evaluation.value(node)]
        made = {getattr(one, "call", None) for one in found}
        made |= {at for one in found if isinstance(one, Parameters) for at in one.models}
        return frozenset(at for at in made if at is not None)

    @cached_property
    def _held(self) -> frozenset[tuple[At, str]]:
        """The attributes whose models never need any: copies are not told from their originals."""
        off, on = (
            {one for node in self._told(truth) for one in self._attributes(node)}
            for truth in (_FALSE, _TRUE)
        )
        return frozenset(off - on)

    def _attributes(self, node: cst.CSTNode | None) -> Iterator[tuple[At, str]]:
        """Yield of which classes an expression is an attribute, or parameters of one."""
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("parameters")), args=[]):
                yield from self._attributes(inner)
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                for one in self.evaluation.value(owner):
                    if isinstance(one, Instance):
                        yield one.cls, name

    def _told(self, truth: Value) -> list[cst.BaseExpression]:
        """Return the models whose parameters are told to need gradients or not, or these."""
        found: list[cst.BaseExpression] = []
        value = self.evaluation.value
        for node, file in self.evaluation.files.attributes("requires_grad_", "requires_grad"):
            index = self.evaluation.index(file)
            loop, assign = index.nearest(node, cst.For), index.nearest(node, cst.Assign)
            match index.parent(node):
                case cst.Call(args=[arg]) if value(arg.value) == truth:
                    is_one = loop and any(isinstance(one, Tensor) for one in value(node.value))
                    found.append(loop.iter if loop and is_one else node.value)
                case cst.AssignTarget() if loop and assign and value(assign.value) == truth:
                    found.append(loop.iter)
        return found
