"""Whether the members of an array or tensor lie in memory in the order of its dimensions.

Those that were transposed or permuted do not: stacking such members copies them into that order,
taking several of them with one index does not.  With at most one dimension besides the first there
is but one order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.origins import origins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program

_DEPTH = 12
_LIBRARIES = ("torch.", "numpy.", "pandas.", "sklearn.", "math.", "random.")
# What gives another order, or reads one from a file.
_TURNS = frozenset(
    {"permute", "transpose", "t", "T", "mT", "H", "mH", "adjoint", "swapaxes", "swapdims",
     "moveaxis", "movedim", "rollaxis", "as_strided", "einsum", "rot90", "asfortranarray", "load",
     "fromfile", "memmap", "loads", "from_dlpack", "fetch_openml"}
)  # fmt: skip
_TURNING = (".linalg.", ".fft.", ".datasets.fetch")
# What makes an array out of numbers, and what takes but one array, whatever else it is given.
_MAKERS = frozenset(
    {"zeros", "ones", "full", "empty", "eye", "rand", "randn", "randint", "randperm", "arange",
     "linspace", "logspace", "normal", "uniform", "choice"}
)  # fmt: skip
_OF_FIRST = frozenset(
    {"tensor", "as_tensor", "from_numpy", "array", "asarray", "Tensor", "FloatTensor",
     "LongTensor", "DoubleTensor", "IntTensor", "BoolTensor", "Variable", "unsqueeze", "squeeze",
     "reshape", "flatten", "clip", "clamp", "sum", "mean", "repeat", "tile"}
)  # fmt: skip
_OF_ITSELF = _OF_FIRST | {"to", "type", "astype", "cuda", "view", "expand", "requires_grad_",
                          "sample", "head", "drop"}  # fmt: skip
_OF_OTHERS = frozenset({"abs", "max", "min", "sum", "pow", "round", "next", "iter", "reversed"})
_ASKS = frozenset({"order", "memory_format"})
_JOINS = frozenset(
    {"stack", "cat", "concat", "concatenate", "vstack", "hstack", "dstack", "column_stack"}
)
_DATA = frozenset({"data", "input", "tensors", "arrays", "object", "other", "X", "y"})
_LISTS = (cst.List, cst.ListComp)
_PLAIN = (cst.Integer, cst.Float, cst.SimpleString, *_LISTS)


def is_dense(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression is seen to be in the order of its dimensions, or to have only two.

    It is followed through names and functions of the file to lists, random numbers, tables and
    the like.
    """
    return _is_dense(program, node, frozenset())


def _is_dense(program: Program, node: cst.CSTNode, way: frozenset[int]) -> bool:
    if len(way) > _DEPTH or id(node) in way:
        return False
    way = way | {id(node)}
    found = origins(program, node)
    return bool(found) and all(_makes_dense(program, one, way) for one in found)


def _makes_dense(program: Program, node: cst.CSTNode, way: frozenset[int]) -> bool:
    """Whether an expression that makes something makes it dense."""
    match node:
        case cst.Call():
            return _call(program, node, way)
        case cst.Attribute(value=value, attr=cst.Name(value=name)):
            if program.qualified(node).startswith(_LIBRARIES) or name == "values":
                return True  # a constant or a type; the values of a table
            return name not in _TURNS and _is_dense(program, value, way)
        case cst.Subscript(value=value):
            listed = any(isinstance(one, _LISTS) for one in origins(program, value))
            return not listed and _is_dense(program, value, way)
        case cst.Comparison(left=left):
            sides = (left, *(part.comparator for part in node.comparisons))
            return all(_is_dense(program, side, way) for side in sides)
        case cst.BinaryOperation(left=left, right=right):
            return _is_dense(program, left, way) and _is_dense(program, right, way)
        case cst.UnaryOperation(expression=inner):
            return _is_dense(program, inner, way)
        case cst.AugAssign(target=cst.Name() as target):
            return _added_to(program, node, target, way)
        case cst.Name(value=name):
            return name in ("True", "False", "None") or _is_library(program, node)
        case _:
            return isinstance(node, _PLAIN)


def _call(program: Program, node: cst.Call, way: frozenset[int]) -> bool:
    name = program.qualified(node.func)
    last = node.func.attr.value if isinstance(node.func, cst.Attribute) else name.rpartition(".")[2]
    if last in ("contiguous", "to_numpy", "ascontiguousarray"):
        return True
    if last in _TURNS or any(part in name for part in _TURNING):
        return False
    if any(arg.star or (arg.keyword and arg.keyword.value in _ASKS) for arg in node.args):
        return False
    given = [a.value for a in node.args if a.keyword is None or a.keyword.value in _DATA]
    if last in _JOINS:
        given = [e.value for one in given for e in _members(one)] or [node]
    if name.startswith(_LIBRARIES):
        if last in _MAKERS or name.startswith("pandas."):
            return True
        given = given[:1] if last in _OF_FIRST else given
        return all(_is_dense(program, one, way) for one in given)
    if not isinstance(node.func, cst.Attribute):
        return _is_plain_builtin(program, node.func)
    given = [] if last in _OF_ITSELF else given
    return all(_is_dense(program, one, way) for one in (node.func.value, *given))


def _is_plain_builtin(program: Program, func: cst.BaseExpression) -> bool:
    """Whether a builtin is called that gives numbers or a list."""
    return isinstance(func, cst.Name) and program.is_builtin(func) and func.value not in _OF_OTHERS


def _added_to(program: Program, node: cst.AugAssign, target: cst.Name, way: frozenset[int]) -> bool:
    """Whether what ``x += y`` gives is dense: what it was before, and what is added."""
    before = [b.value for b in program.flow.before(node, target.value) if not b.path]
    known = bool(before) and all(value is not None for value in before)
    parts = [node.value, *(value for value in before if value is not None)]
    return known and all(_is_dense(program, part, way) for part in parts)


def _members(node: cst.BaseExpression) -> Sequence[cst.BaseElement]:
    """Return what is written out between brackets."""
    return node.elements if isinstance(node, cst.List | cst.Tuple) else ()


def _is_library(program: Program, node: cst.Name) -> bool:
    return program.qualified(node).startswith(_LIBRARIES)
