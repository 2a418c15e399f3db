"""Runs of models whose graph nothing uses: no backward goes back through what they give.

A run is a call outside of the methods of modules.  Its result may be read, compared or detached;
where it is handed to code that is not seen, or returned to it, that may ask for gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.values import (
    UNKNOWN,
    At,
    Dictionary,
    Instance,
    Method,
    Sequence,
    Tensor,
    Unknown,
)
from torchlint.training.asked import assignments
from torchlint.training.effects import unit_around
from torchlint.training.model_calls import Recording
from torchlint.training.same_bits import HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value
    from torchlint.training.asked import Asked
    from torchlint.training.model_calls import ModelCalls


@dataclass(frozen=True, slots=True, eq=False)
class UnusedGraph:
    """A run of a model that is recorded for nothing.

    ``sees`` is False where its result goes to code that is not seen, ``knows`` where the model is
    something by a convention only.
    """

    node: cst.Call
    file: int
    recording: Recording
    sees: bool
    knows: bool


@dataclass(slots=True, eq=False)
class UnusedGraphs:
    """The runs of models in connected files whose graph nothing uses."""

    evaluation: Evaluation
    asked: Asked
    models: ModelCalls
    found: list[UnusedGraph] = field(default_factory=list)

    def __post_init__(self) -> None:
        modules, given_away, refused = self.evaluation.files.modules, set[At](), set[At]()
        for call in (one for module in modules for one in module.index.of(cst.Call)):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
                refused |= self.graph(call.func.value)  # it refuses what is recorded
        for file in range(len(modules)):
            for node in self._handed_over(file):
                given_away |= self.graph(node)
        for file, module in enumerate(modules):
            for call in module.index.of(cst.Call):
                at, func = self.evaluation.at(call, file), self.evaluation.value(call.func)
                if at not in self.graph(call) or at in refused:
                    continue
                sees, recording = at not in given_away, self.models.recording(at)
                if (
                    recording not in (Recording.OFF, Recording.UNKNOWN)
                    and not self.asked.of(call, file)
                    and self.models.records(at)
                    and (sees or (self.asked.effects.train and self._is_evaluated(call, file)))
                ):
                    knows = all(hasattr(one, "call") or hasattr(one, "at") for one in func)
                    self.found.append(UnusedGraph(call, file, recording, sees, knows))

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
                cells = self.evaluation.later(made).values()
                waiting += [each for cell in cells for each in flat(cell.value)]
        return found

    def is_unseen(self, call: cst.Call) -> bool:
        """Whether what is called is not known."""
        return any(map(_is_unseen, self.evaluation.value(call.func) or (UNKNOWN,)))

    # -- what goes to code that is not seen ----------------------------------------------------

    def _handed_over(self, file: int) -> Iterator[cst.BaseExpression]:
        """Yield what is passed or returned to code that is not seen, or kept for it."""
        index = self.evaluation.index(file)
        if any(word in one.index.named for one in self.evaluation.files.modules for word in HOOKS):
            yield from index.of(cst.Call)  # the hooks may keep what it computes
        for call in index.of(cst.Call):
            if self.is_unseen(call):
                yield from (arg.value for arg in call.args)
        for kind in (cst.Return, cst.Yield):
            for node in index.of(kind):
                given = getattr(node.value, "item", node.value)  # type: ignore[attr-defined]
                if given is not None and not unit_around(self.evaluation, node, file).callers:
                    yield given
        for one in index.of(cst.Lambda):
            if not self.evaluation.units[self.evaluation.at(one, file)].callers:
                yield one.body

        pairs = list(assignments(index.of(cst.Assign)))
        pairs += [(one.value, one.target) for one in index.of(cst.AugAssign)]
        yield from (value for value, target in pairs if self._is_for_others(target))

    def _is_for_others(self, target: cst.BaseExpression) -> bool:
        """Whether code that is not seen may read what is assigned."""
        return isinstance(target, (cst.Attribute, cst.Subscript)) and any(
            isinstance(one, Unknown)
            or (isinstance(one, Instance) and self.evaluation.classes.is_open(one.cls))
            for one in self.evaluation.value(target.value)
        )

    # -- whether it is an evaluation -----------------------------------------------------------

    def _is_evaluated(self, call: cst.Call, file: int) -> bool:
        """Whether a model was last put into evaluation before the call, in its function."""
        index, unit = self.evaluation.index(file), unit_around(self.evaluation, call, file)
        told = [
            name
            for word in ("eval", "train")
            for name in index.named.get(word, ())
            if index.order(name) < index.order(call)
            and unit_around(self.evaluation, name, file) is unit
        ]
        return bool(told) and max(told, key=index.order).value == "eval"


def _is_unseen(one: Alternative) -> bool:
    return isinstance(one, Unknown) or (isinstance(one, Method) and _is_unseen(one.owner))
