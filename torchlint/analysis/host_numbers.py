"""What is a number on the host in one call of a function, whatever other calls give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.syntax.scopes import Binding

PLAIN = frozenset({Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NPSCALAR})
_KEPT = frozenset({"get", "items", "keys", "pop", "popleft", "values"})
_REDUCED = frozenset({"abs", "enumerate", "float", "int", "len", "list", "max", "min", "pow",
                      "reversed", "round", "sorted", "sum", "tuple", "zip"})  # fmt: skip


def on_gpu(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression is, or comes from, a tensor that may live on a GPU."""
    value = program.value(node)
    if value.kind is Kind.TENSOR:
        return program.on_gpu(value)
    return value.kind in (Kind.UNKNOWN, Kind.BATCH) and value.device.gpu


def numbers_given(
    home: Program,
    function: cst.FunctionDef,
    call: cst.Call,
    is_number: Callable[[cst.BaseExpression], bool],
) -> frozenset[int]:
    """Return the parameters of a function, by their ids, for which one call passes numbers."""
    if any(arg.star for arg in call.args):
        return frozenset()
    params, found = function.params, set[int]()
    passed: set[int] = set()
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        node = home.calls.passed(function, param, call)
        if node is None:
            number = param.default is not None and not on_gpu(home, param.default)
        else:
            passed.add(id(node))
            number = is_number(node)
        if number:
            found.add(id(param))
    if all(is_number(arg.value) for arg in call.args if id(arg.value) not in passed):
        rest = (params.star_arg, params.star_kwarg)
        found.update(id(param) for param in rest if isinstance(param, cst.Param))
    return frozenset(found)


def is_made_of(program: Program, node: cst.CSTNode, numbers: frozenset[int]) -> bool:
    """Whether an expression is a number where some parameters of its function are.

    What an object keeps of such a parameter counts as one as well: a meter is told either numbers
    or tensors.
    """
    seen: set[int] = set()
    todo: list[cst.CSTNode] = [node]
    while todo:
        one = todo.pop()
        if id(one) in seen or id(one) in numbers:
            continue
        seen.add(id(one))
        value = program.value(one)
        if value.kind in PLAIN:
            continue
        parts = _parts(program, one)
        if parts is not None:
            todo += parts
        elif isinstance(one, cst.Param) or _is_on_gpu(program, value):
            return False
    return True


def _is_on_gpu(program: Program, value: Value) -> bool:
    """Whether a value, or anything it holds, may live on a GPU."""
    if value.kind is Kind.TENSOR:
        return program.on_gpu(value)
    if value.kind in (Kind.UNKNOWN, Kind.BATCH) and value.device.gpu:
        return True
    held = [*(value.items or ()), *([value.element] if value.element else [])]
    return any(_is_on_gpu(program, one) for one in held)


def _parts(program: Program, node: cst.CSTNode) -> list[cst.CSTNode] | None:
    """Return what the value of an expression is made of; None where that cannot be said."""
    match node:
        case cst.Name():
            return [_bound(binding) for binding in program.flow.reaching(node)] or None
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            owner = program.classes.around(node)
            stores = [] if owner is None else program.classes.stores(owner, name)
            return [store.value or store.node.value for store in stores] or None
        case cst.AugAssign():
            return [node.value]  # what it is added to has a line of its own
        case cst.BinaryOperation() | cst.BooleanOperation():
            return [node.left, node.right]
        case cst.UnaryOperation():
            return [node.expression]
        case cst.Comparison():
            return [node.left, *(item.comparator for item in node.comparisons)]
        case cst.IfExp():
            return [node.body, node.orelse]
        case cst.Tuple() | cst.List():
            return [element.value for element in node.elements]
        case cst.Subscript():
            return [node.value]
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name))):
            return [inner] if name in _KEPT else None
        case cst.Call(func=cst.Name(value=name) as func):
            reduces = name in _REDUCED and program.is_builtin(func)
            return [arg.value for arg in node.args] if reduces else None
        case _:
            return None


def _bound(binding: Binding) -> cst.CSTNode:
    taken = binding.kind in (Bind.ASSIGN, Bind.FOR, Bind.PARAMETER, Bind.AUGMENT)
    return binding.value if taken and binding.value is not None else binding.node
