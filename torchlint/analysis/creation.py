"""Tensors that a factory of torch makes on the host, and where they are moved from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

EXACT = frozenset({"zeros", "ones", "full", "empty", "eye"})
RANGES = frozenset({"arange", "linspace"})
RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal"})
# Methods that give a tensor more rows in the memory of the first: a move makes memory for each.
SPREAD = frozenset({"expand", "expand_as"})
# Methods that do to a tensor on a GPU what they do to it on the host, bit for bit.
SAME = SPREAD.union(
    {"view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "t", "flatten", "repeat",
     "contiguous", "float", "double", "long", "int", "bool"}
)  # fmt: skip
# Methods that fill a tensor where it is: with one value, and with random numbers.
FILLS = frozenset({"fill_", "zero_"})
DRAWS = frozenset({"normal_", "uniform_", "random_"})
# What makes a tensor of a type, of sizes or of values, and that type.
_TYPED = {
    "torch.Tensor": "", "torch.FloatTensor": "float32", "torch.DoubleTensor": "float64",
    "torch.HalfTensor": "float16", "torch.LongTensor": "int64", "torch.IntTensor": "int32",
    "torch.ShortTensor": "int16", "torch.ByteTensor": "uint8",
}  # fmt: skip
_OF_LISTS = frozenset(
    f"torch.{name}" for name in ("tensor", "Tensor", "FloatTensor", "LongTensor", "IntTensor")
)
_CHOSEN = frozenset({"device", "generator", "out", "pin_memory"})
_WHOLE = frozenset(f"torch.{name}" for name in ("long", "int64", "int", "int32", "short", "int16"))
_DEPTH = 4


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """Where a move to a GPU puts a tensor.

    ``device``: code of the device, None where that may be no device at all.  ``dtype``: code of
    the dtype it asks for as well.  ``plain``: it asks for nothing else.  ``like``: the tensor on
    the GPU whose device and dtype it asks for.
    """

    device: str | None
    dtype: str | None = None
    plain: bool = True
    like: str | None = None


def factory(program: Program, call: cst.Call) -> str:
    """Return the name of the function of torch that makes a tensor of given size, or "".

    Of ``torch.FloatTensor(3, n)``, whose memory nothing has filled, that is ``empty``.
    """
    if unfilled_type(program, call) is not None:
        return "empty"
    space, _, name = program.qualified(call.func).rpartition(".")
    return name if space == "torch" and name in EXACT | RANGES | RANDOM else ""


def unfilled_type(program: Program, call: cst.Call) -> str | None:
    """Return the dtype of ``torch.FloatTensor(3, n)``, "" for the default one; else None."""
    kind = _TYPED.get(program.qualified(call.func))
    if kind is None or any(arg.keyword is not None for arg in call.args):
        return None
    match call.args:
        case [] | [cst.Arg(star="*")]:
            return None
        case [cst.Arg(value=only)]:
            return kind if _is_whole(program, only, 0) or _is_size(program, only) else None
        case _:
            return kind


def _is_size(program: Program, node: cst.BaseExpression) -> bool:
    """``x.size()`` and ``x.shape`` of a tensor; of an array it would be a tuple of values."""
    match node:
        case cst.Call(func=cst.Attribute(value=of, attr=cst.Name("size")), args=[]):
            return program.value(of).is_tensor
        case cst.Attribute(value=of, attr=cst.Name("shape")):
            return program.value(of).is_tensor
        case _:
            return False


def created(program: Program, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call that makes a tensor on the host, below methods that a GPU has as well.

    None where the call chooses a device, a generator, or memory of its own.  A list of one value
    (``torch.tensor([1] * n)``) is a size and a value as well.
    """
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in SAME | FILLS | DRAWS or program.qualified(node.func):
            break
        node = node.func.value
    if not isinstance(node, cst.Call) or any(arg.star == "**" for arg in node.args):
        return None
    if is_repeated(program, node):
        return None if keywords(node).keys() & _CHOSEN else node
    name = factory(program, node)
    sized = name != "normal" or len(node.args) > 2  # of given means: where those are
    return node if name and sized and not keywords(node).keys() & _CHOSEN else None


def is_repeated(program: Program, call: cst.Call) -> bool:
    """``torch.tensor([value] * n)``: what ``torch.full`` makes, by way of a list.

    So is ``torch.tensor([number])``.
    """
    match call.args[:1]:
        case [cst.Arg(star="", value=cst.List(elements=[cst.Element(value=value)]))]:
            return program.qualified(call.func) in _OF_LISTS and _is_number(program, value)
        case [
            cst.Arg(
                value=cst.BinaryOperation(
                    operator=cst.Multiply(),
                    left=cst.List(elements=[cst.Element(value=value)]),
                )
            )
        ] if program.qualified(call.func) in _OF_LISTS:
            return _is_number(program, value) or _may_be_setting(value)
        case _:
            return False


def _is_number(program: Program, value: cst.BaseExpression) -> bool:
    """Whether an expression is one number: known, or a position (``names.index(name)``)."""
    if program.value(value).kind in (Kind.NUMBER, Kind.BOOL):
        return True
    if isinstance(value, cst.Name):
        bound = program.flow.reaching(value)
        return bool(bound) and all(one.is_plain and _is_position(one.value) for one in bound)
    return _is_position(value)


def _is_position(value: cst.CSTNode | None) -> bool:
    match value:
        case cst.Call(func=cst.Attribute(attr=cst.Name("index")), args=[cst.Arg(star="")]):
            return True
        case _:
            return False


def _may_be_setting(value: cst.BaseExpression) -> bool:
    """``self.classes``, ``args.label``: an option of a script, of which there is one number."""
    return isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name)


def _between(move: cst.Call, made: cst.Call) -> Iterator[str]:
    """Yield the methods from a move down to what made the tensor."""
    node: cst.BaseExpression = move
    while node is not made and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        yield node.func.attr.value
        node = node.func.value


def goal_of(program: Program, move: cst.Call) -> Goal | None:
    """Return where ``.to(...)``, ``.cuda(...)``, ``.type(...)`` or ``.type_as(...)`` puts a tensor.

    None if not on a GPU.  Of ``.type(torch.cuda.FloatTensor)`` the device has no code of its own.
    """
    assert isinstance(move.func, cst.Attribute)
    if any(arg.star for arg in move.args):
        return None
    if move.func.attr.value == "type":
        kind = move.args[0].value if move.args else None
        return Goal(None, plain=False) if program.devices.of_tensor_type(kind).gpu else None
    words = keywords(move)
    places = [arg.value for arg in move.args if arg.keyword is None]
    device = words.get("device", places[0] if places else None)
    plain = words.keys() <= {"device", "dtype", "non_blocking"} and len(places) < 4
    if move.func.attr.value == "cuda":
        return Goal(_cuda_code(program, device), None, plain=plain)
    if device is None:
        return None
    other = program.value(device)
    if other.kind in (Kind.TENSOR, Kind.BATCH) or move.func.attr.value == "type_as":
        return _beside(program, device) if other.device.gpu else None
    found = program.values.device(device)
    if found is None or not found.gpu:
        return None
    dtype = words.get("dtype", places[1] if len(places) > 1 else None)
    code = None if dtype is None or literal(dtype) == "None" else program.code(dtype)
    return Goal(_one_line(program.code(device)), code, plain=plain)


def _beside(program: Program, other: cst.BaseExpression) -> Goal:
    """``.to(other)``, ``.type_as(other)``: to the GPU that the other is on, and in its dtype."""
    code = _one_line(program.code(other))
    return Goal(None if code is None else f"{code}.device", plain=False, like=code)


def _cuda_code(program: Program, device: cst.BaseExpression | None) -> str | None:
    """Return the device of ``.cuda(device)`` as code; None where a variable may be None."""
    if device is None or literal(device) == "None":
        return '"cuda"'
    if isinstance(device, cst.Integer):
        return f'"cuda:{device.value}"'
    if program.value(device).kind in (Kind.NUMBER, Kind.DEVICE, Kind.STRING):
        return _one_line(program.code(device))
    return None


def _one_line(code: str) -> str | None:
    return None if "\n" in code or "#" in code else code


def counts(program: Program, made: cst.Call) -> bool:
    """Whether ``arange`` gives whole numbers: from 0 in steps of 1, or by whole numbers."""
    if any(arg.star for arg in made.args):
        return False
    if program.qualified(keywords(made).get("dtype")) in _WHOLE:
        return True
    ends = [
        a for a in made.args if a.keyword is None or a.keyword.value in ("start", "end", "step")
    ]
    return len(ends) == 1 or all(_is_whole(program, arg.value, 0) for arg in ends)


def _is_whole(program: Program, node: cst.CSTNode | None, depth: int) -> bool:
    """Whether an expression is certainly an ``int``."""
    match node:
        case cst.Integer():
            return True
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_whole(program, inner, depth)
        case cst.BinaryOperation(
            operator=cst.Add() | cst.Subtract() | cst.Multiply() | cst.FloorDivide()
        ):
            return all(_is_whole(program, side, depth) for side in (node.left, node.right))
        case cst.Call(func=cst.Name(value="len" | "int") as name):
            return program.is_builtin(name)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="size")), args=[_]):
            return True
        case cst.Subscript(value=cst.Attribute(attr=cst.Name(value="shape"))):
            return True
        case cst.Name() if depth < _DEPTH:
            bindings = program.flow.reaching(node)
            return bool(bindings) and all(_counts(program, b, depth + 1) for b in bindings)
        case _:
            return False


def _counts(program: Program, binding: Binding, depth: int) -> bool:
    """Whether a name is bound to an ``int``."""
    match binding:
        case Binding(is_plain=True, value=value):
            return _is_whole(program, value, depth)
        case Binding(kind=Bind.ASSIGN, value=cst.Attribute(attr=cst.Name(value="shape"))):
            return True
        case Binding(
            kind=Bind.ASSIGN, value=cst.Call(func=cst.Attribute(attr=cst.Name(value="size")))
        ):
            return True
        case Binding(kind=Bind.FOR, path=(), value=cst.Call(func=cst.Name(value="range") as name)):
            return program.is_builtin(name)
        case Binding(
            kind=Bind.PARAMETER, value=cst.Param(annotation=cst.Annotation(annotation=of))
        ):
            return isinstance(of, cst.Name) and of.value == "int"
        case _:
            return False
