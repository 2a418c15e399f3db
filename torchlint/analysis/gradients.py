"""What a file does with ``.grad`` itself: reads it, fills it by hand, shares or fixes its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.none_checks import checked
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_CAPTURES = frozenset(
    {"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"}
)
_WRITES_INTO = frozenset({"add_", "copy_", "sub_"})
_ZEROS = frozenset({"zeros_like", "zeros", "new_zeros"})
_GRADS = frozenset({"grad", "_grad"})
_ASSIGNED = re.compile(r"\._?grad(?:\.data)?[ \t]*=(?!=)")
# What may return the memory of the tensor that it is called on: `to` and `cpu` copy nothing where
# the tensor is already there.
_SAME = frozenset(
    {"detach", "detach_", "requires_grad_", "view", "view_as", "reshape", "contiguous", "cpu",
     "cuda", "to", "squeeze", "unsqueeze", "t", "transpose", "share_memory_"}
)  # fmt: skip
_DEPTH = 8  # names and calls on the way from what is assigned to a gradient


@dataclass(frozen=True, slots=True)
class Gradients:
    """Where a file touches gradients by hand.

    ``reads`` would meet None in a parameter without a gradient; ``fills`` need a buffer that
    exists (``p.grad += g``, ``p.grad.copy_(g)``, a view put into ``p.grad``); ``made``: buffers are
    made beforehand (``p.grad = torch.zeros_like(p)``), for who fills them; ``captured``: the
    addresses of gradients are recorded in a CUDA graph.
    """

    reads: tuple[cst.Attribute, ...]
    fills: tuple[cst.Attribute, ...]
    made: bool
    captured: bool


def gradients(program: Program) -> Gradients:
    """Look at every ``.grad`` of a file."""
    reads: list[cst.Attribute] = []
    fills: list[cst.Attribute] = []
    made = False
    for node in program.index.of(cst.Attribute):
        if node.attr.value != "grad" or _is_function(program, node):
            continue
        if _fills(program, node):
            fills.append(node)
        made = made or _is_made(program, node)
        if not _is_stored(program, node) and not checked(program, node):
            reads.append(node)
    return Gradients(tuple(reads), tuple(fills), made, _captures(program))


def _is_function(program: Program, node: cst.Attribute) -> bool:
    """``torch.autograd.grad`` and other functions of that name."""
    above = program.parent(node)
    called = isinstance(above, cst.Call) and above.func is node
    return called or bool(program.qualified(node))


def _is_stored(program: Program, node: cst.Attribute) -> bool:
    above = program.parent(node)
    return isinstance(above, (cst.AssignTarget, cst.Del)) or (
        isinstance(above, cst.AnnAssign) and above.target is node
    )


def _fills(program: Program, node: cst.Attribute) -> bool:
    above = program.parent(node)
    match above:
        case cst.AugAssign(target=target):
            return target is node
        case cst.AssignTarget():
            statement = program.parent(above)
            return isinstance(statement, cst.Assign) and _is_view(statement.value)
        case cst.Subscript():
            return isinstance(program.parent(above), (cst.AssignTarget, cst.AugAssign))
        case cst.Attribute(attr=cst.Name(value="data")):
            return _fills(program, above)
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in _WRITES_INTO
        case _:
            return False


def _is_made(program: Program, node: cst.Attribute) -> bool:
    """``p.grad = torch.zeros_like(p)``."""
    target = program.parent(node)
    statement = program.parent(target) if isinstance(target, cst.AssignTarget) else None
    match statement:
        case cst.Assign(value=cst.Call(func=func)):
            return dotted(func).rpartition(".")[2] in _ZEROS
        case _:
            return False


def _is_view(node: cst.BaseExpression) -> bool:
    """Whether a gradient is made of a part of a larger buffer."""
    match node:
        case cst.Subscript():
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in {"view", "view_as", "narrow", "reshape", "as_strided"}
        case _:
            return False


def _captures(program: Program) -> bool:
    return any(program.calls_of(*_CAPTURES))


# -- gradients that two parameters share ------------------------------------------------------


def shares_gradients(program: Program) -> bool:
    """Whether a parameter keeps the gradient of another, here or in a file one import away.

    ``shared._grad = param.grad`` makes them one tensor: zeros in one are zeros in the other, while
    dropping one leaves the other as it is, and the next backward pass adds to it.
    """
    if _shares(program):
        return True
    project, path = program.project, program.path
    if project is None or path is None:
        return False
    imports = project.imports
    near = {*imports.targets(str(path)), *imports.importers(str(path))}
    for name in sorted(near & imports.where(_assigns)):
        other = project.program(name)
        if other is not None and _shares(other):
            return True
    return False


def _assigns(text: str) -> bool:
    return _ASSIGNED.search(text) is not None


def _shares(program: Program) -> bool:
    if not _assigns(program.text):
        return False
    return any(
        (owner := _owner(target.target)) is not None
        and any(other != owner for other in _gradients_of(program, assign.value, (), 0))
        for assign in program.index.of(cst.Assign)
        for target in assign.targets
    )


def _owner(node: cst.BaseExpression) -> str | None:
    """Return ``p`` of ``p.grad``, ``p._grad`` and ``p.grad.data``."""
    match node:
        case cst.Attribute(value=inner, attr=cst.Name(value="data")):
            return _owner(inner)
        case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in _GRADS:
            return dotted(owner) or "?"
        case _:
            return None


def _gradients_of(
    program: Program, node: cst.CSTNode, path: tuple[int, ...], depth: int
) -> Iterator[str]:
    """Yield the parameters whose gradients a value may be: the same memory, and no copy of it."""
    if depth > _DEPTH:
        return
    match node:
        case cst.Attribute() if (owner := _owner(node)) is not None:
            yield owner
            return
        case cst.Attribute(value=inner, attr=cst.Name(value="data")) | cst.Subscript(value=inner):
            parts: list[tuple[cst.CSTNode, tuple[int, ...]]] = [(inner, path)]
        case cst.Call(func=cst.Attribute(value=inner, attr=attr)) if attr.value in _SAME:
            parts = [(inner, path)]
        case cst.ListComp(elt=inner) | cst.GeneratorExp(elt=inner):
            parts = [(inner, path)]
        case cst.IfExp(body=one, orelse=other):
            parts = [(one, path), (other, path)]
        case cst.Call(func=cst.Name(value="zip"), args=args) if path and path[0] < len(args):
            parts = [(args[path[0]].value, path[1:])]
        case cst.Call(func=cst.Name(value="enumerate"), args=[arg, *_]) if path:
            parts = [(arg.value, path[1:])]
        case cst.Call(func=cst.Name(value="list" | "tuple" | "reversed"), args=[arg]):
            parts = [(arg.value, path)]
        case cst.Name():
            found = program.flow.reaching(node)
            parts = [one for binding in found for one in _given(program, binding, path)]
        case _:
            return
    for part, rest in parts:
        yield from _gradients_of(program, part, rest, depth + 1)


def _given(
    program: Program, binding: Binding, path: tuple[int, ...]
) -> Iterator[tuple[cst.CSTNode, tuple[int, ...]]]:
    """Yield what a name stands for, what is put into it as a list, and what calls pass for it."""
    value = binding.value
    if isinstance(value, cst.Param):
        function = program.function(value)
        if function is not None:
            yield from ((one, path) for one in program.calls.arguments(function, value))
    elif value is not None:
        yield value, (*binding.path, *path)
    for call, func in program.method_calls("append"):
        if (
            isinstance(func.value, cst.Name)
            and func.value.value == binding.name
            and binding in program.flow.reaching(func.value)
        ):
            yield from ((arg.value, path) for arg in call.args)
