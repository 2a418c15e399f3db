"""Branches for batches with nothing in them: ``if boxes.size(1) == 0: return zeros``.

Such a batch is rare, and there is little to do for it.  Tensors that an object keeps are another
matter: they are empty in all of the turns, or in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchlint.analysis.program import Program

_EMPTY: Mapping[type[cst.BaseCompOp], str] = {
    cst.Equal: "0",
    cst.LessThan: "1",
    cst.LessThanEqual: "0",
}
_FILLED: Mapping[type[cst.BaseCompOp], str] = {
    cst.NotEqual: "0",
    cst.GreaterThanEqual: "1",
    cst.GreaterThan: "0",
}
_DATA = (Kind.TENSOR, Kind.BATCH, Kind.NDARRAY)


def lacks_data(program: Program, branch: cst.If, block: cst.CSTNode) -> bool:
    """Whether a block of a branch runs only where a tensor of the turn has no elements."""
    if block is branch.body:
        return _is_empty(program, branch.test)
    return isinstance(block, cst.Else) and _compares(program, branch.test, _FILLED)


def _is_empty(program: Program, test: cst.BaseExpression) -> bool:
    match test:
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return _is_empty(program, left) or _is_empty(program, right)
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
            return _is_empty(program, left) and _is_empty(program, right)
        case cst.UnaryOperation(operator=cst.Not(), expression=size):
            return _is_size(program, size)
        case _:
            return _compares(program, test, _EMPTY)


def _compares(
    program: Program, test: cst.BaseExpression, numbers: Mapping[type[cst.BaseCompOp], str]
) -> bool:
    """Whether a test compares a size with the number that belongs to its operator."""
    match test:
        case cst.Comparison(
            left=size,
            comparisons=[cst.ComparisonTarget(operator=asked, comparator=cst.Integer(number))],
        ):
            return numbers.get(type(asked)) == number and _is_size(program, size)
        case _:
            return False


def _is_size(program: Program, node: cst.BaseExpression) -> bool:
    """``x.size(1)``, ``x.shape[0]``, ``x.numel()``, ``len(x)``, or a name for one of them."""
    match node:
        case cst.Name():
            bindings = program.flow.reaching(node)
            return bool(bindings) and all(
                one.kind is Bind.ASSIGN and _gives_size(program, one.value, one.path)
                for one in bindings
            )
        case cst.Attribute(value=cst.Name("self"), attr=attr):
            owner = program.classes.around(node)
            stores = [] if owner is None else program.classes.stores(owner, attr.value)
            return bool(stores) and all(
                one.method.name.value != "__init__" and _gives_size(program, one.value, one.path)
                for one in stores
            )
        case _:
            return _gives_size(program, node, ())


def _gives_size(program: Program, node: cst.CSTNode | None, path: tuple[int, ...]) -> bool:
    """Whether a value, or what a path leads to in it, is a size of a tensor of the turn."""
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=args):
            known = bool(args) != bool(path)  # `x.size(1)`, and `b, n = x.size()`
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("numel" | "nelement"))):
            known = not path
        case cst.Subscript(value=cst.Attribute(value=tensor, attr=cst.Name("shape"))):
            known = True  # also `b, n = x.shape[:2]`
        case cst.Attribute(value=tensor, attr=cst.Name("shape")):
            known = bool(path)
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=tensor)]):
            known = program.value(tensor).kind in _DATA or _is_selected(program, tensor)
        case _:
            return False
    return known and not dotted(tensor).startswith("self.")


def _is_selected(program: Program, node: cst.BaseExpression) -> bool:
    """``x[mask == 1]``, by a name or not: lists are not indexed with what a comparison gives."""
    match node:
        case cst.Name():
            made = program.flow.reaching(node)
            return bool(made) and all(
                one.is_plain
                and isinstance(one.value, cst.Subscript)
                and _is_selected(program, one.value)
                for one in made
            )
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Comparison(comparisons=[asked])))]
        ):
            return type(asked.operator) in (*_EMPTY, *_FILLED)
        case _:
            return False
