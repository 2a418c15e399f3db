"""Functions that make libcst's nodes without layout, and which node each operator is."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.syntax.index import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MEANT = ("asynchronous", "relative")  # layout to the walk over the tree, but not to rules
_IS_LEAN = type(cst.CSTNode) is type  # see `torchlint.syntax.lean`: nodes take what they are given


def _maker(kind: type[cst.CSTNode]) -> Callable[..., Any]:
    """Return a function that makes a node with the fields that carry meaning, in their order."""
    known: dict[str, Any] = {"new": object.__new__, "kind": kind}
    head, body = [], ["node = new(kind)"]
    for item in dataclasses.fields(kind):
        name = item.name
        if name.startswith(LAYOUT) and name not in _MEANT:
            continue
        if item.default is not dataclasses.MISSING:
            known[f"default_{name}"] = item.default
        head.append(f"{name}=default_{name}" if f"default_{name}" in known else name)
        known[f"set_{name}"] = getattr(kind, name).__set__
        body.append(f"node.{name} = {name}" if _IS_LEAN else f"set_{name}(node, {name})")
    text = f"def make({', '.join(head)}):\n  " + "\n  ".join([*body, "return node"])
    exec(text, known)  # noqa: S102 - of nothing but the names of fields
    made: Callable[..., Any] = known["make"]
    return made


class _Makers:
    """A function for each class of nodes, under its name, written when it is first asked for."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        made = _maker(getattr(cst, name))
        setattr(self, name, made)
        return made


new = _Makers()

BINARY: dict[type, Any] = {
    ast.Add: new.Add, ast.Sub: new.Subtract, ast.Mult: new.Multiply, ast.Div: new.Divide,
    ast.FloorDiv: new.FloorDivide, ast.Mod: new.Modulo, ast.Pow: new.Power,
    ast.LShift: new.LeftShift, ast.RShift: new.RightShift, ast.BitOr: new.BitOr,
    ast.BitXor: new.BitXor, ast.BitAnd: new.BitAnd, ast.MatMult: new.MatrixMultiply,
}  # fmt: skip
AUGMENTED: dict[type, Any] = {
    ast.Add: new.AddAssign, ast.Sub: new.SubtractAssign, ast.Mult: new.MultiplyAssign,
    ast.Div: new.DivideAssign, ast.FloorDiv: new.FloorDivideAssign,
    ast.Mod: new.ModuloAssign, ast.Pow: new.PowerAssign, ast.LShift: new.LeftShiftAssign,
    ast.RShift: new.RightShiftAssign, ast.BitOr: new.BitOrAssign,
    ast.BitXor: new.BitXorAssign, ast.BitAnd: new.BitAndAssign,
    ast.MatMult: new.MatrixMultiplyAssign,
}  # fmt: skip
UNARY: dict[type, Any] = {
    ast.Not: new.Not, ast.USub: new.Minus, ast.UAdd: new.Plus, ast.Invert: new.BitInvert,
}  # fmt: skip
BOOLEAN: dict[type, Any] = {ast.And: new.And, ast.Or: new.Or}
COMPARED: dict[type, Any] = {
    ast.Eq: new.Equal, ast.NotEq: new.NotEqual, ast.Lt: new.LessThan,
    ast.LtE: new.LessThanEqual, ast.Gt: new.GreaterThan, ast.GtE: new.GreaterThanEqual,
    ast.Is: new.Is, ast.IsNot: new.IsNot, ast.In: new.In, ast.NotIn: new.NotIn,
}  # fmt: skip
NUMBERS: dict[type, Any] = {
    int: new.Integer, float: new.Float, complex: new.Imaginary,
}  # fmt: skip


class UnlikeError(Exception):
    """Python's tree does not say what libcst's says."""


class Table(dict[type, Any]):
    """What reads a node of Python's tree, by its type; libcst has to read what is not here."""

    def __missing__(self, kind: type) -> Any:
        raise UnlikeError


def call(func: cst.BaseExpression, args: Sequence[cst.Arg]) -> cst.Call:
    """Return a call that stands nowhere in the text, of nodes that do."""
    made: cst.Call = new.Call(func, args)
    return made


def name_items(names: list[str]) -> tuple[Any, ...]:
    """Return what a ``global`` statement holds."""
    return tuple([new.NameItem(new.Name(one)) for one in names])


def dotted_name(name: str) -> Any:
    """Return a chain of attributes for ``a.b.c``."""
    first, *rest = name.split(".")
    made = new.Name(first)
    for one in rest:
        made = new.Attribute(made, new.Name(one))
    return made
