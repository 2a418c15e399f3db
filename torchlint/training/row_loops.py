"""Loops over the rows of a tensor whose turns do for one row what could be done for all at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import libcst as cst

from torchlint.semantics.tables.torch_classes import WRAPPERS, kind_of
from torchlint.semantics.values import Device, Guess, Object, Sequence, Tensor, Unknown
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.syntax.scopes import Binding
    from torchlint.training.script import Script

Gathered: TypeAlias = "cst.ListComp | cst.GeneratorExp"

JOINS = frozenset(f"torch.{name}" for name in "stack cat concat vstack hstack".split())
# What gives as much as there is, another number for each row, and what draws random numbers.
UNEVEN = frozenset(
    """nonzero unique unique_consecutive argwhere masked_select bincount histc tolist numpy
    backward split chunk unbind repeat_interleave where rand randn randint randperm normal
    bernoulli""".split()
)
MOVES = frozenset("to cuda cpu detach clone contiguous view reshape unsqueeze squeeze".split())
OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)
LAYERS = frozenset({"module", "criterion"})
_CHOICES = (cst.IfExp, cst.BooleanOperation, cst.NamedExpr, cst.Lambda, cst.BaseComp)
UNFIT = (*_CHOICES, cst.Await, cst.Yield, cst.FormattedString)


class _Step(NamedTuple):
    """A statement of a turn: the names that it changes, what it computes, whether that is left."""

    names: set[str]
    values: list[cst.BaseExpression]
    is_kept: bool


@dataclass(slots=True)
class RowLoop:
    """A loop that works on one row of a tensor in each turn.

    ``first``: the rows are those of the first dimension.  ``listed``: other rows come from a list.
    ``picks``: a turn reads which entry it takes.  ``names`` are those that hold something of the
    row, ``count`` the number of the turn, ``sized`` tensors of which a size is asked.
    """

    script: Script
    node: cst.For | Gathered
    over: cst.BaseExpression
    tensors: list[cst.BaseExpression] = field(default_factory=list)
    first: bool = True
    listed: bool = False
    picks: bool = False
    count: str = ""
    sized: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    works: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether the tensor is on a GPU."""
        value = self.script.value(self.tensors[0])
        return any(isinstance(one, Tensor) and one.device is Device.CUDA for one in value)

    @property
    def is_row_by_row(self) -> bool:
        """Whether its turns compute with rows."""
        return self.works and bool(self.tensors)

    # -- what it goes through ------------------------------------------------------------------

    def takes(self, target: cst.BaseExpression, over: cst.BaseExpression) -> bool:
        """Whether a target gets a row of tensors, or the number of one, in each turn."""
        called = self.script.name(over.func) if isinstance(over, cst.Call) else ""
        args = [arg.value for arg in over.args] if isinstance(over, cst.Call) else []
        match called, target:
            case "builtins.range", cst.Name(value=name) if len(args) == 1:
                self.count, sizes = name, set(self._sizes(args[0]))
                self.first = sizes == {0}
                return bool(sizes) and None not in sizes
            case "builtins.enumerate", cst.Tuple(elements=[count, row]) if args:
                self.count = count.value.value if isinstance(count.value, cst.Name) else ""
                return self.takes(row.value, args[0])
            case "builtins.zip", cst.Tuple(elements=names) if len(names) == len(args):
                taken = [self.takes(one.value, arg) for one, arg in zip(names, args, strict=True)]
                lists = [one for one, is_taken in zip(args, taken, strict=True) if not is_taken]
                index, kinds = self.script.module.index, (Sequence, Unknown, Tensor)
                self.names |= {one.value for one in index.below(target, cst.Name)}
                self.listed = not all(map(self._may_be_tensor, lists))
                held = [one for over in lists for one in self.script.value(over)]
                return any(taken) and all(isinstance(one, kinds) for one in held)
        if not isinstance(target, cst.Name) or not self._is_tensor(over):
            return False
        self.tensors.append(over)
        self.names.add(target.value)
        return True

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is one tensor: what an unseen model gives may be several."""
        value = self.script.value(node)
        made = [one.value for one in self._bindings(node)] or [node]
        calls = [one for one in made if isinstance(one, cst.Call)]
        outputs = [
            one
            for call in calls
            for one in self.script.value(call.func)
            if isinstance(one, (Guess, Unknown)) or getattr(one, "kind", "") in WRAPPERS
        ]
        return bool(value) and not outputs and all(isinstance(t, Tensor) and t.sure for t in value)

    def _bindings(self, node: cst.BaseExpression) -> tuple[Binding, ...]:
        return self.script.connected.evaluation.bindings(node)

    def _sizes(self, count: cst.BaseExpression) -> Iterator[int | None]:
        """Yield of which dimensions of tensors a number is the size, None where of none."""
        given = [(one.value, one.path) for one in self._bindings(count)] or [(count, ())]
        for node, path in given:
            sized, place = node, path[0] if path else None
            match node:
                case cst.Subscript(inner, [cst.SubscriptElement(cst.Index(cst.Integer(dim)))]):
                    sized, place = inner, int(dim)
            match sized:
                case cst.Call(cst.Name() as func, [cst.Arg(of)]) if place is None:
                    place = 0 if self.script.name(func) == "builtins.len" else None
                case cst.Call(cst.Attribute(of, cst.Name("size")), [cst.Arg(cst.Integer(dim))]):
                    place = int(dim)
                    self.sized.add(dotted(of))
                case cst.Attribute(of, cst.Name("shape")) | cst.Call(
                    cst.Attribute(of, cst.Name("size")), []
                ):
                    pass
                case _:
                    place, of = None, count
            yield place if self._may_be_tensor(of) else None

    def _may_be_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a tensor as far as it is known, or asked for a size as one."""
        value = self.script.value(node)
        others = [one for one in value if not isinstance(one, Tensor)]
        is_likely = len(others) < len(value) and all(isinstance(one, Unknown) for one in others)
        return is_likely or dotted(node) in self.sized

    # -- what it does in each turn -------------------------------------------------------------

    def fits(self, body: cst.BaseSuite) -> bool:
        """Whether no turn needs what another one made, and what they make is joined or added up."""
        steps = [
            self._step(small)
            for line in body.body
            for small in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
        ]
        bound = {name for step in steps if step for name in step.names}
        gives = False
        for step in steps:
            if step is None or not all(map(self.computes, step.values)):
                return False
            if any(one in bound for value in step.values for one in self._read(value)):
                return False
            if any(map(self._varies, step.values)):
                self.names |= step.names
                gives = gives or step.is_kept
            bound -= set() if step.is_kept else step.names
        return gives

    def _step(self, line: cst.BaseSmallStatement | cst.BaseStatement) -> _Step | None:
        match line:
            case cst.Assign(
                [cst.AssignTarget(cst.Name(name))],
                cst.BinaryOperation(cst.Name(total), cst.Add() | cst.Subtract(), value),
            ) if name == total:
                return _Step({name}, [value], is_kept=True)
            case cst.AugAssign(cst.Name(name), cst.AddAssign() | cst.SubtractAssign(), value):
                return _Step({name}, [value], is_kept=True)
            case cst.Assign([cst.AssignTarget(cst.Name() | cst.Tuple() as target)], value):
                names = {one.value for one in self.script.module.index.below(target, cst.Name)}
                return _Step(names, [value], is_kept=False)
            case cst.Assign(
                [cst.AssignTarget(cst.Subscript(cst.Name(name)) as place)], value
            ) | cst.AugAssign(cst.Subscript(cst.Name(name)) as place, cst.AddAssign(), value) if (
                self._uses(place.slice[0].slice) and self._may_be_tensor(place.value)
            ):
                others = [one.slice for one in place.slice[1:]]
                indices = [one.value for one in others if isinstance(one, cst.Index)]
                return _Step({name}, [value, *indices], is_kept=True)
            case cst.Expr(
                cst.Call(cst.Attribute(cst.Name() as rows, cst.Name("append")), [cst.Arg(value)])
            ) if self._is_list_joined(rows):
                return _Step({rows.value}, [value], is_kept=True)
        return None

    def _is_list_joined(self, name: cst.Name) -> bool:
        """Whether a list of results is stacked or added up: they all have the same shape."""
        index = self.script.module.index
        return any(
            is_joined(self.script, use)
            for use in index.named[name.value]
            if index.scope(use) is index.scope(name) and not index.inside(use, self.node)
        )

    # -- expressions -----------------------------------------------------------------------------

    def _read(self, node: cst.CSTNode) -> Iterator[str]:
        values = self.script.connected.evaluation.values
        below = self.script.module.index.below(node, cst.Name)
        return (one.value for one in below if id(one) in values)

    def _varies(self, node: cst.CSTNode) -> bool:
        """Whether an expression has something of the row, or its number."""
        return any(one == self.count or one in self.names for one in self._read(node))

    def computes(self, node: cst.BaseExpression) -> bool:
        """Whether an expression does the same with torch for each row, as long as they all are."""
        index = self.script.module.index
        counted = [self._subscript(one) for one in index.below(node, cst.Subscript)]
        calls = [self._call(one) for one in index.below(node, cst.Call)]
        if None in counted or None in calls or any(any(index.below(node, one)) for one in UNFIT):
            return False
        works = (one for kind in OPERATIONS for one in index.below(node, kind))
        self.works = self.works or True in calls or any(map(self._varies, works))
        uses = sum(one == self.count for one in self._read(node))
        return uses == sum(one for one in counted if one)

    def _uses(self, one: cst.BaseSlice) -> int:
        """Return how often ``i`` and ``i : i + 1``, which take one row, name the number."""
        match one:
            case cst.Index(cst.Name(name)):
                return int(name == self.count)
            case cst.Slice(cst.Name(low), cst.BinaryOperation(cst.Name(high), cst.Add())):
                return 2 * (low == high == self.count)
        return 0

    def _subscript(self, node: cst.Subscript) -> int | None:
        """Return how often an index names the number of the turn, None where it does not fit."""
        uses = [self._uses(one.slice) for one in node.slice]
        others = [one.slice for one, used in zip(node.slice, uses, strict=True) if not used]
        varies = [one for one in others if self._varies(one)]
        if (self._varies(node.value) or any(uses)) and varies:
            return None  # a mask, as long a piece as the row says, a diagonal
        if any(uses):
            if self._varies(node.value) or not self._may_be_tensor(node.value):
                return None
            self.tensors.append(node.value)
            self.first = self.first and bool(uses[0])
        self.picks = self.picks or bool(varies)
        return None if any(isinstance(one, cst.Slice) for one in varies) else sum(uses)

    def _call(self, call: cst.Call) -> bool | None:
        """Return whether a call computes with the row, None where it does not fit."""
        name, owner = self.script.name(call.func), getattr(call.func, "value", call)
        last = name.rpartition(".")[2] or last_name(call.func)
        is_choice = last == "where" and len(call.args) == 3
        is_uneven = last in UNEVEN and not is_choice
        if is_uneven or last.endswith("_") or any(arg.star for arg in call.args):
            return None
        if name in ("builtins.float", "builtins.int", "builtins.len"):
            return False
        value = self.script.value(call.func)
        kinds = {kind_of(one.kind) if isinstance(one, Object) else "" for one in value}
        is_method = isinstance(call.func, cst.Attribute) and not name
        is_of_tensor = is_method and (self._varies(owner) or self._may_be_tensor(owner))
        if name.startswith("torch.") or is_of_tensor or (kinds and kinds <= LAYERS):
            return last not in MOVES and name not in JOINS and self._varies(call)
        return None


def row_loops(script: Script) -> Iterator[RowLoop]:
    """Yield the loops whose turns do for one row what could be done for all of them."""
    index = script.module.index
    for loop in index.of(cst.For):
        found = RowLoop(script, loop, loop.iter)
        if found.takes(loop.target, loop.iter) and found.fits(loop.body) and found.is_row_by_row:
            yield found
    gatherings: list[Gathered] = [*index.of(cst.ListComp), *index.of(cst.GeneratorExp)]
    for one in gatherings:
        over = one.for_in
        found = RowLoop(script, one, over.iter)
        if over.inner_for_in is None and not over.ifs and is_joined(script, one):
            fits = found.takes(over.target, over.iter) and found.computes(one.elt)
            yield from [found] if fits and found.is_row_by_row else []


def is_joined(script: Script, node: cst.CSTNode) -> bool:
    """Whether a list is given to `torch.stack`, `torch.cat` or `sum`."""
    arg = script.module.parent(node)
    call = script.module.parent(arg) if isinstance(arg, cst.Arg) else None
    return (
        isinstance(call, cst.Call)
        and call.args[0] is arg
        and script.name(call.func) in JOINS | {"builtins.sum"}
    )
