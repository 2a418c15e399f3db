"""Which totals and containers keep the graph of each step alive: carriers that outlive their loop.

A total that a tensor is added to, or a container that one is put into, keeps what autograd would go
back through from there.  A carrier that is new in each turn of the loop, or emptied in it, keeps
one turn's at most; one that a gradient is asked of needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    Dictionary,
    Method,
    Sequence,
    Tensor,
)
from torchlint.syntax.calls import has_keyword
from torchlint.syntax.scopes import Bind
from torchlint.training.asked import assignments, passed_to
from torchlint.training.carriers import root
from torchlint.training.effects import unit_around
from torchlint.training.frequency import Rate
from torchlint.training.guards import guard_between
from torchlint.training.undecided import undecided_between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At
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
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for file, module in enumerate(self.evaluation.files.modules):
            for node, keeper, leaves in self._grown(file):
                if id(node) not in self._seen and not self._is_asked(keeper, node, file):
                    self._seen.add(id(node))
                    self._take(module.smallest_statement(node), keeper, leaves, file)

    # -- what grows --------------------------------------------------------------------------

    def _grown(
        self, file: int
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, list[cst.BaseExpression]]]:
        index = self.evaluation.index(file)
        for node in index.of(cst.AugAssign):
            adds = isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
            if adds and self._grows(node):
                yield node, node.target, list(self._leaves(node.value, None, file))
        for assign in index.of(cst.Assign):
            for value, target in assignments([assign]):
                own = next((one for one in self.carriers.operands(value, file)
                            if self.carriers.is_same(one, target, file)), None)  # fmt: skip
                if own is not None and self._grows(value):
                    yield assign, target, list(self._leaves(value, own, file))
        for call in index.of(cst.Call):
            if isinstance(call.func, cst.Attribute) and self._puts(call):
                leaves = [leaf for arg in call.args for leaf in self._leaves(arg.value, None, file)]
                yield call, call.func.value, leaves

    def _grows(self, node: cst.CSTNode) -> bool:
        """Whether what a carrier becomes keeps a graph: not where gradients are off."""
        value = self.evaluation.value(node)
        return any(
            self.models.keeps(one) if isinstance(one, Tensor) else isinstance(one, Sequence)
            for one in value
        )

    def _puts(self, call: cst.Call) -> bool:
        for one in self.evaluation.value(call.func):
            match one:
                case Method(owner=Sequence(made=made) | Dictionary(made=made), name=name):
                    if name in _PUTS and made is not None and not self._is_bounded(made):
                        return True
                case Method(owner=Tensor(), name=name) if name in _IN_PLACE:
                    return True
        return False

    def _is_bounded(self, made: At) -> bool:
        """``deque(maxlen=10)``."""
        node = self.evaluation.node(made)
        return isinstance(node, cst.Call) and (len(node.args) > 1 or has_keyword(node, ("maxlen",)))

    def _leaves(
        self, node: cst.BaseExpression, own: cst.BaseExpression | None, file: int
    ) -> Iterator[cst.BaseExpression]:
        """Yield the parts of what is kept that have a graph, but for the carrier itself."""
        index = self.evaluation.index(file)
        holds_own = own is not None and index.inside(own, node)
        if node is own or not (holds_own or self._has_graph(node)):
            return
        match node:
            case cst.BinaryOperation(left=left, right=right):
                parts = [left, right]
            case cst.UnaryOperation(expression=inner):
                parts = [inner]
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                parts = [one.value for one in elements]
            case cst.Dict(elements=items):
                parts = [one.value for one in items]
            case cst.Call(func=func, args=args) if holds_own:
                parts = [arg.value for arg in args]
                parts += [func.value] if isinstance(func, cst.Attribute) else []
            case _:
                if self._is_tensor(node):
                    yield node
                return
        for part in parts:
            yield from self._leaves(part, own, file)

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        value = self.evaluation.value(node)
        return any(isinstance(one, Tensor) and self.models.keeps(one) for one in value)

    def _has_graph(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
            return True
        return self._is_tensor(node)

    # -- where it is kept --------------------------------------------------------------------

    def _take(
        self,
        node: cst.CSTNode,
        keeper: cst.BaseExpression,
        leaves: list[cst.BaseExpression],
        file: int,
    ) -> None:
        """Take note of what is kept here, or of what callers hand on to be kept here."""
        handed = [leaf for leaf in leaves if self._is_parameter(leaf, file)]
        if handed and len(handed) == len(leaves) and not self._is_local(keeper, file):
            unit = unit_around(self.evaluation, node, file)
            if guard_between(self.evaluation, node, unit.node, file) is None and not any(
                self.carriers.is_emptied(keeper, file, node, rate) for rate in RATES
            ):
                decided = not undecided_between(self.evaluation, node, unit.node, file)
                for leaf in handed:
                    assert isinstance(leaf, cst.Name)
                    self._lift(unit, leaf.value, keeper, 0, decided=decided)
            return
        if leaves:
            self._keep(node, keeper, leaves, file, decided=True)

    def _lift(
        self, unit: Unit, word: str, keeper: cst.BaseExpression, depth: int, *, decided: bool
    ) -> None:
        """Go to the callers of a function that keeps what it is given."""
        for caller, call in unit.callers.values():
            file = caller.at.file
            for given in passed_to(self.evaluation, unit, call, word):
                if not self._is_tensor(given):
                    continue
                if self._is_parameter(given, file) and caller.callers and depth < _DEEPEST:
                    assert isinstance(given, cst.Name)
                    inner = decided and not undecided_between(
                        self.evaluation, call, caller.node, file
                    )
                    self._lift(caller, given.value, keeper, depth + 1, decided=inner)
                    continue
                receiver = call.func.value if isinstance(call.func, cst.Attribute) else keeper
                self._keep(call, receiver, [given], file, decided=decided)

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
        if frequency.rate not in RATES or frequency.guard is not None:
            return
        if self._is_local(keeper, file) and self.carriers.loop(node, file, frequency.rate) is None:
            return
        if self.carriers.is_emptied(keeper, file, node, frequency.rate):
            return
        kept = self.growths.get(id(node))
        if kept is not None:
            leaves = list({id(one): one for one in (*kept.leaves, *leaves)}.values())
        made = Growth(node, keeper, tuple(leaves), file, frequency, decided)
        self.growths[id(node)] = made

    def _is_parameter(self, node: cst.BaseExpression, file: int) -> bool:
        if not isinstance(node, cst.Name):
            return False
        found = self.evaluation.bindings(node)
        unit = unit_around(self.evaluation, node, file)
        is_all = bool(found) and all(one.kind is Bind.PARAMETER for one in found)
        return is_all and bool(unit.callers)

    def _is_local(self, keeper: cst.BaseExpression, file: int) -> bool:
        """Whether a carrier ends with the call of the function that it stands in."""
        name = root(keeper)
        if not isinstance(name, cst.Name):
            return False
        index = self.evaluation.index(file)
        owner = index.scope(name).owner(name.value)
        unit = unit_around(self.evaluation, keeper, file)
        if owner is not unit.scope or isinstance(unit.node, cst.Module):
            return isinstance(unit.node, cst.Module)
        bindings = owner.bindings.get(name.value, ())
        if not any(one.kind is Bind.PARAMETER for one in bindings):
            return True
        is_bound_anew = isinstance(index.parent(name), cst.AssignTarget)
        return is_bound_anew and not any(
            isinstance(one.value, cst.Name) and one.value.value == name.value
            for one in index.below(unit.node, cst.Return)
        )

    def _is_asked(self, keeper: cst.BaseExpression, node: cst.CSTNode, file: int) -> bool:
        """Whether a gradient of a carrier may be asked, beside its own growth."""
        index = self.evaluation.index
        return any(
            isinstance(one, _CARRIERS)
            and not (place == file and index(file).inside(one, node))
            and self.carriers.denotes(one, place, keeper, file)
            for one, place in self.asked.nodes.values()
        )
