"""Runs of models: whether they are recorded, and whether a backward goes back through them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.run import GRAD
from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS
from torchlint.semantics.values import (
    Function,
    Guess,
    Instance,
    Library,
    Method,
    Object,
    Parameters,
    Tensor,
    Truth,
    Unknown,
)
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value

# What layers with parameters are called, by how their names begin.
_LEARNS = ("Linear", "Bilinear", "Conv", "Lazy", "Batch", "SyncBatch", "Layer", "RMS", "Group",
           "Embedding", "RNN", "LSTM", "GRU", "Transformer", "Multihead", "PReLU")  # fmt: skip
_DEEPEST = 8


class Recording(enum.Enum):
    """Whether gradient mode is on around a call."""

    ON = enum.auto()
    ASSUMED = enum.auto()  # nobody is seen to call the function, and it does not say
    SOME = enum.auto()  # some of its callers turn it off, some do not
    UNKNOWN = enum.auto()  # a context or decorator decides that nobody knows
    OFF = enum.auto()


@dataclass(slots=True, eq=False)
class ModelCalls:
    """What is known of runs of models in connected files."""

    evaluation: Evaluation
    _learns: dict[Alternative, bool] = field(default_factory=dict)
    _keeps: dict[At, bool] = field(default_factory=dict)
    _frozen: frozenset[At] | None = None

    def behind(self, nodes: Iterable[cst.BaseExpression]) -> list[At]:
        """Return the runs of models that tensors come from."""
        values = self.evaluation.values
        found = {call for node in nodes for one in values.get(id(node), ())
                 if isinstance(one, Tensor) for call in one.graph}  # fmt: skip
        return sorted(found)

    def recording(self, call: At) -> Recording:
        """Return whether a call is recorded."""
        node = self.evaluation.node(call)
        value = self.evaluation.modes.get(id(node), {}).get(GRAD, ())
        found = {one.value for one in value if isinstance(one, Truth)}
        if not value:
            unit = unit_around(self.evaluation, node, call.file)
            is_script = isinstance(unit.node, cst.Module)
            return Recording.ON if is_script else Recording.ASSUMED
        if None in found or len(found) != len(value):
            return Recording.UNKNOWN
        if len(found) > 1:
            return Recording.SOME
        return Recording.ON if True in found else Recording.OFF

    def keeps(self, tensor: Tensor) -> bool:
        """Whether autograd would go back from a tensor, through a model with parameters."""
        return any(self.records(call) for call in tensor.graph)

    def records(self, call: At) -> bool:
        """Whether what a call runs has parameters that gradients are recorded for, or may have."""
        if call not in self._keeps:
            node = self.evaluation.node(call)
            value = self.evaluation.value(getattr(node, "func", node))
            self._keeps[call] = not value or any(self.learns(one) for one in value)
        return self._keeps[call]

    def learns(self, one: Alternative, depth: int = 0) -> bool:
        """Whether what is run has parameters that gradients are recorded for, or may have."""
        if one not in self._learns:
            self._learns[one] = True  # what holds itself
            self._learns[one] = self._has_parameters(one, depth)
        return self._learns[one]

    def _has_parameters(self, one: Alternative, depth: int) -> bool:
        evaluation = self.evaluation
        if depth > _DEEPEST:
            return True
        match one:
            case Function(owner=Instance() as owner):
                return self.learns(owner, depth + 1)
            case Method(owner=owner):
                return self.learns(owner, depth + 1)
            case Object(call=call) | Instance(call=call) if call in self.frozen:
                return False
            case Object(kind=kind, call=call) if kind in CONTAINERS:
                held: Value = evaluation.elements(call).value if call else ()
                return not held or any(self.learns(part, depth + 1) for part in held)
            case Object(kind=kind) if kind in WRAPPERS:
                return any(self.learns(part, depth + 1) for part in evaluation.inside(one)) or not (
                    evaluation.inside(one)
                )
            case Object(kind=kind) if kind.startswith("torch.nn."):
                return kind.rpartition(".")[2].startswith(_LEARNS)
            case Instance(cls=cls):
                return self._class_learns(cls, depth)
            case Library():
                return False
        return True

    def _class_learns(self, cls: At, depth: int) -> bool:
        evaluation = self.evaluation
        classes = evaluation.classes
        if classes.is_open(cls) or any(
            base not in ("torch.nn.Module", "builtins.object")
            for base in classes.library_bases(cls)
        ):
            return True
        for home in classes.lineage(cls):
            called = set()
            for call in home.module.index.below(home.node, cst.Call):
                value = evaluation.value(call.func)
                if any(isinstance(v, Library) and v.name == "torch.nn.Parameter" for v in value):
                    told = given_to(evaluation, call, ("data", "requires_grad"))[0]
                    one = told.get("requires_grad")
                    if one is None or one.value != (Truth(False),):
                        return True
                match call.func:
                    case cst.Attribute(attr=cst.Name(value="register_parameter" | "add_module")):
                        return True
                    case cst.Attribute(value=cst.Name(), attr=cst.Name(value=word)):
                        called.add(word)
            for (owner, name), cell in evaluation.attributes.items():
                if owner != home.at:
                    continue
                for part in cell.value:
                    is_unknown = isinstance(part, Unknown) and name in called
                    is_module = isinstance(part, (Object, Instance, Guess)) and self._is_module(
                        part
                    )
                    if is_unknown or (is_module and self.learns(part, depth + 1)):
                        return True
        return False

    def _is_module(self, one: Alternative) -> bool:
        match one:
            case Object(kind=kind):
                return kind.startswith("torch.nn.") or kind in WRAPPERS
            case Instance(cls=cls):
                return self.evaluation.classes.kind(cls) in ("module", "criterion")
        return isinstance(one, Guess) and one.what == "model"

    @property
    def frozen(self) -> frozenset[At]:
        """The models whose parameters are told to need no gradients, by what made them."""
        if self._frozen is None:
            self._frozen = frozenset(self._find_frozen())
        return self._frozen

    def _find_frozen(self) -> set[At]:
        found: set[At] = set()
        for module in self.evaluation.files.modules:
            index = module.index
            for call in index.of(cst.Call):
                match call.func:
                    case cst.Attribute(value=inner, attr=cst.Name(value="requires_grad_")):
                        if call.args and self._is_false(call.args[0].value):
                            found |= self._made(inner)
            for loop in index.of(cst.For):
                for assign in index.below(loop.body, cst.Assign):
                    match assign.targets[0].target, assign.value:
                        case cst.Attribute(attr=cst.Name(value="requires_grad")), told if (
                            self._is_false(told)
                        ):
                            for one in self.evaluation.value(loop.iter):
                                if isinstance(one, Parameters):
                                    found |= set(one.models)
        return found

    def _is_false(self, node: cst.BaseExpression) -> bool:
        return self.evaluation.values.get(id(node)) == (Truth(False),)

    def _made(self, node: cst.BaseExpression) -> set[At]:
        value = self.evaluation.value(node)
        return {one.call for one in value
                if isinstance(one, (Object, Instance)) and one.call is not None}  # fmt: skip
