"""Whether a tensor lies in memory in the order of its dimensions, or has two at most.

One that was permuted does not: stacking members of it copies them into that order, taking several
of them with one index does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Function, Library, Number, Tensor, Text, Truth
from torchlint.syntax.calls import has_keyword, last_name, positional
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.syntax.scopes import Binding

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
ASKS = ("order", "memory_format")
NUMBERS = (cst.Integer, cst.Float, cst.List, cst.ListComp, cst.SimpleString)
DEEPEST = 20


def is_dense(evaluation: Evaluation, node: cst.CSTNode | None, depth: int = 0) -> bool:
    """Whether an expression is seen to be in the order of its dimensions."""
    value, deeper = evaluation.value(node), depth + 1
    if value and all(isinstance(one, (Number, Truth, Text, Library)) for one in value):
        return True
    made = [one.made if isinstance(one, Tensor) else None for one in value]
    calls = [evaluation.node(at) for at in made if at is not None]
    if len(calls) == len(made) and calls and node not in calls:
        return all(_is_dense_call(evaluation, call, deeper) for call in calls)
    match node:
        case cst.Name() if depth < DEEPEST:
            given = [n for one in evaluation.bindings(node) for n in _given(evaluation, one)]
            return bool(given) and all(is_dense(evaluation, one, deeper) for one in given)
        case cst.Attribute(value=inner, attr=cst.Name(value=name)):
            return name not in TURNS and is_dense(evaluation, inner, deeper)
        case cst.Subscript(value=inner) | cst.UnaryOperation(expression=inner):
            return not isinstance(inner, NUMBERS) and is_dense(evaluation, inner, deeper)
        case (
            cst.BinaryOperation(left=left, right=right)
            | cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=right)])
        ):
            return all(is_dense(evaluation, one, deeper) for one in (left, right))
    return isinstance(node, NUMBERS) or _is_dense_call(evaluation, node, deeper)


def _given(evaluation: Evaluation, bound: Binding) -> list[cst.CSTNode | None]:
    """Return what a name is given, out of the tuple that a function returns too."""
    value, path = bound.value, bound.path
    if isinstance(value, cst.AugAssign):
        return [value.target]  # in place
    found = [value]
    for one in evaluation.value(value.func) if isinstance(value, cst.Call) and path else ():
        unit = evaluation.units.get(one.at) if isinstance(one, Function) else None
        returns = unit.module.index.below(unit.node, cst.Return) if unit else ()
        found = [statement.value for statement in returns]
    for place in path:
        parts = [one.elements if isinstance(one, cst.Tuple) else () for one in found]
        found = [one[place].value if 0 <= place < len(one) else None for one in parts]
    return [*found] if bound.kind is Bind.ASSIGN else [None]


def _is_dense_call(evaluation: Evaluation, node: cst.CSTNode | None, depth: int) -> bool:
    if not isinstance(node, cst.Call) or depth > DEEPEST:
        return False
    names = [one.name for one in evaluation.value(node.func) if isinstance(one, Library)]
    name, short = names[0] if len(names) == 1 else "", last_name(node.func)
    short = name.rpartition(".")[2] or short
    if short in TURNS or any(part in name for part in TURNING):
        return False
    if short in MAKERS:
        return True
    given = positional(node)
    if given and isinstance(given[0], (cst.List, cst.Tuple)):  # what is joined
        given = [element.value for element in given[0].elements]
    if not name and isinstance(node.func, cst.Attribute):
        given.insert(0, node.func.value)
    elif not name.startswith(("torch.", "numpy.")):
        return False
    if has_keyword(node, ASKS) or any(arg.star for arg in node.args):
        return False
    return bool(given) and all(is_dense(evaluation, one, depth + 1) for one in given)
