"""Tensors that are made on the host in one line, and moved to the GPU in another.

``z = torch.rand(n)`` and then ``z = z.cuda()``, or something computed of such tensors alone.  What
is filled, changed, read or handed on in between is made on the host for a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.creation import SAME, created
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_JOINS = frozenset({"torch.cat", "torch.stack", "torch.concat"})
_KEEPS = "torch.autograd.Variable"
_DEPTH = 12


@dataclass(slots=True)
class _Chain:
    """What a tensor is computed of: expressions, the names in between, and where it starts."""

    parts: list[cst.BaseExpression] = field(default_factory=list)
    names: list[Binding] = field(default_factory=list)
    made: list[cst.Call] = field(default_factory=list)


def made_before(
    program: Program, move: cst.Call, moved: cst.BaseExpression
) -> tuple[cst.Call, bool] | None:
    """Return the first call that makes what a call moves, on the host and only to be moved.

    And whether it makes that tensor as it is: nothing is computed in between.
    """
    chain = _Chain()
    if not _is_computed(program, moved, chain) or not chain.made:
        return None
    if any(not _is_for(program, name, move, chain.parts) for name in chain.names):
        return None
    first = min(chain.made, key=program.index.order)
    if program.function(first) is not program.function(move):
        return None
    plain = len(chain.parts) == 2 and isinstance(moved, cst.Name)
    plain = plain and created(program, chain.parts[-1]) is first
    return (first, plain) if _loops(program, first) == _loops(program, move) else None


def _loops(program: Program, node: cst.CSTNode) -> list[int]:
    """Return the loops around a node, by their identity."""
    return [id(loop) for loop in loops_around(program, node)]


def _is_computed(program: Program, node: cst.BaseExpression, chain: _Chain) -> bool:
    """Whether an expression follows from tensors that factories make on the host, and numbers."""
    chain.parts.append(node)
    return _follows(program, node, chain)


def _follows(program: Program, node: cst.BaseExpression, chain: _Chain) -> bool:
    if len(chain.parts) > _DEPTH:
        return False
    match node:
        case cst.Name():
            return _is_named(program, node, chain)
        case cst.Call():
            made = created(program, node)
            if made is not None:
                chain.made.append(made)
            return made is not None or _is_called(program, node, chain)
        case cst.BinaryOperation(left=left, right=right):
            return _all_follow(program, (left, right), chain)
        case cst.Comparison(left=left, comparisons=[one]):
            return _all_follow(program, (left, one.comparator), chain)
        case cst.UnaryOperation(operator=cst.Minus() | cst.BitInvert(), expression=inner):
            return _follows(program, inner, chain)
        case _:
            return False


def _all_follow(program: Program, nodes: tuple[cst.BaseExpression, ...], chain: _Chain) -> bool:
    tensors = [one for one in nodes if program.value(one).kind not in (Kind.NUMBER, Kind.BOOL)]
    tensors.sort(key=lambda one: isinstance(one, cst.Name | cst.Attribute))  # sizes, perhaps
    return all(_is_size(program, one, chain) or _follows(program, one, chain) for one in tensors)


def _is_size(program: Program, node: cst.BaseExpression, chain: _Chain) -> bool:
    """``torch.ones(args.n) / args.n``: whether a tensor that is made there has that many values."""
    return any(
        arg.keyword is None and not arg.star and program.same(arg.value, node)
        for made in chain.made
        for arg in made.args
    )


def _is_named(program: Program, name: cst.Name, chain: _Chain) -> bool:
    match program.flow.reaching(name):
        case (binding,) if binding.kind is Bind.ASSIGN:
            if any(binding is other for other in chain.names):
                return True
            chain.names.append(binding)
            value = binding.value
            plain = not binding.path and binding.scope is program.index.scope(name)
            return (
                plain
                and isinstance(value, cst.BaseExpression)
                and _is_computed(program, value, chain)
            )
        case _:
            return False


def _is_called(program: Program, call: cst.Call, chain: _Chain) -> bool:
    """Whether a call joins such tensors, or gives one of them in another form."""
    name = program.qualified(call.func)
    first = call.args[0].value if call.args and not call.args[0].star else None
    if name == _KEEPS and first is not None:
        return len(call.args) == 1 and _follows(program, first, chain)
    if name in _JOINS and not any(arg.keyword and arg.keyword.value == "out" for arg in call.args):
        match first:
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                return _all_follow(program, tuple(one.value for one in elements), chain)
            case cst.ListComp(elt=each):
                return _follows(program, each, chain)
    match call.func:
        case cst.Attribute(value=inner, attr=cst.Name(value=method)):
            return method in SAME and not name and _follows(program, inner, chain)
        case _:
            return False


def _is_for(
    program: Program, binding: Binding, move: cst.Call, parts: list[cst.BaseExpression]
) -> bool:
    """Whether a tensor is made to be moved: whatever else reads its name comes after that."""
    statement = program.smallest_statement(move)
    for use in uses_of(program, binding):
        if any(program.index.inside(use, part) for part in parts) or _is_left(program, use, move):
            continue
        moved = any(
            program.smallest_statement(one.node) is statement for one in program.flow.reaching(use)
        )
        if not moved or program.index.order(use) < program.index.order(move):
            return False
    return True


def _is_left(program: Program, use: cst.CSTNode, move: cst.Call) -> bool:
    """Whether a tensor stays where it is only if it is not moved: ``x.cuda() if gpu else x``."""
    above = program.parent(use)
    return (
        isinstance(above, cst.IfExp)
        and use is not above.test
        and move in (above.body, above.orelse)
    )
