"""Which totals and containers keep the graph of each step alive: carriers that outlive their loop.

A total that a tensor is added to, or a container that one is put into, keeps what autograd would go
back through from there.  A carrier that is new in each turn of the loop, or emptied in it, keeps
one turn's at most; one that a gradient is asked of needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Dictionary, Method, Sequence, Tensor
from torchlint.syntax.calls import has_keyword
from torchlint.syntax.scopes import Bind
from torchlint.training.asked import assignments, passed_to
from torchlint.training.carriers import parts, root
from torchlint.training.effects import unit_around
from torchlint.training.frequency import Rate
from torchlint.training.guards import decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.asked import Asked
    from torchlint.training.carriers import Carriers
    from torchlint.training.frequency import Frequencies, Frequency
    from torchlint.training.model_calls import ModelCalls

RATES = (Rate.STEP, Rate.EVAL_STEP)
_PUTS = frozenset("append appendleft add insert extend update setdefault put".split())
_IN_PLACE = frozenset("add_ sub_".split())
_CARRIERS = (cst.Name, cst.Attribute, cst.Subscript)
_DEEPEST = 6  # calls that hand a tensor on to what keeps it


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """A statement or call that keeps a graph of every turn.

    ``keeper`` is what keeps it as it is called there, ``leaves`` are the tensors with a graph.
    """

    node: cst.CSTNode
    keeper: cst.BaseExpression
    leaves: tuple[cst.BaseExpression, ...]
    file: int
    frequency: Frequency
    decided: bool


@dataclass(slots=True, eq=False)
class Graphs:
    """What keeps graphs alive, in connected files."""

    evaluation: Evaluation
    frequencies: Frequencies
    carriers: Carriers
    asked: Asked
    models: ModelCalls
    growths: dict[int, Growth] = field(default_factory=dict)
    _known: dict[int, bool] = field(default_factory=dict)  # whether a value has a graph

    def __post_init__(self) -> None:
        for file, module in enumerate(self.evaluation.files.modules):
            for node, keeper, leaves in self._grown(file):
                if leaves and not self._is_asked(keeper, node, file):
                    self._take(module.smallest_statement(node), keeper, leaves, file, 0)

    # -- what grows --------------------------------------------------------------------------

    def _grown(
        self, file: int
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, list[cst.BaseExpression]]]:
        index = self.evaluation.index(file)
        for node in index.of(cst.AugAssign):
            adds = isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
            if adds and self._keeps(node):
                yield node, node.target, self._leaves(node.value, None, file)
        for assign in index.of(cst.Assign):
            for value, target in assignments(assign):
                inner = parts(value, self.carriers.is_operation) if self._keeps(value) else ()
                same = (one for one in inner if self.carriers.denotes(one, file, target, file))
                own = next(same, None)
                if own is not None:
                    yield assign, target, self._leaves(value, own, file)
        for call in index.of(cst.Call):
            if isinstance(call.func, cst.Attribute) and self._puts(call):
                given = [one for arg in call.args for one in self._leaves(arg.value, None, file)]
                yield call, call.func.value, given

    def _keeps(self, node: cst.CSTNode) -> bool:
        """Whether what a carrier becomes keeps a graph: not where gradients are off."""
        return self._has_graph(node) or any(
            isinstance(one, Sequence) for one in self.evaluation.value(node)
        )

    def _has_graph(self, node: cst.CSTNode) -> bool:
        value = self.evaluation.value(node)
        found = self._known.get(id(value))
        if found is None:
            tensors = (one for one in value if isinstance(one, Tensor))
            found = self._known[id(value)] = any(map(self.models.keeps, tensors))
        return found

    def _puts(self, call: cst.Call) -> bool:
        for one in self.evaluation.value(call.func):
            match one:
                case Method(owner=Sequence(made=made) | Dictionary(made=made), name=name) if (
                    name in _PUTS
                ):
                    made_by = self.evaluation.node(made) if made else None
                    is_bounded = isinstance(made_by, cst.Call) and (
                        len(made_by.args) > 1 or has_keyword(made_by, ["maxlen"])
                    )  # ``deque(maxlen=10)``
                    if made_by and not is_bounded:
                        return True
                case Method(owner=Tensor(), name=name) if name in _IN_PLACE:
                    return True
        return False

    def _leaves(
        self, node: cst.BaseExpression, own: cst.BaseExpression | None, file: int
    ) -> list[cst.BaseExpression]:
        """Return the parts of what is kept that have a graph, but for the carrier itself."""
        index = self.evaluation.index(file)
        found = parts(node, lambda call: own is not None and index.inside(own, call))
        return [one for one in found if one is not own and self._has_graph(one)]

    def _is_asked(self, keeper: cst.BaseExpression, node: cst.CSTNode, file: int) -> bool:
        """Whether a gradient of a carrier may be asked, beside its own growth."""
        index = self.evaluation.index
        return any(
            isinstance(one, _CARRIERS)
            and not (place == file and index(file).inside(one, node))
            and self.carriers.denotes(one, place, keeper, file)
            for one, place in self.asked.nodes.values()
        )

    # -- where it is kept --------------------------------------------------------------------

    def _take(
        self,
        node: cst.CSTNode,
        keeper: cst.BaseExpression,
        leaves: list[cst.BaseExpression],
        file: int,
        depth: int,
        *,
        decided: bool = True,
    ) -> None:
        """Take note of what is kept here, or of what callers hand on to be kept here."""
        unit = unit_around(self.evaluation, node, file)
        words = [word for leaf in leaves if (word := self._parameter(leaf, unit))]
        if len(words) < len(leaves) or self._is_local(keeper, file) or depth > _DEEPEST:
            self._keep(node, keeper, leaves, file, decided=decided)
        elif (here := decision(self.evaluation, node, unit.node, file)).guard is None and not any(
            self.carriers.is_emptied(keeper, file, node, rate) for rate in RATES
        ):
            decided &= here.decided
            for caller, call in unit.callers.values():
                given = [
                    one
                    for word in words
                    for one in passed_to(self.evaluation, unit, call, word)
                    if self._has_graph(one)
                ]
                if given:
                    holder = self._holder(keeper, unit, call)
                    self._take(call, holder, given, caller.at.file, depth + 1, decided=decided)

    def _holder(self, keeper: cst.BaseExpression, unit: Unit, call: cst.Call) -> cst.BaseExpression:
        """Return what keeps something, as a caller calls it."""
        name = root(keeper)
        assert isinstance(name, cst.Name)
        is_passed = bool(self._parameter(name, unit))
        given = passed_to(self.evaluation, unit, call, name.value) if is_passed else []
        func = call.func
        return given[0] if given else func.value if isinstance(func, cst.Attribute) else func

    def _keep(
        self,
        node: cst.CSTNode,
        keeper: cst.BaseExpression,
        leaves: list[cst.BaseExpression],
        file: int,
        *,
        decided: bool,
    ) -> None:
        """Take note of a carrier that outlives the loop of its step."""
        frequency = self.frequencies.of(node, file)
        rate = frequency.rate
        if rate not in RATES or frequency.guard is not None:
            return
        if self._is_local(keeper, file) and not self.carriers.is_in_loop(node, file, rate):
            return
        if self.carriers.is_emptied(keeper, file, node, rate):
            return
        kept = self.growths.get(id(node))
        both = {id(one): one for one in (*(kept.leaves if kept else ()), *leaves)}
        self.growths[id(node)] = Growth(
            node, keeper, tuple(both.values()), file, frequency, decided
        )

    def _parameter(self, node: cst.BaseExpression, unit: Unit) -> str:
        """Return the name of the parameter that an expression is, "" where it is none."""
        found = self.evaluation.bindings(node)
        is_one = bool(found) and all(one.kind is Bind.PARAMETER for one in found)
        return node.value if isinstance(node, cst.Name) and is_one and unit.callers else ""

    def _is_local(self, keeper: cst.BaseExpression, file: int) -> bool:
        """Whether a carrier ends with the call of the function that it stands in."""
        name = root(keeper)
        if not isinstance(name, cst.Name):
            return False
        index = self.evaluation.index(file)
        unit = unit_around(self.evaluation, keeper, file)
        owner = index.scope(name).owner(name.value)
        if isinstance(unit.node, cst.Module):
            return True
        if owner is None or owner is not unit.scope:
            return False
        is_parameter = any(one.kind is Bind.PARAMETER for one in owner.bindings[name.value])
        return not is_parameter or isinstance(index.parent(name), (cst.AssignTarget, cst.AugAssign))
