"""Loops over the rows of a tensor, and comprehensions whose results are joined or added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.tables.torch_classes import WRAPPERS
from torchlint.semantics.values import (
    Device,
    Guess,
    Instance,
    Library,
    Object,
    Sequence,
    Tensor,
    Unknown,
)
from torchlint.syntax.chains import dotted
from torchlint.training.turn import JOINS, Part, Turn, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.index import Index
    from torchlint.training.script import Script

Gathered: TypeAlias = "cst.ListComp | cst.GeneratorExp"

MAKES = frozenset({"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor"})
DEEPEST = 4  # names between a tensor and the list that it was made of


@dataclass(frozen=True, slots=True, eq=False)
class RowLoop:
    """A loop that works on one row of a tensor in each turn.

    ``first``: the rows are those of the first dimension.  ``listed``: other rows come from a list.
    ``picks``: a turn reads from the device which entry it takes.
    """

    node: cst.For | Gathered
    over: cst.BaseExpression
    tensor: cst.BaseExpression
    on_gpu: bool
    first: bool
    listed: bool
    picks: bool


def row_loops(script: Script) -> Iterator[RowLoop]:
    """Yield the loops whose turns do for one row what could be done for all of them."""
    index = script.module.index
    for loop in index.of(cst.For):
        if loop.orelse is None and loop.asynchronous is None:
            yield from _found(script, loop, loop)
    gatherings: list[Gathered] = [*index.of(cst.ListComp), *index.of(cst.GeneratorExp)]
    for gathered in gatherings:
        over = gathered.for_in
        if over.inner_for_in is None and not over.ifs and _is_joined(script, gathered):
            yield from _found(script, gathered, over)


def _found(
    script: Script, node: cst.For | Gathered, loop: cst.For | cst.CompFor
) -> Iterator[RowLoop]:
    evaluation = script.connected.evaluation
    rows = _Rows(evaluation, script.module.index)
    if not rows.take(loop.target, loop.iter, is_outer=True) or _is_scripted(script, node):
        return
    turn = Turn(evaluation, rows.names, frozenset(rows.sized))
    try:
        if isinstance(node, cst.For):
            turn.run(node.body, script.module.index)
        else:
            turn.gives = turn.part(node.elt) in (Part.ROW, Part.INDEX)
    except UnfitError:
        return
    taken = [*rows.taken, *turn.taken]
    ends = all(_is_list_joined(script, name, node) for name in turn.grown)
    if turn.works and turn.gives and taken and ends:
        first = rows.first and all(one for _, one in taken)
        tensor = taken[0][0]
        on_gpu = any(getattr(one, "device", None) is Device.CUDA for one in script.value(tensor))
        listed = rows.listed or turn.unsure
        yield RowLoop(node, loop.iter, tensor, on_gpu, first, listed, turn.picks)


def _is_scripted(script: Script, node: cst.CSTNode) -> bool:
    """Whether the loop is compiled with its function: Python runs none of it."""
    function = script.module.function(node)
    return function is not None and any(
        script.name(one.decorator).startswith("torch.jit.") for one in function.decorators
    )


# -- what a loop takes in each turn ---------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """What a loop gives to names in each turn, and the tensors that it takes the rows of."""

    evaluation: Evaluation
    index: Index
    names: dict[str, Part] = field(default_factory=dict)
    taken: list[tuple[cst.BaseExpression, bool]] = field(default_factory=list)
    sized: set[str] = field(default_factory=set)
    first: bool = True
    listed: bool = False

    def take(
        self, target: cst.BaseExpression, over: cst.BaseExpression, *, is_outer: bool = False
    ) -> bool:
        """Whether a target gets a row of tensors, or the number of one, in each turn."""
        called = _library(self.evaluation, over.func) if isinstance(over, cst.Call) else ""
        args = [arg.value for arg in over.args] if isinstance(over, cst.Call) else []
        match called, target:
            case "builtins.range", cst.Name(value=name) if is_outer and len(args) == 1:
                sizes = self._sizes(args[0])
                self.names[name], self.first = Part.COUNT, sizes == {0}
                return bool(sizes)
            case "builtins.enumerate", cst.Tuple(elements=[count, row]) if args:
                if not isinstance(count.value, cst.Name):
                    return False
                self.names[count.value.value] = Part.COUNT
                return self.take(row.value, args[0])
            case "builtins.zip", cst.Tuple(elements=names) if len(names) == len(args):
                return self._zipped(
                    [(name.value, arg) for name, arg in zip(names, args, strict=True)]
                )
        if not isinstance(target, cst.Name) or not self._is_tensor(over):
            return False
        self.taken.append((over, True))
        self.names[target.value] = Part.ROW
        return True

    def _zipped(self, pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]]) -> bool:
        """Whether tensors are gone through; lists beside one that was made of a list."""
        lists = [pair for pair in pairs if not self.take(*pair)]
        for target, over in lists:
            value = self.evaluation.value(over)
            is_batch = self._is_tensor(over, sure=False)
            is_list = any(isinstance(one, (Sequence, Unknown)) for one in value)
            names = [
                part.value if isinstance(part, cst.Element) else part
                for part in (target.elements if isinstance(target, cst.Tuple) else [target])
            ]
            if not (is_batch or is_list) or not all(isinstance(one, cst.Name) for one in names):
                return False
            self.names.update((one.value, Part.ROW) for one in names if isinstance(one, cst.Name))
            self.listed = self.listed or not is_batch
        made = (_is_of_list(self.evaluation, self.index, tensor, 0) for tensor, _ in self.taken)
        return bool(self.taken) and (not self.listed or all(made))

    def _sizes(self, count: cst.BaseExpression) -> set[int]:
        """Return of which dimensions of tensors a number is the size."""
        found: set[int] = set()
        for node, path in _definitions(self.evaluation, count):
            size = self._size(node, path)
            if size is None:
                return set()
            found.add(size)
        return found

    def _size(self, node: cst.CSTNode | None, path: tuple[int, ...]) -> int | None:
        match node:
            case cst.Call(func=cst.Name(), args=[cst.Arg(tensor)]) if not path:
                is_len = _library(self.evaluation, node.func) == "builtins.len"
                return 0 if is_len and self._is_tensor(tensor, sure=False) else None
            case cst.Call(func=cst.Attribute(tensor, cst.Name("size")), args=[cst.Arg(dim)]):
                self.sized.add(dotted(tensor))
                place = _number(dim)
            case cst.Subscript(
                value=cst.Attribute(tensor, cst.Name("shape"))
                | cst.Call(func=cst.Attribute(tensor, cst.Name("size")), args=[]),
                slice=[cst.SubscriptElement(cst.Index(dim))],
            ):
                place = _number(dim)
            case (
                cst.Attribute(tensor, cst.Name("shape"))
                | cst.Call(func=cst.Attribute(tensor, cst.Name("size")), args=[])
            ) if path:
                place = path[0]
            case _:
                return None
        value = self.evaluation.value(tensor)
        is_fit = not self._is_kept(tensor) and all(isinstance(o, (Tensor, Unknown)) for o in value)
        return place if is_fit else None

    def _is_tensor(self, node: cst.BaseExpression, *, sure: bool = True) -> bool:
        """Whether an expression is a tensor, and no state of an object."""
        value = self.evaluation.value(node)
        return (
            any(isinstance(one, Tensor) for one in value)
            and all(
                isinstance(one, Tensor) and one.sure if sure else isinstance(one, (Tensor, Unknown))
                for one in value
            )
            and not self._is_kept(node)
            and not any(self._is_output(one) for one, _ in _definitions(self.evaluation, node))
        )

    def _is_kept(self, node: cst.BaseExpression) -> bool:
        """``self.queue``: of what an object keeps the rows are few, or no samples."""
        owner = node.value if isinstance(node, cst.Attribute) else None
        value = self.evaluation.value(owner)
        return any(isinstance(one, Instance) for one in value)

    def _is_output(self, node: cst.CSTNode | None) -> bool:
        """Whether something comes from a model that is not seen: it may be several tensors."""
        value = self.evaluation.value(node.func) if isinstance(node, cst.Call) else ()
        return any(
            isinstance(one, (Guess, Unknown)) or (isinstance(one, Object) and one.kind in WRAPPERS)
            for one in value
        )


def _number(node: cst.BaseExpression) -> int | None:
    return int(node.value) if isinstance(node, cst.Integer) else None


def _definitions(
    evaluation: Evaluation, node: cst.BaseExpression
) -> list[tuple[cst.CSTNode | None, tuple[int, ...]]]:
    """Return what a name is given, each with the way from there to what it gets."""
    if not isinstance(node, cst.Name):
        return [(node, ())]
    return [(one.value, one.path) for one in evaluation.bindings(node)]


def _is_of_list(evaluation: Evaluation, index: Index, node: cst.CSTNode, depth: int) -> bool:
    """``torch.tensor(returns)``, also where it has been scaled."""
    if any(_library(evaluation, call.func) in MAKES for call in index.below(node, cst.Call)):
        return True
    return depth < DEEPEST and any(
        value is not None and _is_of_list(evaluation, index, value, depth + 1)
        for name in index.below(node, cst.Name)
        for value, _ in _definitions(evaluation, name)
    )


# -- what becomes of what the turns give ----------------------------------------------------------


def _is_list_joined(script: Script, name: cst.Name, loop: cst.CSTNode) -> bool:
    """Whether a list of results is stacked or added up: they all have the same shape."""
    index = script.module.index
    return any(
        _is_joined(script, use)
        for use in index.named[name.value]
        if index.scope(use) is index.scope(name) and not index.inside(use, loop)
    )


def _is_joined(script: Script, node: cst.CSTNode) -> bool:
    """Whether a list is given to `torch.stack`, `torch.cat` or `sum`."""
    arg = script.module.parent(node)
    call = script.module.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not arg:
        return False
    return script.name(call.func) in JOINS | {"builtins.sum"}


def _library(evaluation: Evaluation, node: cst.BaseExpression) -> str:
    match evaluation.value(node):
        case (Library(name=name),):
            return name
    return ""
