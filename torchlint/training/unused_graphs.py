"""Runs of models whose graph nothing uses: no backward goes back through what they give.

A run is a call outside of the methods of modules.  Its result may be read, compared or detached;
where it is handed to code that is not seen, or returned to it, that may ask for gradients.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.contexts import NO_GRAD
from torchlint.semantics.run import GRAD
from torchlint.semantics.sets import flat
from torchlint.semantics.tables.tensors import KNOWN
from torchlint.semantics.values import (
    At,
    Dictionary,
    Instance,
    Method,
    Sequence,
    Tensor,
    Truth,
    Unknown,
)
from torchlint.syntax.calls import last_name
from torchlint.training.between import enclosing
from torchlint.training.effects import Effect, unit_around
from torchlint.training.model_calls import Recording
from torchlint.training.passing_by import gets_to, passes_by
from torchlint.training.same_bits import HOOKS, METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value
    from torchlint.syntax.module import Module
    from torchlint.training.asked import Asked
    from torchlint.training.model_calls import ModelCalls
    from torchlint.training.untrained import Untrained

GOES_BACK = frozenset({Effect.BACKWARD, Effect.GRAD})
_NEVER = (Recording.OFF, Recording.UNKNOWN)
_DEEPEST = 4


class Why(enum.Enum):
    """Why no gradient is asked of a run."""

    UNUSED = enum.auto()  # nothing goes back through it
    CALL = enum.auto()  # nothing does in this call of the function around it
    UNTRAINED = enum.auto()  # what goes back through it gives gradients to what nobody trains


@dataclass(frozen=True, slots=True, eq=False)
class UnusedGraph:
    """A call that is recorded for nothing: a run of a model, or of a function that runs one.

    ``sees`` is False where its result goes to code that is not seen, ``knows`` where the model is
    something by a convention only.  ``run`` is the run itself.
    """

    node: cst.Call
    file: int
    run: At
    why: Why
    recording: Recording
    sees: bool
    knows: bool


@dataclass(slots=True, eq=False)
class UnusedGraphs:
    """The runs of models in connected files whose graph nothing uses."""

    evaluation: Evaluation
    asked: Asked
    models: ModelCalls
    untrained: Untrained
    found: list[UnusedGraph] = field(default_factory=list)
    _given_away: set[At] = field(default_factory=set)
    _refused: set[At] = field(default_factory=set)
    _goes_back: bool = False

    def __post_init__(self) -> None:
        modules = self.evaluation.files.modules
        if any(map(self._switches, modules)):
            return
        for sites in self.asked.effects.sites.values():
            self._goes_back |= any(site.effects & GOES_BACK for site in sites)
            for site in sites:
                func = site.node.func
                if isinstance(func, cst.Attribute) and func.attr.value == "numpy":
                    self._refused |= self.graph(func.value)  # numpy() refuses what is recorded
        for file in range(len(modules)):
            for node in self._handed_over(file):
                self._given_away |= self.graph(node)
        for file, module in enumerate(modules):
            for call in module.index.of(cst.Call):
                at = self.evaluation.at(call, file)
                if at in self.graph(call) and self.models.records(at):
                    self._take(call, at)

    def graph(self, node: cst.CSTNode) -> set[At]:
        """Return the runs of models that autograd would go back through from an expression."""
        return self.graph_of(self.evaluation.value(node))

    def graph_of(self, value: Value) -> set[At]:
        """Return the runs of models behind the tensors that a value may be or hold."""
        found, waiting, seen = set[At](), list(flat(value)), set[At]()
        for one in waiting:
            if isinstance(one, Tensor):
                found |= set(one.graph)
            made = one.made if isinstance(one, (Sequence, Dictionary)) else None
            if made is not None and made not in seen:  # what was put in later
                seen.add(made)
                cells = self.evaluation.later(made)
                waiting += [each for cell in cells for each in flat(cell.value)]
        return found

    def _take(self, call: cst.Call, at: At) -> None:
        recording = self.models.recording(at)
        if recording in _NEVER or at in self._refused or self._is_wanted(call, at.file):
            return
        if not self.asked.of(call, at.file):
            self._add(call, at.file, at, Why.UNUSED)
        elif self._is_untrained(call):
            self._add(call, at.file, at, Why.UNTRAINED)
        else:
            unit = unit_around(self.evaluation, call, at.file)
            for caller, site in () if unit.is_module_method else unit.callers.values():
                if self._goes_by(site, caller, unit, call):
                    calls = unit.module.index.below(unit.node, cst.Call)
                    sees = not any(self.may_ask(one, at.file) for one in calls)
                    self._add(site, caller.at.file, at, Why.CALL, sees=sees)

    def _add(self, call: cst.Call, file: int, run: At, why: Why, *, sees: bool = True) -> None:
        recording = self.models.recording(self.evaluation.at(call, file))
        sees = sees and (run not in self._given_away or why is Why.UNTRAINED)
        if recording in _NEVER:
            return
        if sees or (self._goes_back and self._is_evaluated(call, file)):
            func = self.evaluation.value(getattr(self.evaluation.node(run), "func", None))
            knows = all(hasattr(one, "call") or hasattr(one, "at") for one in func)
            self.found.append(UnusedGraph(call, file, run, why, recording, sees, knows))

    def _is_wanted(self, call: cst.Call, file: int) -> bool:
        """Whether gradients are turned on for a call, in its function."""
        unit = unit_around(self.evaluation, call, file)
        items = [item.item for block in enclosing(self.evaluation, call, unit.node, file)
                 for item in block.items]  # fmt: skip
        items += [one.decorator for one in getattr(unit.node, "decorators", ())]
        values = self.evaluation.values
        kinds = {getattr(one, "kind", getattr(one, "name", ""))
                 for node in items for one in values.get(id(node), ())}  # fmt: skip
        return "torch.enable_grad" in kinds

    # -- which runs nobody asks a gradient of ---------------------------------------------------

    def _is_untrained(self, call: cst.CSTNode, depth: int = 0) -> bool:
        """Whether a model is run that nothing trains, on what no model computed that is trained."""
        if not isinstance(call, cst.Call) or depth > _DEEPEST:
            return False
        func = self.evaluation.value(call.func)
        return (
            bool(func)
            and all(self.untrained.is_one(one) for one in func)
            and all(
                self._is_untrained(self.evaluation.node(at), depth + 1)
                for arg in call.args
                for at in self.graph(arg.value)
            )
        )

    def _goes_by(self, site: cst.Call, caller: Unit, unit: Unit, run: cst.Call) -> bool:
        """Whether a call of a function runs a model there, and passes by all that goes back."""
        if self.asked.of(site, caller.at.file) or not gets_to(self.evaluation, site, unit, run):
            return False
        mode, around = self.evaluation.modes[id(run)].get(GRAD), unit.modes[GRAD].value
        if mode != around and mode != (Truth(True),):
            return False  # the function decides
        effects = self.asked.effects
        back = [one for one in effects.sites[unit.at]
                if any(each & GOES_BACK for each in effects.of_site(one))]  # fmt: skip
        if not back and not self.graph(site):
            return False
        return all(passes_by(self.evaluation, site, unit, one.node) for one in back) and not any(
            self.graph(value) and unit.module.index.inside(value, unit.node)
            for pairs in self.asked.stores.values()
            for value, _, file in pairs
            if file == unit.at.file
        )

    # -- what goes to code that is not seen ----------------------------------------------------

    def _handed_over(self, file: int) -> Iterator[cst.BaseExpression]:
        """Yield what is passed or returned to code that is not seen, or kept for it."""
        modules, values = self.evaluation.files.modules, self.evaluation.values
        index = modules[file].index
        if any(word in one.index.named for one in modules for word in HOOKS):
            yield from index.of(cst.Call)  # the hooks may keep what it computes
        for call in index.of(cst.Call):
            if any(map(is_unseen, values.get(id(call.func)) or (Unknown(),))):
                yield from (arg.value for arg in call.args)
        for kind in (cst.Return, cst.Yield):
            for node in index.of(kind):
                given = getattr(node.value, "item", node.value)  # type: ignore[attr-defined]
                if given is not None and not unit_around(self.evaluation, node, file).callers:
                    yield given
        for one in index.of(cst.Lambda):
            if not self.evaluation.units[self.evaluation.at(one, file)].callers:
                yield one.body
        for assign in index.of(cst.Assign):
            if any(self._is_kept_for_others(one.target) for one in assign.targets):
                yield assign.value
        for added in index.of(cst.AugAssign):
            if self._is_kept_for_others(added.target):
                yield added.value

    def _is_kept_for_others(self, target: cst.BaseExpression) -> bool:
        """Whether code that is not seen may read what is assigned."""
        if not isinstance(target, (cst.Attribute, cst.Subscript)):
            return False
        return any(
            self.evaluation.classes.is_open(one.cls)
            if isinstance(one, Instance)
            else isinstance(one, Unknown)
            for one in self.evaluation.value(target.value)
        )

    def _switches(self, module: Module) -> bool:
        """Whether gradients are turned off by hand, for code that is elsewhere."""
        values = self.evaluation.values
        for name in module.index.named.get("__enter__", ()):
            owner = getattr(module.parent(name), "value", None)
            if any(getattr(one, "kind", "") in NO_GRAD for one in values.get(id(owner), ())):
                return True
        told = [
            (module.function(call), values.get(id(call.args[0].value)))
            for call in module.index.of(cst.Call)
            if call.args and isinstance(module.parent(call), cst.Expr)
            and any(getattr(one, "kind", "") == "torch.set_grad_enabled"
                    for one in values.get(id(call), ()))
        ]  # fmt: skip
        return bool(told) and told[-1][0] is not None and told[-1][1] != (Truth(True),)

    def may_ask(self, call: cst.Call, file: int) -> bool:
        """Whether code that is not seen may ask a gradient of its own: it is given no result."""
        func, values = call.func, self.evaluation.values
        if not any(map(is_unseen, values.get(id(func)) or (Unknown(),))):
            return False
        if last_name(func) in KNOWN | METHODS:
            return False
        given = [one for arg in call.args for one in values.get(id(arg.value), ())]
        if any(self.asked.effects.kind(one) in ("module", "model") for one in given):
            return True
        is_used = not isinstance(self.evaluation.module(file).parent(call), cst.Expr)
        return is_used and not any(self.graph(arg.value) for arg in call.args)

    # -- whether it is an evaluation -----------------------------------------------------------

    def _is_evaluated(self, call: cst.Call, file: int, depth: int = 0) -> bool:
        """Whether a model is put into evaluation before it is run, in a block around that."""
        module = self.evaluation.module(file)
        unit = unit_around(self.evaluation, call, file)
        told = [
            one
            for word in ("eval", "train")
            for name in module.index.named.get(word, ())
            if isinstance(one := module.parent(module.parent(name) or name), cst.Call)
            and unit_around(self.evaluation, one, file) is unit
            and module.index.order(one) < module.index.order(call)
        ]
        if told:
            last = max(told, key=module.index.order)
            block = module.parent(module.statement(last))
            return block is not None and module.index.inside(call, block) and _evaluates(last)
        callers = list(unit.callers.values()) if depth < _DEEPEST else []
        return bool(callers) and all(
            self._is_evaluated(site, one.at.file, depth + 1) for one, site in callers
        )


def is_unseen(one: Alternative) -> bool:
    """Whether what is called is not known."""
    return isinstance(one, Unknown) or (isinstance(one, Method) and is_unseen(one.owner))


def _evaluates(call: cst.Call) -> bool:
    """``model.eval()``, ``model.train(False)``."""
    if last_name(call.func) == "eval":
        return not call.args
    told = call.args[0].value if len(call.args) == 1 else None
    return isinstance(told, cst.Name) and told.value == "False"
