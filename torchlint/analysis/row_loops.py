"""Loops over the rows of a tensor, whose turns each compute with one row what could be one step.

``for i in range(x.size(0)): out[i] = f(x[i])``, ``for row in x``, ``for a, b in zip(x, y)``, and
the comprehensions of that kind which are stacked or added up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.derivation import sources
from torchlint.analysis.host_results import is_for_drawing
from torchlint.analysis.loops import Role
from torchlint.analysis.per_sample import measured
from torchlint.analysis.turns import JOINS, Part, Turn, UnfitError, is_tensor
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.places import locate
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Context
    from torchlint.analysis.program import Program

_Loop: TypeAlias = cst.For | cst.CompFor
_Gathered: TypeAlias = cst.ListComp | cst.GeneratorExp

_SPARES = re.compile(r"#.*\b(memory|OOM)\b", re.IGNORECASE)
_MAKES = ("torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor")


@dataclass(frozen=True, slots=True, eq=False)
class RowLoop:
    """A loop, or a comprehension, that works on one row of a tensor in each turn.

    ``first``: the rows are those of the first dimension.  ``listed``: the other rows come from a
    list.  ``picks``: a turn reads from the device which entry it takes.
    """

    node: cst.For | _Gathered
    tensor: cst.BaseExpression
    context: Context
    first: bool
    listed: bool
    picks: bool


def row_loops(program: Program) -> Iterator[RowLoop]:
    """Yield the loops over rows that run in every training step or forward pass."""
    for loop in program.index.of(cst.For):
        if loop.orelse is None and loop.asynchronous is None:
            yield from _found(program, loop, loop)
    gatherings: list[_Gathered] = [*program.index.of(cst.ListComp)]
    gatherings += program.index.of(cst.GeneratorExp)
    for gathered in gatherings:
        over = gathered.for_in
        if over.inner_for_in is None and not over.ifs and _is_joined(program, gathered):
            yield from _found(program, gathered, over)


def _found(program: Program, node: cst.For | _Gathered, loop: _Loop) -> Iterator[RowLoop]:
    """Yield the loop, if each turn does for one row what could be done for all of them."""
    rows = _rows(program, loop)
    if rows is None:
        return
    context = program.context(node.body if isinstance(node, cst.For) else node.elt)
    if not _is_frequent(program, context) or is_for_drawing(program, node):
        return
    if _is_scripted(program, node):
        return
    turn = Turn(program)
    turn.parts.update(rows.names)
    try:
        if isinstance(node, cst.For):
            turn.run(node.body)
        else:
            turn.gives = turn.part(node.elt) in (Part.ROW, Part.INDEX)
    except UnfitError:
        return
    taken = [*rows.taken, *turn.taken]
    ends = all(_is_list_joined(program, name) for name in turn.grown)
    if turn.works and turn.gives and taken and ends and not _spares_memory(program, node):
        first = rows.first and all(one for _, one in taken)
        yield RowLoop(node, taken[0][0], context, first, rows.listed, turn.picks)


def _is_frequent(program: Program, context: Context) -> bool:
    trains = context.role is Role.TRAIN or (context.role is Role.FORWARD and program.loops.trains)
    return trains and not context.guarded


def _is_scripted(program: Program, node: cst.CSTNode) -> bool:
    """Whether the loop is compiled with its function: Python runs none of it."""
    function = program.function(node)
    return function is not None and any(
        program.qualified(one.decorator).startswith("torch.jit.") for one in function.decorators
    )


def _spares_memory(program: Program, node: cst.CSTNode) -> bool:
    """Whether a comment says that the turns are few at a time to spare memory."""
    if not _SPARES.search(program.text):
        return False
    statement = program.statement(node)
    return _SPARES.search(locate(program, [statement]).code(statement)) is not None


# -- what a loop takes in each turn ---------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """What a loop gives to names in each turn, and the tensors that it takes the rows of."""

    names: dict[str, Part] = field(default_factory=dict)
    taken: list[tuple[cst.BaseExpression, bool]] = field(default_factory=list)
    first: bool = True
    listed: bool = False

    def name(self, target: cst.BaseExpression, part: Part) -> bool:
        """Give a part to the name, or names, of a target."""
        if type(target) is cst.Name:
            self.names[target.value] = part
            return True
        return isinstance(target, cst.Tuple) and all(
            self.name(element.value, part) for element in target.elements
        )


def _rows(program: Program, loop: _Loop) -> _Rows | None:
    rows = _Rows()
    match loop.iter:
        case cst.Call(func=cst.Name(value="range") as func, args=[cst.Arg(value=count, star="")]):
            if not program.is_builtin(func) or type(loop.target) is not cst.Name:
                return None
            dimensions = _dimensions(program, count)
            if not dimensions:
                return None
            rows.names[loop.target.value] = Part.COUNT
            rows.first = dimensions == {"0"}
            return rows
        case needed:
            fits = _is_taken(program, loop.target, needed, rows)
            return rows if fits and rows.taken else None


def _dimensions(program: Program, count: cst.BaseExpression) -> set[str]:
    """Return of which dimensions of a tensor a number is the size; nothing where it may be none."""
    found = set()
    for size, path in _values(program, count):
        known = _unpacked(size, path) if path else measured(size)
        if known is None or _is_attribute(known[0]):
            return set()
        if _is_len(size) and not is_tensor(program, known[0]):
            return set()
        found.add(known[1])
    return found


def _unpacked(shape: cst.CSTNode, path: tuple[int, ...]) -> tuple[cst.BaseExpression, str] | None:
    """Return the tensor and the dimension of a name in ``bs, width = x.shape``."""
    match shape:
        case cst.Subscript(value=whole, slice=[cst.SubscriptElement(slice=cst.Slice(lower=None))]):
            return _unpacked(whole, path)
        case (
            cst.Attribute(value=tensor, attr=cst.Name("shape"))
            | cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=[])
        ):
            return tensor, str(path[0])
        case _:
            return None


def _values(
    program: Program, node: cst.BaseExpression
) -> list[tuple[cst.CSTNode, tuple[int, ...]]]:
    """Return what a name is given, each with the way from there to what it gets."""
    if type(node) is not cst.Name:
        return [(node, ())]
    return [
        (binding.value or binding.node, binding.path)
        if binding.kind is Bind.ASSIGN
        else (binding.node, ())
        for binding in program.flow.reaching(node)
    ]


def _is_len(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and type(node.func) is cst.Name


def _is_attribute(node: cst.BaseExpression) -> bool:
    """Whether a tensor belongs to a model or the like: its rows are few, and no samples."""
    return dotted(node).startswith("self.")


def _is_taken(
    program: Program, target: cst.BaseExpression, taken: cst.BaseExpression, rows: _Rows
) -> bool:
    """Whether a loop takes tensors row by row; `rows` then says which name gets what."""
    match taken, target:
        case (
            cst.Call(func=cst.Name(value="enumerate") as func, args=[cst.Arg(value=inner)]),
            cst.Tuple(elements=[count, row]),
        ) if program.is_builtin(func):
            return rows.name(count.value, Part.COUNT) and _is_taken(program, row.value, inner, rows)
        case cst.Call(func=cst.Name(value="zip") as func, args=args), cst.Tuple(elements=names) if (
            program.is_builtin(func) and len(names) == len(args)
        ):
            return _are_taken(
                program,
                [
                    (name.value, arg.value)
                    for name, arg in zip(names, args, strict=True)
                    if not arg.star and not arg.keyword
                ],
                rows,
            )
        case _:
            if (
                type(target) is not cst.Name
                or _is_attribute(taken)
                or not is_tensor(program, taken)
            ):
                return False
            rows.taken.append((taken, True))
            return rows.name(target, Part.ROW)


def _are_taken(
    program: Program, pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]], rows: _Rows
) -> bool:
    """Whether `zip` goes through tensors; beside one that was made of a list, others may be lists.

    A tensor of that kind holds a number for each step of an episode, or for each sample.  Those
    that weigh layers or losses are made of parameters.
    """
    lists = [pair for pair in pairs if not _is_taken(program, *pair, rows)]
    for target, taken in lists:
        plain = isinstance(taken, cst.Name | cst.Attribute)
        if not plain or program.value(taken).kind not in (Kind.UNKNOWN, Kind.LIST):
            return False
        rows.name(target, Part.ROW)
    rows.listed = bool(lists)
    return not lists or all(_is_of_list(program, tensor) for tensor, _ in rows.taken)


def _is_of_list(program: Program, tensor: cst.BaseExpression) -> bool:
    """``torch.tensor(returns)``, also where it has been scaled."""
    made = sources(program, [tensor])
    return any(
        made.hold(program, call) and call.args and type(call.args[0].value) is cst.Name
        for call in program.calls_of(*_MAKES)
    )


# -- what becomes of what the turns give ----------------------------------------------------------


def _is_list_joined(program: Program, name: cst.Name) -> bool:
    """Whether a list of results is stacked or added up: they all have the same shape."""
    bindings = program.flow.reaching(name)
    return bool(bindings) and all(
        any(_is_joined(program, use) for use in uses_of(program, binding)) for binding in bindings
    )


def _is_joined(program: Program, node: cst.CSTNode) -> bool:
    """Whether a list is given to `torch.stack`, `torch.cat` or `sum`."""
    arg = program.parent(node)
    call = program.parent(arg) if type(arg) is cst.Arg else None
    if type(call) is not cst.Call or call.args[0] is not arg:
        return False
    if type(call.func) is cst.Name and call.func.value == "sum":
        return program.is_builtin(call.func)
    return program.qualified(call.func) in JOINS
