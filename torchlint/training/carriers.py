"""Carriers: what keeps graphs, a name, an attribute or an entry, and what sets or empties it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Instance, Method, Number, Tensor, Truth
from torchlint.training.asked import assignments
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.index import Index
    from torchlint.training.frequency import Frequencies, Rate

EMPTIES = frozenset("clear pop popleft popitem detach_ zero_ fill_ copy_".split())
_LOOPS = (cst.For, cst.While)
_DEEPEST = 6  # calls


@dataclass(frozen=True, slots=True, eq=False)
class Carriers:
    """What is the same carrier, and in turns of which loops one is emptied."""

    evaluation: Evaluation
    frequencies: Frequencies

    def is_same(self, one: cst.BaseExpression, other: cst.BaseExpression, file: int) -> bool:
        """Whether two expressions of a file are one carrier, by how they are written."""
        module = self.evaluation.module(file)
        if type(one) is not type(other) or not module.same(one, other):
            return False
        first, second = root(one), root(other)
        if not isinstance(first, cst.Name) or not isinstance(second, cst.Name):
            return False
        scope = module.index.scope
        return scope(first).owner(first.value) is scope(second).owner(second.value)

    def denotes(self, one: cst.CSTNode, place: int, part: cst.BaseExpression, file: int) -> bool:
        """Whether an expression of a file is the same thing as one of another, or of the same."""
        match one, part:
            case cst.Name(), cst.Name():
                return place == file and self.is_same(one, part, file)
            case cst.Attribute(attr=first), cst.Attribute(attr=second):
                return first.value == second.value and self._related(one.value, part.value)
            case cst.Subscript(), cst.Subscript():
                return place == file and self.is_same(one, part, file)
        return False

    def _related(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        lineage, values = self.evaluation.classes.lineage, self.evaluation.values
        some, others = (
            {up.at for each in values.get(id(side), ()) if isinstance(each, Instance)
             for up in lineage(each.cls)}
            for side in (one, other)
        )  # fmt: skip
        return bool(some & others) or not (some or others)

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
            if place != file and not isinstance(part, cst.Attribute):
                continue
            for node, target, value in _stores(module.index):
                if not self.denotes(target, place, part, file):
                    continue
                reads = value is not None and any(
                    self.denotes(one, place, part, file) for one in self.operands(value, place)
                )
                if not reads and not self._is_first(node, place):
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
        if self.loop(node, file, rate) is not None:
            return True
        return any(
            self._runs_in(call, caller.at.file, rate, depth + 1)
            for caller, call in unit.callers.values()
        )

    def loop(self, node: cst.CSTNode, file: int, rate: Rate) -> cst.CSTNode | None:
        """Return the outermost loop around a node, in its function, that turns at a rate."""
        found = None
        unit = unit_around(self.evaluation, node, file)
        for above in self.evaluation.index(file).ancestors(node):
            if above is unit.node:
                break
            if isinstance(above, _LOOPS):
                at = self.evaluation.at(above, file)
                if self.frequencies.rate_of(at) is rate:
                    found = above
        return found

    def operands(self, node: cst.BaseExpression, file: int) -> Iterator[cst.BaseExpression]:
        """Yield what an expression is computed of by arithmetic and operations on tensors."""
        match node:
            case cst.BinaryOperation(left=left, right=right):
                yield from self.operands(left, file)
                yield from self.operands(right, file)
            case cst.UnaryOperation(expression=inner):
                yield from self.operands(inner, file)
            case cst.Call(func=func, args=args) if self._is_operation(node):
                if isinstance(func, cst.Attribute) and not self._is_library(func):
                    yield from self.operands(func.value, file)
                for arg in args:
                    yield from self.operands(arg.value, file)
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                for element in elements:
                    yield from self.operands(element.value, file)
            case _:
                yield node

    def _is_library(self, func: cst.BaseExpression) -> bool:
        return any(hasattr(one, "name") and not isinstance(one, Method)
                   for one in self.evaluation.value(func))  # fmt: skip

    def _is_operation(self, call: cst.Call) -> bool:
        """Whether a call's result has the graph of what it is given: ``torch.cat``, ``a.add``."""
        given = self.evaluation.value(call)
        if given and all(isinstance(one, (Number, Truth)) for one in given):  # ``a.size(0)``
            return False
        found = self.evaluation.value(call.func)
        return any(
            isinstance(one.owner, Tensor)
            if isinstance(one, Method)
            else getattr(one, "name", "").startswith("torch.")
            for one in found
        )


def root(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a carrier is a part of: ``self`` of ``self.totals[key]``."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node


def _stores(
    index: Index,
) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression | None]]:
    """Yield what sets, deletes or empties, with the target and what it is set to."""
    for assign in index.of(cst.Assign):
        for value, target in assignments([assign]):
            yield assign, target, value
    for one in index.of(cst.AnnAssign):
        if one.value is not None:
            yield one, one.target, one.value
    for loop in index.of(cst.For):
        yield loop.body, loop.target, None
    for deleted in index.of(cst.Del):
        target = deleted.target
        parts = (
            [part.value for part in target.elements] if isinstance(target, cst.Tuple) else [target]
        )
        for part in parts:
            yield deleted, part.value if isinstance(part, cst.Subscript) else part, None
    for call in index.of(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in EMPTIES:
            yield call, call.func.value, None
