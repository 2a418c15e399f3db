"""Compilation: whether models are compiled, and whether a compiler would be of use."""

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
from torchlint.syntax.calls import keywords, last_name
from torchlint.training.copies import moves_of
from torchlint.training.datasets import reached
from torchlint.training.gpu_condition import condition_for_gpu
from torchlint.training.models import made_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding
    from torchlint.training.copies import DeviceCopy
    from torchlint.training.frequency import Frequencies
    from torchlint.training.models import Uses
    from torchlint.training.parts import Parts
    from torchlint.training.step_models import StepModel

COMPILERS = (
    "torch.compile", "torch.jit.script", "torch.jit.trace", "torch._dynamo.optimize",
    "torch.cuda.make_graphed_callables", "torch.cuda.graph", "torch_tensorrt.", "torch_xla.",
    "thunder.jit",
)  # fmt: skip
# Layers and functions that break a graph in two, or that have kernels of their own.
BREAKS = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.sparse", "torch.nn.utils.",
          "torch.quantization", "torch.ao.")  # fmt: skip
# What reads values or shapes that depend on them, and functions with a backward of their own.
READS = frozenset("apply item tolist numpy nonzero unique masked_select data_ptr".split())
FOLLOWED = ("torch.", "torchvision.", "timm.", "builtins.", "math.", "einops.", "logging.",
            "typing.", "functools.", "itertools.", "collections.", "super")  # fmt: skip
STARTS = ("torch.multiprocessing.", "multiprocessing.")
REPLICAS = "torch.nn.DataParallel"


@dataclass(eq=False)
class Compilation:
    """What is compiled in connected files, and what could be."""

    evaluation: Evaluation
    frequencies: Frequencies
    uses: Uses
    parts: Parts

    # -- what is compiled --------------------------------------------------------------------

    @cached_property
    def _compiled(self) -> list[tuple[cst.CSTNode, int, At | None]]:
        """What compiles something: the call or decorator, its file, and the model, if it is one."""
        found: list[tuple[cst.CSTNode, int, At | None]] = []
        for file, module in enumerate(self.evaluation.files.modules):
            for call in module.index.of(cst.Call):
                if any(map(_is_compiler, self._value(call.func))):
                    given = self._value(call.args[0].value) if call.args else ()
                    models = [made_by(one) for one in given] or [None]
                    found += [(call, file, one) for one in models]
                found += [(call, file, one) for one in self._compiled_in_place(call)]
            for decorator in module.index.of(cst.Decorator):
                if any(map(_is_compiler, self._value(decorator.decorator))):
                    found.append((decorator, file, None))
        return found

    def _compiled_in_place(self, call: cst.Call) -> Iterator[At | None]:
        """``model.compile()``, but for a method of the project's."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "compile":
            return
        if any(isinstance(one, (Function, Library)) for one in self._value(func)):
            return
        effects = self.frequencies.effects
        for one in self._value(func.value):
            if effects.kind(one) in ("module", "model"):
                yield made_by(one)

    @property
    def compiles_anything(self) -> bool:
        """Whether anything is compiled."""
        return bool(self._compiled)

    def compiles(self, model: StepModel) -> bool | None:
        """Whether a model, or anything but another model, is compiled; None by an option only."""
        around = self._around(model)
        calls = [
            (node, file)
            for node, file, made in self._compiled
            if made is None or made in around or model.made is None
        ]
        if not calls:
            return False
        return None if all(self.frequencies.of(*call).guard for call in calls) else True

    # -- what is gained ----------------------------------------------------------------------

    def is_refused(self, model: StepModel) -> bool:
        """Whether a compiler fails or gives up, or there is one layer only.

        It fails at second derivatives and replicas, and gives up where calls are counted.
        """
        kinds = {self.evaluation.makings[at][2] for at in self._around(model)
                 if at in self.evaluation.makings}  # fmt: skip
        kinds |= {one.kind for one in model.value if isinstance(one, Object)}
        gradients = (
            given
            for file, scope in model.step.scopes
            for call in self.uses.module(file).index.below(scope, cst.Call)
            if (given := keywords(call).get("create_graph"))
        )
        layers = (isinstance(one, Object) and one.kind in LAYERS for one in model.value)
        return (
            (all(layers) and not any("Transformer" in kind for kind in kinds))
            or REPLICAS in kinds
            or any(self._value(given) != (Truth(value=False),) for given in gradients)
            or any(map(self._counts, self.parts.classes(model.value)))
        )

    def _counts(self, cls: ClassOf) -> bool:
        """Whether a forward pass makes the next of a number that its module keeps of the last."""
        forward = self.evaluation.classes.method(cls.at, "forward")
        if forward is None:
            return False
        index = forward[0].module.index
        targets = [one.target for one in index.below(forward[1], cst.AugAssign)]
        targets += [
            one.targets[0].target
            for one in index.below(forward[1], cst.Assign)
            if isinstance(one.value, cst.BinaryOperation)
        ]
        return any(
            isinstance(kept, Number)
            for target in targets
            if isinstance(target, cst.Attribute)
            for owner in self._value(target.value)
            if isinstance(owner, Instance)
            for cell in [self.evaluation.attributes.get((owner.cls, target.attr.value))]
            for kept in (cell.value if cell else ())
        )

    def is_whole(self, model: StepModel) -> bool:
        """Whether a compiler is seen to make one graph of a model that is compiled in place."""
        if not all(map(self._has_forward, model.value)):
            return False
        parts = self.parts.of(model.value)
        methods = [one.name for made in self._around(model) for one in self.uses.methods(made)]
        return not (
            any(not one.name.startswith(FOLLOWED) or one.name.startswith(BREAKS) for one in parts)
            or any(name.endswith("_hook") for name in methods)
            or any(map(self._breaks, self._called(model)))
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

    def _called(self, model: StepModel) -> Iterator[cst.Call]:
        """Yield the calls that forward passes of a model make."""
        for one in self.parts.classes(model.value):
            found = self.evaluation.classes.method(one.at, "forward")
            if found is not None:
                forward = self.evaluation.at(found[1], found[0].at.file)
                yield from (site.node for site, _ in reached(self.frequencies.effects, [forward]))

    def _breaks(self, call: cst.Call) -> bool:
        """Whether a call reads values, has a backward pass of its own, or is of another library."""
        func = call.func
        names = [one.name for one in self._value(func) if isinstance(one, Library)]
        reads = last_name(func) in READS
        return reads or any(not name.startswith(FOLLOWED) for name in names)

    def _around(self, model: StepModel) -> list[At]:
        return self.uses.around(model.made) if model.made is not None else []

    # -- where it is said --------------------------------------------------------------------

    def moves(self, model: StepModel) -> list[DeviceCopy]:
        """Return what moves a model to where it may be trained on a GPU."""
        moves = moves_of(self.uses, [model.made] if model.made is not None else [])
        return [one for one in moves if one.targets != {Device.HOST}]

    def place(self, model: StepModel) -> tuple[cst.BaseStatement, str, str] | None:
        """Return behind what a model can be compiled in place, by which code, on which condition.

        That is once it is moved, before it is wrapped or trained; the condition, that it is on a
        GPU, is "" where it is so for certain.  None where it is no plain local name, where a loop
        moves it, where it is not seen to be moved by then, or goes to other processes.
        """
        evaluation, made, moves = self.evaluation, model.made, self.moves(model)
        module = self.uses.module(model.file)
        statement = module.statement(model.node)
        block, name = module.parent(statement), _assigned(statement)
        if made is None or name is None or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        around = self.uses.around(made)
        if not all(self._holds(one, around) for one in _bindings(module, name)):
            return None
        ends = [evaluation.node(one) for one in around if one != made and one.file == model.file]
        ends += model.step.ways_to(model.file)
        last, rest = statement, [one for one in moves if one.file == model.file]
        for one in block.body:
            if module.index.order(one) < module.index.order(statement):
                continue
            found = [end for end in ends if module.index.inside(end, one)]
            if any(map(self._starts, found)):
                return None  # what is compiled stays behind
            if found:
                break
            inside = [move for move in rest if module.index.inside(move.node, one)]
            last = one if inside else last
            rest = [move for move in rest if move not in inside]
        if not isinstance(last, (cst.SimpleStatementLine, cst.If, cst.With)):
            return None
        seen = [one for one in moves if one.file == model.file and one not in rest]
        at = evaluation.at(seen[-1].node, model.file) if seen else made
        condition, code = condition_for_gpu(evaluation, at, moves), f"{name.value}.compile()"
        if condition is not None and condition.code == "True":
            return last, code, ""
        if condition is not None and condition.code.endswith('.type == "cuda"'):
            return last, code, condition.code
        is_moved = len(seen) == len(moves) > 0
        return (last, code, f"next({name.value}.parameters()).is_cuda") if is_moved else None

    def _holds(self, binding: Binding, around: list[At]) -> bool:
        """Whether a name is bound to a model, or to what is around it."""
        node = binding.value if isinstance(binding.value, cst.BaseExpression) else None
        value = self._value(node) if node is not None and binding.is_plain else ()
        return bool(value) and all(made_by(one) in around for one in value)

    def _starts(self, end: cst.CSTNode) -> bool:
        """Whether what leads to a training starts processes."""
        value = self._value(end.func) if isinstance(end, cst.Call) else ()
        return any(
            getattr(one, "name", getattr(one, "kind", "")).startswith(STARTS) for one in value
        )

    def _value(self, node: cst.BaseExpression) -> Value:
        return self.evaluation.value(node)


def _is_compiler(one: Alternative) -> bool:
    match one:
        case Library(name=name) | Object(kind=name) | Method(owner=Library(name=name)):
            return name.startswith(COMPILERS)
    return False


def _assigned(statement: cst.CSTNode) -> cst.Name | None:
    """Return the name that a statement does nothing but bind."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=name)])]):
            return name if isinstance(name, cst.Name) else None
    return None


def _bindings(module: Module, name: cst.Name) -> list[Binding]:
    owner = module.index.scope(name).owner(name.value)
    return owner.bindings[name.value] if owner is not None else []
