"""Loops that keep a moving average of tensors, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.syntax.module import Module
    from torchlint.training.script import Script

# A tensor that is changed in place, by which method, and what that is given.
Change: TypeAlias = "tuple[cst.BaseExpression, str, Sequence[cst.Arg]]"
# A number that a tensor is multiplied by, and whether that is what the code lacks to one.
Weight: TypeAlias = "tuple[cst.BaseExpression, bool]"
Term: TypeAlias = "tuple[cst.BaseExpression, Weight]"

_SAME = frozenset({"detach", "clone"})  # calls that give the values of their tensor


@dataclass(frozen=True, slots=True, eq=False)
class Averaging:
    """A loop that does ``target = decay * target + (1 - decay) * source`` in each turn.

    The tensors are known by what the loop calls them, ``decay`` is code that comes from ``weight``.
    ``alone``: the loop does nothing else, at no condition.
    """

    loop: cst.For
    target: str
    source: str
    decay: str
    weight: cst.BaseExpression
    alone: bool


def averagings(script: Script) -> Iterator[Averaging]:
    """Yield the loops that mix tensors into their moving averages, each once."""
    index = script.module.index
    for loop in index.of(cst.For):
        blocks = index.below(loop, cst.IndentedBlock)
        inner = (one for one in blocks if index.nearest(one, cst.For) is loop)
        found = next((each for one in inner for each in _in_block(script, loop, one)), None)
        if found is not None:
            yield found


def _in_block(script: Script, loop: cst.For, block: cst.IndentedBlock) -> Iterator[Averaging]:
    lines = [
        list(_changes(line))
        for one in block.body
        for line in (one.body if isinstance(one, cst.SimpleStatementLine) else [one])
    ]
    is_all = block is loop.body and loop.orelse is None and all(lines)
    changes = [change for line in lines for change in line]
    for place, (target, method, _) in enumerate(changes):
        mixed = changes[place : place + 1 + (method == "mul_")]
        own = _root(script, target, loop)
        if not own or _root(script, mixed[-1][0], loop) != own:
            continue
        for (kept, weight), (other, rest) in _terms(mixed):
            source = _root(script, other, loop)
            is_kept = _root(script, kept, loop) == own and source not in ("", own)
            is_shown = method.endswith("_") or _is_tensor(script, other)
            if is_kept and is_shown and _are_one(script.module, weight, rest):
                decay = _code(script.module, *weight)
                alone = is_all and len(changes) == len(mixed)
                yield Averaging(loop, own, source, decay, weight[0], alone)


def _changes(line: cst.CSTNode) -> Iterator[Change]:
    """Yield what a statement does to tensors; of a chain, each method."""
    match line:
        case cst.Assign(targets=[cst.AssignTarget(cst.Attribute() | cst.Subscript() as target)]):
            yield target, "=", [cst.Arg(line.value)]
        case cst.AugAssign(target=target, operator=cst.MultiplyAssign(), value=value):
            yield target, "mul_", [cst.Arg(value)]
        case cst.AugAssign(target=target, operator=cst.AddAssign(), value=value):
            yield target, "add_", [cst.Arg(value)]
        case cst.Expr(value=node):
            found: list[tuple[str, Sequence[cst.Arg]]] = []
            while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                found.insert(0, (node.func.attr.value, node.args))
                node = node.func.value
            yield from ((node, method, args) for method, args in found)


def _terms(changes: Sequence[Change]) -> Iterator[tuple[Term, Term]]:
    """Yield what a tensor may become the sum of: what is kept of it, and what is added."""
    match changes:
        case [(_, "=" | "copy_", [cst.Arg(value), *_])]:
            for pair in _summed(value):
                yield from (pair, pair[::-1])
        case [(own, "lerp_", [cst.Arg(other), cst.Arg(weight)])]:
            yield (own, (weight, True)), (other, (weight, False))
        case [(_, "add_" | "sub_" as method, [cst.Arg(value)])]:
            for difference, (weight, _) in _factors(value):
                match difference:
                    case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
                        own, other = (left, right) if method == "sub_" else (right, left)
                        yield (own, (weight, True)), (other, (weight, False))
        case [(own, _, [cst.Arg(weight)]), (_, "add_", args)]:
            kept = own, (weight, False)
            match args:
                case [cst.Arg(value=value)]:
                    yield from ((kept, added) for added in _factors(value))
                case [cst.Arg(value=other), cst.Arg(value=rest, keyword=cst.Name("alpha"))]:
                    yield kept, (other, (rest, False))
                case [cst.Arg(value=rest), cst.Arg(value=other, keyword=None)]:  # below torch 1.5
                    yield kept, (other, (rest, False))


def _summed(value: cst.BaseExpression) -> Iterator[tuple[Term, Term]]:
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            yield from product(_factors(left), _factors(right))
        case cst.Call(func=cst.Attribute(value=first, attr=cst.Name("lerp")), args=args):
            given = [arg.value for arg in args]
            match given if len(given) == 3 else [first, *given]:  # of torch, else of a tensor
                case [own, other, weight]:
                    yield (own, (weight, True)), (other, (weight, False))


def _factors(node: cst.BaseExpression) -> Iterator[Term]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        yield node.left, (node.right, False)
        yield node.right, (node.left, False)


def _root(script: Script, node: cst.BaseExpression, loop: cst.For) -> str:
    """Return the tensor of this turn of a loop that an expression gives the values of, or ""."""
    key = node
    match node:
        case cst.Attribute(value=inner, attr=cst.Name("data")):
            return _root(script, inner, loop)
        case cst.Call(func=cst.Attribute(value=inner) as func) if func.attr.value in _SAME:
            return _root(script, inner, loop)
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(index))]):
            key = index
    bindings = script.connected.evaluation.bindings(key if isinstance(key, cst.Name) else None)
    is_inside = [script.module.index.inside(one.node, loop) for one in bindings]
    return script.module.code(node) if is_inside and all(is_inside) else ""


def _is_tensor(script: Script, node: cst.BaseExpression) -> bool:
    return any(isinstance(one, Tensor) for one in script.value(node))


# -- weights --------------------------------------------------------------------------------------


def _are_one(module: Module, one: Weight, other: Weight) -> bool:
    """Whether two weights are one together: ``decay`` and ``1 - decay``."""
    return any(
        _code(module, first, not lacks) == _code(module, *second)
        for (first, lacks), second in ((one, other), (other, one))
    )


def _code(module: Module, node: cst.BaseExpression, lacks: bool) -> str:
    """Return the code of a weight, or of what it lacks to one."""
    match node:
        case cst.Float():
            number = Decimal(str(node.evaluated_value))
            return str(1 - number if lacks else number)
        case cst.BinaryOperation(
            left=cst.Integer() | cst.Float() as left, operator=cst.Subtract(), right=right
        ) if lacks and left.evaluated_value == 1:
            return _code(module, right, False)
    code = " ".join(module.bare(node).split())
    code = f"({code})" if lacks and isinstance(node, cst.BinaryOperation) else code
    return f"1 - {code}" if lacks else code
