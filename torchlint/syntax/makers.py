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

_OPERATORS = """
    Add:Add Sub:Subtract Mult:Multiply Div:Divide FloorDiv:FloorDivide Mod:Modulo Pow:Power
    LShift:LeftShift RShift:RightShift BitOr:BitOr BitXor:BitXor BitAnd:BitAnd
    MatMult:MatrixMultiply
"""
_COMPARED = """
    Eq:Equal NotEq:NotEqual Lt:LessThan LtE:LessThanEqual Gt:GreaterThan GtE:GreaterThanEqual
    Is:Is IsNot:IsNot In:In NotIn:NotIn
"""


def _makers(names: str, ending: str = "") -> dict[type, Any]:
    """Return what makes libcst's node, by the type of Python's, for pairs of their names."""
    pairs = (pair.split(":") for pair in names.split())
    return {getattr(ast, theirs): getattr(new, f"{own}{ending}") for theirs, own in pairs}


BINARY = _makers(_OPERATORS)
AUGMENTED = _makers(_OPERATORS, "Assign")
UNARY = _makers("Not:Not USub:Minus UAdd:Plus Invert:BitInvert")
BOOLEAN = _makers("And:And Or:Or")
COMPARED = _makers(_COMPARED)
NUMBERS: dict[type, Any] = {int: new.Integer, float: new.Float, complex: new.Imaginary}


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


def dotted_name(name: str) -> Any:
    """Return a chain of attributes for ``a.b.c``."""
    first, *rest = name.split(".")
    made = new.Name(first)
    for one in rest:
        made = new.Attribute(made, new.Name(one))
    return made
