"""Models that nothing trains, while other models are: targets, teachers, measures of a loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import WRAPPERS, kind_of
from torchlint.semantics.values import Function, Instance, Library, Object, Truth
from torchlint.syntax.calls import keyword_of, last_name
from torchlint.training.asked import assignments
from torchlint.training.effects import unit_around
from torchlint.training.optimizers import models_of

if TYPE_CHECKING:
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.models import Use, Uses

_HARMLESS = frozenset("""eval train to cuda cpu half float double state_dict load_state_dict forward
    requires_grad_""".split())  # fmt: skip
_PARTS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "modules"})
_TAKES = WRAPPERS | {"copy.deepcopy", "copy.copy", "torch.save", "builtins.print", "builtins.id"}
_CARRIES = (cst.Assign, cst.AnnAssign, cst.AssignTarget, cst.NamedExpr, cst.Element, cst.Attribute,
            cst.Expr, cst.Param)  # fmt: skip


@dataclass(eq=False)
class Untrained:
    """What is known of the training of models in connected files."""

    uses: Uses
    _found: dict[At, bool] = field(default_factory=dict)

    @cached_property
    def trained(self) -> set[At] | None:
        """The models that optimizers are made for, None where those of one are not seen."""
        found: set[At]
        evaluation, found = self.uses.evaluation, set()
        for at, (_, _, name) in evaluation.makings.items():
            if kind_of(name) == "optimizer":
                models = models_of(evaluation, (Object(name, at),))
                if models is None:
                    return None
                found |= models
        return found

    @cached_property
    def asks_of_inputs(self) -> bool:
        """Whether anything is told to require a gradient, as an input may be."""
        told: list[cst.BaseExpression] = []
        for module in self.uses.evaluation.files.modules:
            index = module.index
            if not index.named.keys() & {"requires_grad", "requires_grad_"}:
                continue
            told += [
                value
                for value, target in assignments(index.of(cst.Assign))
                if last_name(target) == "requires_grad"
            ]
            told += [arg.value for arg in index.of(cst.Arg) if keyword_of(arg) == "requires_grad"]
            told += [
                call.args[0].value if call.args else call
                for call in index.of(cst.Call)
                if last_name(call.func) == "requires_grad_"
            ]
        return any(self.uses.value(one) != (Truth(False),) for one in told)  # fmt: skip

    def is_one(self, one: Alternative) -> bool:
        """Whether nothing trains a model, as far as every use of it is seen."""
        made = one.call if isinstance(one, (Instance, Object)) else None
        if made is None or not self.trained or made in self.trained or self.asks_of_inputs:
            return False
        if isinstance(one, Object) and one.kind in WRAPPERS:
            return all(map(self.is_one, self.uses.evaluation.inside(one)))
        if made not in self._found:
            self._found[made] = not self.trained & set(self.uses.around(made)) and all(
                map(self._is_harmless, self.uses.of(made))
            )
        return self._found[made]

    def _is_harmless(self, use: Use) -> bool:
        """Whether nothing could train a model by a use of it."""
        module, parent = self.uses.module(use.file), use.parent
        evaluation = self.uses.evaluation
        cls = evaluation.class_around(unit_around(evaluation, use.node, use.file))
        is_own = cls is not None and any(
            isinstance(one, Instance) and cls in evaluation.classes.lineage(one.cls)
            for one in self.uses.value(use.node)
        )
        if self.uses.is_run(use) or is_own:
            return True
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is use.node:
                call = module.parent(parent)
                if not isinstance(call, cst.Call) or call.func is not parent:
                    return False
                if name in _PARTS:
                    return self._only_copies(call, use.file)
                func = self.uses.value(parent)
                return name in _HARMLESS or any(isinstance(each, Function) for each in func)
            case cst.Arg():
                call = module.parent(parent)
                func = self.uses.value(call.func) if isinstance(call, cst.Call) else ()
                return bool(func) and all(
                    each.name in _TAKES if isinstance(each, Library) else isinstance(each, Function)
                    for each in func
                )
            case cst.Return():
                return bool(unit_around(self.uses.evaluation, parent, use.file).callers)
        return isinstance(parent, _CARRIES)

    def _only_copies(self, call: cst.Call, file: int) -> bool:
        """``for a, b in zip(target.parameters(), net.parameters()): a.data.copy_(b)``."""
        index = self.uses.module(file).index
        loop = next((one for one in index.ancestors(call) if isinstance(one, cst.For)), None)
        if loop is None or not index.inside(call, loop.iter):
            return False
        return not any(
            one.attr.value in ("grad", "_grad") for one in index.below(loop, cst.Attribute)
        ) and all(self.uses.value(one.func) != self.uses.evaluation.sets.unknown
                  or isinstance(one.func, cst.Attribute)
                  for one in index.below(loop.body, cst.Call))  # fmt: skip
