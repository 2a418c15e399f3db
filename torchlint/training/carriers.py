"""Carriers: what keeps graphs, a name, an attribute or an entry, and what sets or empties it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Method, Tensor
from torchlint.training.asked import assignments
from torchlint.training.between import loops
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.index import Index
    from torchlint.training.frequency import Frequencies, Rate

EMPTIES = frozenset("clear pop popleft popitem detach_ zero_ fill_ copy_".split())
_DEEPEST = 6  # calls


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """What is the same carrier, and in turns of which loops one is emptied."""

    evaluation: Evaluation
    frequencies: Frequencies

    def denotes(self, one: cst.CSTNode, place: int, part: cst.CSTNode, file: int) -> bool:
        """Whether an expression of a file is the same carrier as one of another, or of the same."""
        if isinstance(one, cst.Attribute) and isinstance(part, cst.Attribute):
            return one.attr.value == part.attr.value
        first, second = root(one), root(part)
        if type(one) is not type(part) or place != file:
            return False
        if not isinstance(first, cst.Name) or not isinstance(second, cst.Name):
            return False
        module = self.evaluation.module(file)
        owners = {id(module.index.scope(name).owner(name.value)) for name in (first, second)}
        return module.same(one, part) and len(owners) == 1

    def is_emptied(
        self, keeper: cst.BaseExpression, file: int, node: cst.CSTNode, rate: Rate
    ) -> bool:
        """Whether a carrier, or what holds it, is set or emptied in the loop that turns it."""
        part: cst.BaseExpression = keeper
        while isinstance(part, (cst.Name, cst.Attribute, cst.Subscript)):
            for store, place in self._changes(part, file):
                if store is not node and self._runs_in(store, place, rate, 0):
                    return True
            if isinstance(part, cst.Name):
                break
            part = part.value
        return False

    def _changes(self, part: cst.BaseExpression, file: int) -> Iterator[tuple[cst.CSTNode, int]]:
        """Yield what sets or empties something, each with its file."""
        for place, module in enumerate(self.evaluation.files.modules):
            if place == file or isinstance(part, cst.Attribute):
                for node, target, value in _stores(module.index):
                    if self.denotes(target, place, part, file) and not (
                        any(
                            self.denotes(one, place, part, file)
                            for one in parts(value, self.is_operation)
                        )
                        or self._is_first(node, place)
                    ):
                        yield node, place

    def _is_first(self, node: cst.CSTNode, file: int) -> bool:
        """``if self.total is None:``, ``if name not in totals:``: that is set once."""
        for above in self.evaluation.index(file).ancestors(node):
            match above:
                case cst.If(test=cst.Comparison(comparisons=[target])):
                    if isinstance(target.operator, (cst.Is, cst.NotIn)):
                        return True
                case cst.FunctionDef() | cst.For() | cst.While():
                    return False
        return False

    def _runs_in(self, node: cst.CSTNode, file: int, rate: Rate, depth: int) -> bool:
        """Whether something runs in turns of a loop of this rate, but for what makes objects."""
        unit = unit_around(self.evaluation, node, file)
        name = getattr(getattr(unit.node, "name", None), "value", "")
        if name == "__init__" or depth > _DEEPEST:
            return False
        return self.is_in_loop(node, file, rate) or any(
            self._runs_in(call, caller.at.file, rate, depth + 1)
            for caller, call in unit.callers.values()
        )

    def is_in_loop(self, node: cst.CSTNode, file: int, rate: Rate) -> bool:
        """Whether a loop around a node, in its function, turns at a rate."""
        unit = unit_around(self.evaluation, node, file)
        around = loops(self.evaluation, node, unit.node, file)
        at, rate_of = self.evaluation.at, self.frequencies.rate_of
        return any(rate_of(at(loop, file)) is rate for loop in around)

    def is_operation(self, call: cst.Call) -> bool:
        """Whether a call's result has the graph of what it is given: ``torch.cat``, ``a.add``."""
        return any(isinstance(one, Tensor) for one in self.evaluation.value(call)) and any(
            isinstance(one.owner, Tensor)
            if isinstance(one, Method)
            else isinstance(one, Library) and one.name.startswith("torch.")
            for one in self.evaluation.value(call.func)
        )


def root(node: cst.CSTNode) -> cst.CSTNode:
    """Return what a carrier is a part of: ``self`` of ``self.totals[key]``."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node


def parts(
    node: cst.BaseExpression | None, opens: Callable[[cst.Call], bool]
) -> Iterator[cst.BaseExpression]:
    """Yield what an expression is computed of by arithmetic, by displays and by some calls."""
    match node:
        case None:
            return
        case cst.BinaryOperation(left=left, right=right):
            inner = [left, right]
        case cst.UnaryOperation(expression=one):
            inner = [one]
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            inner = [one.value for one in elements]
        case cst.Dict(elements=items):
            inner = [one.value for one in items]
        case cst.Call(func=func, args=args) if opens(node):
            inner = [arg.value for arg in args]
            inner += [func.value] if isinstance(func, cst.Attribute) else []
        case _:
            yield node
            return
    for one in inner:
        yield from parts(one, opens)


def _stores(
    index: Index,
) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression | None]]:
    """Yield what sets, deletes or empties, with the target and what it is set to."""
    for assign in (*index.of(cst.Assign), *index.of(cst.AnnAssign)):
        for value, target in assignments(assign):
            yield assign, target, value
    for deleted in index.of(cst.Del):
        part = deleted.target
        yield deleted, part.value if isinstance(part, cst.Subscript) else part, None
    for call in index.of(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in EMPTIES:
            yield call, call.func.value, None
