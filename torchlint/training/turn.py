"""What a turn of a loop computes of one row, where one operation could do it for all rows."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.contexts import AUTOCASTS, NO_GRAD
from torchlint.semantics.tables.tensors import FACTORIES, NUMBERS
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Library, Object, Sequence, Tensor, Unknown
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.index import Index

# What gives as much as there is: another number for each row.
UNEVEN = frozenset(
    """nonzero unique unique_consecutive argwhere masked_select bincount histc tolist numpy
    backward split chunk unbind repeat_interleave""".split()
)
RANDOM = ("torch.rand", "torch.normal", "torch.bernoulli")
JOINS = frozenset(f"torch.{name}" for name in "stack cat concat vstack hstack".split())
MOVES = frozenset("to cuda cpu detach clone contiguous view reshape unsqueeze squeeze".split())
_PLAIN = (cst.Integer, cst.Float, cst.SimpleString, cst.Ellipsis)


class Part(enum.IntEnum):
    """What an expression has of the turn."""

    FIXED = 0  # it is the same in all turns
    COUNT = 1  # the number of the turn
    INDEX = 2  # a number that was read from the row
    ROW = 3


class UnfitError(Exception):
    """The turns cannot be made at once, or it is not seen that they can."""


@dataclass(slots=True, eq=False)
class Turn:
    """One turn; ``parts`` has what its names are, ``taken`` the tensors of which it takes a row.

    ``sized`` are names of which a size is asked, as of a tensor.

    ``works``: it computes with the row; ``gives``: something is left of it after the turn;
    ``grown``: the lists that it appends to; ``unsure``: a row may be an entry of a list.
    """

    evaluation: Evaluation
    parts: dict[str, Part]
    sized: frozenset[str] = frozenset()
    taken: list[tuple[cst.BaseExpression, bool]] = field(default_factory=list)
    grown: list[cst.Name] = field(default_factory=list)
    bound: frozenset[str] = frozenset()
    works: bool = False
    gives: bool = False
    picks: bool = False
    unsure: bool = False

    def run(self, body: cst.BaseSuite, index: Index) -> None:
        """Read the statements of a turn."""
        self.bound = frozenset(_bound(body, index))
        self._block(body)

    def _block(self, body: cst.BaseSuite) -> None:
        for line in body.body:
            if isinstance(line, cst.With) and all(map(self._is_mode, line.items)):
                self._block(line.body)
                continue
            if not isinstance(line, (cst.SimpleStatementLine, cst.BaseSmallStatement)):
                raise UnfitError
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else [line]:
                self._statement(small)

    def _is_mode(self, item: cst.WithItem) -> bool:
        value = self.evaluation.value(item.item)
        return bool(value) and all(
            isinstance(one, Object) and (one.kind in NO_GRAD or one.kind in AUTOCASTS)
            for one in value
        )

    def _statement(self, small: cst.BaseSmallStatement) -> None:
        match small:
            case cst.Pass() | cst.Expr(cst.SimpleString()):
                return
            case cst.Assign(targets=[cst.AssignTarget(cst.Name() as name)], value=value):
                added = self._added(name.value, value)
                if added is None:
                    self.parts[name.value] = self.part(value)
                else:
                    self._keep(added)
            case cst.Assign(targets=[cst.AssignTarget(cst.Tuple(elements=elements))], value=value):
                part = self.part(value)
                for element in elements:
                    if not isinstance(element.value, cst.Name):
                        raise UnfitError
                    self.parts[element.value.value] = part
            case cst.Assign(targets=[cst.AssignTarget(cst.Subscript() as place)], value=value):
                self._store(place, value)
            case cst.AugAssign(target=target, value=value, operator=operator):
                if not isinstance(operator, (cst.AddAssign, cst.SubtractAssign)):
                    raise UnfitError
                if isinstance(target, cst.Subscript):
                    self._store(target, value)
                elif isinstance(target, cst.Name) and not self._has(target, Sequence):
                    self._keep(value)
                else:
                    raise UnfitError
            case cst.Expr(cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("append")),
                args=[cst.Arg(value)],
            )):  # fmt: skip
                self.grown.append(name)
                self._keep(value)
            case _:
                raise UnfitError

    def _keep(self, value: cst.BaseExpression) -> None:
        self.gives = self.part(value) is Part.ROW or self.gives

    def _store(self, place: cst.Subscript, value: cst.BaseExpression) -> None:
        """``table[i] = value``: each turn fills a place of its own."""
        first = place.slice[0].slice
        is_own = isinstance(first, cst.Index) and self.part(first.value) is Part.COUNT
        for one in place.slice[1:]:
            self._index(one.slice)
        if not is_own or not self._has(place.value, Tensor):
            raise UnfitError
        self._keep(value)

    def _added(self, name: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return what ``total = total + x``, ``total = torch.cat([total, x])`` add."""
        match value:
            case cst.BinaryOperation(cst.Name(left), cst.Add() | cst.Subtract(), right):
                return right if left == name else None
            case cst.BinaryOperation(left, cst.Add(), cst.Name(right)):
                return left if right == name else None
            case cst.Call(
                func=func,
                args=[cst.Arg(cst.List([cst.Element(cst.Name(first)), cst.Element(more)])), *_],
            ) if first == name and self._library(func) in JOINS:
                return more
        return None

    # -- expressions -------------------------------------------------------------------------

    def part(self, node: cst.BaseExpression) -> Part:
        """Return what an expression has of the turn."""
        match node:
            case cst.Name(value=name):
                if name in self.parts:
                    return self.parts[name]
                if name in self.bound:
                    raise UnfitError  # what another turn has left
                return Part.FIXED
            case cst.Subscript():
                return self._subscript(node)
            case cst.Attribute(value=owner):
                part = self.part(owner)
                return part if self._has(node, Tensor) else Part.FIXED
            case cst.Call():
                return self._call(node)
            case cst.BinaryOperation(left=left, right=right):
                return self._worked(left, right)
            case cst.Comparison(left=left, comparisons=targets):
                return self._worked(left, *(one.comparator for one in targets))
            case cst.UnaryOperation(expression=inner):
                return self._worked(inner)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return max((self.part(one.value) for one in elements), default=Part.FIXED)
        if isinstance(node, _PLAIN):
            return Part.FIXED
        raise UnfitError

    def _worked(self, *operands: cst.BaseExpression) -> Part:
        parts = [self.part(one) for one in operands]
        if Part.COUNT in parts:
            raise UnfitError
        self.works = self.works or Part.ROW in parts
        return max(parts, default=Part.FIXED)

    def _subscript(self, node: cst.Subscript) -> Part:
        base = self.part(node.value)
        parts = [self._index(one.slice) for one in node.slice]
        if base is not Part.FIXED:
            if any(part is not Part.FIXED for part in parts):
                raise UnfitError
            return base
        if parts.count(Part.COUNT) == 1 and max(parts) is Part.COUNT:
            if self._has(node.value, Tensor) or dotted(node.value) in self.sized:
                self.taken.append((node.value, parts[0] is Part.COUNT))
            elif self._has(node.value, Unknown):
                self.unsure = True
            else:
                raise UnfitError
            return Part.ROW
        if Part.COUNT in parts:
            raise UnfitError
        self.picks = self.picks or Part.INDEX in parts
        return Part.ROW if parts and max(parts) is not Part.FIXED else Part.FIXED

    def _index(self, index: cst.BaseSlice) -> Part:
        if isinstance(index, cst.Index):
            return self.part(index.value)
        match index:
            case cst.Slice(
                lower=cst.Name(value=low),
                upper=cst.BinaryOperation(cst.Name(value=name), cst.Add(), cst.Integer("1")),
            ) if low == name and self.parts.get(low) is Part.COUNT:
                return Part.COUNT  # a row that keeps its dimension
            case cst.Slice(lower=lower, upper=upper, step=step):
                bounds = [one for one in (lower, upper, step) if one is not None]
                if any(self.part(one) is not Part.FIXED for one in bounds):
                    raise UnfitError
        return Part.FIXED

    def _call(self, call: cst.Call) -> Part:
        if any(arg.star for arg in call.args):
            raise UnfitError
        parts = [self.part(arg.value) for arg in call.args]
        name, func = self._library(call.func), call.func
        last = name.rpartition(".")[2]
        if name.startswith("torch."):
            is_uneven = last in UNEVEN or (last == "where" and len(parts) == 1)
            if is_uneven or last.endswith("_") or name.startswith(RANDOM) or Part.COUNT in parts:
                raise UnfitError
            part = Part.FIXED if name in FACTORIES else max(parts, default=Part.FIXED)
            self.works = self.works or (part is Part.ROW and name not in JOINS)
            return part
        if name in ("builtins.float", "builtins.int") and parts:
            return Part.INDEX if parts[0] is Part.ROW else parts[0]
        if name == "builtins.len" and parts != [Part.COUNT]:
            return Part.FIXED
        value = self.evaluation.value(func)
        if value and all(
            isinstance(one, Object) and kind_of(one.kind) in ("module", "criterion")
            for one in value
        ):
            return self._worked(*(arg.value for arg in call.args))
        if isinstance(func, cst.Attribute):
            owner = self.part(func.value)
            if owner is Part.ROW or self._has(func.value, Tensor):
                return self._method(owner, func.attr.value, parts)
        raise UnfitError

    def _method(self, owner: Part, name: str, parts: list[Part]) -> Part:
        if name in UNEVEN or name.endswith("_") or Part.COUNT in parts:
            raise UnfitError
        part = max(owner, *parts, Part.FIXED)
        if name == "item":
            return Part.INDEX if part is Part.ROW else part
        if name in NUMBERS or name == "size":
            return Part.FIXED
        self.works = self.works or (part is Part.ROW and name not in MOVES)
        return part

    def _library(self, node: cst.BaseExpression) -> str:
        match self.evaluation.value(node):
            case (Library(name=name),):
                return name
        return ""

    def _has(self, node: cst.BaseExpression, kind: type) -> bool:
        value = self.evaluation.value(node)
        others = [one for one in value if not isinstance(one, kind)]
        return len(others) < len(value) and all(isinstance(one, Unknown) for one in others)


def _bound(body: cst.BaseSuite, index: Index) -> Iterator[str]:
    """Yield the names that statements give a value, or change."""
    for target in index.below(body, cst.AssignTarget):
        yield from _targets(target.target)
    for small in index.below(body, cst.AugAssign):
        yield from _targets(small.target)
    for call in index.below(body, cst.Call):
        match call.func:
            case cst.Attribute(value=cst.Name(name), attr=cst.Name("append")):
                yield name


def _targets(target: cst.BaseExpression) -> Iterator[str]:
    match target:
        case cst.Name(value=name) | cst.Subscript(value=cst.Name(value=name)):
            yield name
        case cst.Tuple(elements=elements):
            for element in elements:
                yield from _targets(element.value)
