"""Whether a tensor lies in memory in the order of its dimensions, or has two at most.

One that was permuted does not: stacking members of it copies them into that order, taking several
of them with one index does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Function, Library, Number, Tensor, Text, Truth
from torchlint.syntax.calls import has_keyword
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.scopes import Binding

DEEPEST = 30
# What gives another order, or reads one from a file.
TURNS = frozenset(
    """permute transpose t T mT H mH adjoint swapaxes swapdims moveaxis movedim rollaxis as_strided
    einsum rot90 asfortranarray load fromfile memmap loads from_dlpack""".split()
)
TURNING = (".linalg.", ".fft.")
# What makes a tensor or an array of numbers, in the order of its dimensions.
MAKERS = frozenset(
    """zeros ones full empty eye rand randn randint randperm arange linspace logspace normal uniform
    integers choice contiguous ascontiguousarray to_numpy one_hot""".split()
)
JOINS = frozenset("stack cat concat concatenate vstack hstack column_stack".split())
ASKS = frozenset({"order", "memory_format"})
NUMBERS = (cst.Integer, cst.Float, cst.List, cst.ListComp, cst.SimpleString)


def is_dense(
    evaluation: Evaluation, node: cst.BaseExpression, way: frozenset[int] = frozenset()
) -> bool:
    """Whether an expression is seen to be in the order of its dimensions."""
    if id(node) in way or len(way) > DEEPEST:
        return False
    way |= {id(node)}
    value = evaluation.value(node)
    if value and all(isinstance(one, (Number, Truth, Text)) for one in value):
        return True
    made = [one.made for one in value if isinstance(one, Tensor) and one.made is not None]
    calls = [evaluation.node(at) for at in made]
    if calls and len(calls) == len(value) and node not in calls:
        return all(isinstance(call, cst.Call) and is_dense(evaluation, call, way) for call in calls)
    match node:
        case cst.Name():
            bound = evaluation.bindings(node)
            return bool(bound) and all(_is_bound_dense(evaluation, one, way) for one in bound)
        case cst.Attribute(value=inner, attr=cst.Name(value=name)):
            if value and all(isinstance(one, Library) for one in value):
                return True  # a type
            return name not in TURNS and is_dense(evaluation, inner, way)
        case cst.Subscript(value=inner) | cst.UnaryOperation(expression=inner):
            return not isinstance(inner, NUMBERS) and is_dense(evaluation, inner, way)
        case cst.BinaryOperation(left=left, right=right):
            return is_dense(evaluation, left, way) and is_dense(evaluation, right, way)
        case cst.Comparison(left=left, comparisons=[target]):
            return all(is_dense(evaluation, one, way) for one in (left, target.comparator))
        case cst.Tuple(elements=elements):
            return all(is_dense(evaluation, one.value, way) for one in elements)
        case cst.Call():
            return _is_dense_call(evaluation, node, way)
    return isinstance(node, NUMBERS)


def _is_bound_dense(evaluation: Evaluation, bound: Binding, way: frozenset[int]) -> bool:
    """Whether what a name gets is dense, out of the tuple that a function returns too."""
    value = bound.value
    if bound.kind is Bind.AUGMENT and isinstance(value, cst.AugAssign):
        target = value.target
        return isinstance(target, cst.Name) and all(
            is_dense(evaluation, one, way) for one in (target, value.value)
        )
    if bound.kind is not Bind.ASSIGN or not isinstance(value, cst.BaseExpression):
        return False
    if not bound.path:
        return is_dense(evaluation, value, way)
    found = list(_returned(evaluation, value)) if isinstance(value, cst.Call) else [value]
    place = bound.path[0]
    return bool(found) and all(
        isinstance(one, cst.Tuple)
        and 0 <= place < len(one.elements)
        and len(bound.path) == 1
        and is_dense(evaluation, one.elements[place].value, way)
        for one in found
    )


def _returned(evaluation: Evaluation, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield what functions of the project return to a call."""
    for one in evaluation.value(call.func):
        unit = evaluation.units.get(one.at) if isinstance(one, Function) else None
        for statement in unit.module.index.below(unit.node, cst.Return) if unit else ():
            if statement.value is not None:
                yield statement.value


def _is_dense_call(evaluation: Evaluation, node: cst.Call, way: frozenset[int]) -> bool:
    func = evaluation.value(node.func)
    name = func[0].name if len(func) == 1 and isinstance(func[0], Library) else ""
    short = name.rpartition(".")[2]
    if isinstance(node.func, cst.Attribute) and not name:
        short = node.func.attr.value
    if short in TURNS or any(part in name for part in TURNING):
        return False
    if short in MAKERS:
        return True
    if any(arg.star for arg in node.args) or has_keyword(node, ASKS):
        return False
    given = [arg.value for arg in node.args if arg.keyword is None]
    if short in JOINS and given and isinstance(given[0], (cst.List, cst.Tuple)):
        given = [element.value for element in given[0].elements]
    if name.startswith(("torch.", "numpy.")):
        return bool(given) and all(is_dense(evaluation, one, way) for one in given)
    returned = list(_returned(evaluation, node))
    if returned:
        return all(is_dense(evaluation, one, way) for one in returned)
    if isinstance(node.func, cst.Attribute) and not name:
        return all(is_dense(evaluation, one, way) for one in (node.func.value, *given))
    return False
