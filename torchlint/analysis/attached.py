"""Which tensors hold on to the graph that autograd recorded to compute them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.index import Bind
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.index import Binding
    from torchlint.analysis.program import Program


class Held(enum.IntEnum):
    """Whether a value keeps a graph alive."""

    NO = enum.auto()
    MAYBE = enum.auto()
    YES = enum.auto()


# Kinds of values that are no tensors, and hold none.
_PLAIN = frozenset(
    {Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.BATCH, Kind.NDARRAY, Kind.NPSCALAR,
     Kind.LOADER, Kind.DATASET, Kind.DEVICE, Kind.DTYPE, Kind.FUNCTION, Kind.CLASS}
)  # fmt: skip
# Methods and functions of tensors whose result has no graph: it is whole, true or false, or a copy.
_CUTS = frozenset(
    """detach item tolist numpy argmax argmin argsort argwhere long int bool byte short char size
    dim numel eq ne gt lt ge le greater less equal not_equal greater_equal less_equal nonzero isnan
    isinf isfinite isin logical_and logical_or logical_not logical_xor any all new_zeros new_ones
    new_full new_tensor new_empty count_nonzero bincount multinomial bernoulli searchsorted
    bucketize one_hot zeros ones full empty eye arange linspace tensor as_tensor from_numpy rand
    randn randint randperm zeros_like ones_like full_like empty_like rand_like randn_like
    randint_like tril_indices triu_indices""".split()
)
# Methods whose result is part of the graph of what they are called on.
_KEEPS = frozenset(
    """mean sum pow square sqrt exp log abs neg view reshape squeeze unsqueeze flatten transpose
    permute contiguous clone float double half bfloat16 cpu cuda to max min amax amin norm clamp
    softmax log_softmax sigmoid tanh relu t add sub mul div matmul mm bmm expand repeat prod
    logsumexp std var cumsum type_as masked_select index_select gather""".split()
)  # fmt: skip
_ATTRIBUTES_WITHOUT = frozenset({"data", "grad", "shape", "device", "dtype", "ndim"})
_INDICES = torch_api.ALWAYS_PAIR | torch_api.PAIR_WITH_DIM
_DEPTH = 10


def held(program: Program, node: cst.CSTNode | None, depth: int = 0) -> Held:
    """Whether the value of an expression holds a graph."""
    if node is None or depth > _DEPTH:
        return Held.MAYBE
    match node:
        case cst.Name():
            return _name(program, node, depth)
        case cst.Attribute(value=inner, attr=cst.Name(value=name)):
            if name in _ATTRIBUTES_WITHOUT:
                return Held.NO
            return _plain(program, node) or held(program, inner, depth + 1)
        case cst.Call():
            return _call(program, node, depth)
        case cst.BinaryOperation() if program.recordings.at(node) is Recording.OFF:
            return Held.NO
        case cst.BinaryOperation(left=left, right=right):
            return _plain(program, node) or _any(program, (left, right), depth)
        case cst.UnaryOperation(operator=operator, expression=inner):
            return Held.NO if isinstance(operator, cst.Not) else held(program, inner, depth + 1)
        case cst.Comparison():
            return Held.NO
        case cst.IfExp(body=body, orelse=orelse):
            return _either([held(program, body, depth + 1), held(program, orelse, depth + 1)])
        case cst.BooleanOperation(left=left, right=right):
            return _either([held(program, left, depth + 1), held(program, right, depth + 1)])
        case cst.Tuple() | cst.List():
            return _any(program, [element.value for element in node.elements], depth)
        case cst.Dict():
            return _any(program, [element.value for element in node.elements], depth)
        case cst.Subscript():
            return _subscript(program, node, depth)
        case _:
            return _plain(program, node) or Held.MAYBE


def holds(program: Program, binding: Binding, depth: int = 0) -> Held:
    """Whether a name holds a graph by what one of its bindings gave it."""
    value = binding.value
    if program.value(value).kind is Kind.LOADER or _is_plain(program, binding):
        return Held.NO
    shown = program.usage.shown_by((binding,))
    if shown is not None and shown.kind is Kind.TENSOR:
        return Held.YES
    match binding.kind:
        case Bind.ASSIGN if isinstance(value, cst.Call) and binding.path == (1,):
            return Held.NO if _gives_indices(program, value) else held(program, value, depth + 1)
        case Bind.ASSIGN if isinstance(value, cst.Dict) and not value.elements:
            return Held.MAYBE  # filled later
        case Bind.ASSIGN:
            given = program.growth.of_binding(binding)
            return max(
                [held(program, one, depth + 1) for one in (value, *(g.value for g in given))]
            )
        case Bind.AUGMENT:
            assert isinstance(value, cst.AugAssign)
            if program.recordings.at(value) is Recording.OFF:
                return Held.NO
            before = [
                holds(program, other, depth + 1)
                for other in program.flow.before(value, binding.name)
                if other is not binding
            ]
            return max(_either(before), held(program, value.value, depth + 1))
        case _:
            return Held.MAYBE


def _is_plain(program: Program, binding: Binding) -> bool:
    return program.values.binding(binding).kind in _PLAIN


def _plain(program: Program, node: cst.CSTNode) -> Held | None:
    """Return NO for what is known to be no tensor, None for what may be one."""
    return Held.NO if program.value(node).kind in _PLAIN else None


def _either(found: Iterable[Held]) -> Held:
    """Return what holds of a value that is one of several."""
    kinds = set(found)
    return kinds.pop() if len(kinds) == 1 else Held.MAYBE


def _any(program: Program, nodes: Iterable[cst.CSTNode], depth: int) -> Held:
    """Return what holds of a value that is made of several."""
    return max((held(program, node, depth + 1) for node in nodes), default=Held.NO)


def _name(program: Program, node: cst.Name, depth: int) -> Held:
    bindings = program.flow.reaching(node)
    if not bindings:
        return _plain(program, node) or Held.MAYBE
    found = _either(holds(program, binding, depth + 1) for binding in bindings)
    return min(found, Held.MAYBE) if _cut_in_place(program, node) else found


def _cut_in_place(program: Program, node: cst.Name) -> bool:
    """Whether ``x.detach_()`` is called on a name, wherever that is."""
    return any(
        isinstance(func.value, cst.Name) and func.value.value == node.value
        for _, func in program.method_calls("detach_")
    )


def _subscript(program: Program, node: cst.Subscript, depth: int) -> Held:
    if isinstance(node.value, cst.Call) and _gives_indices(program, node.value):
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.Integer):
            return Held.NO if index.value.value == "1" else held(program, node.value, depth + 1)
    return _plain(program, node) or held(program, node.value, depth + 1)


def _gives_indices(program: Program, call: cst.Call) -> bool:
    """Whether a call gives values and their places: ``out.max(1)``, ``torch.topk(out, 5)``."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _INDICES:
        return False
    of_torch = program.qualified(func).startswith("torch.")
    return func.attr.value in torch_api.ALWAYS_PAIR or len(call.args) > of_torch


def _call(program: Program, call: cst.Call, depth: int) -> Held:
    if program.recordings.at(call) is Recording.OFF or _plain(program, call):
        return Held.NO
    name = program.qualified(call.func)
    if name.startswith("torch."):
        return _of_torch(program, call, name, depth)
    function = program.value(call.func)
    if function.kind is Kind.MODULE:
        return _forward(program, call, function.type, depth)
    target = program.calls.target(call)
    if target is not None:
        returned = [held(program, one.value, depth + 1) for one in program.returns(target)]
        return _either(returned)
    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        if method in _CUTS:
            return Held.NO
        if method in _KEEPS:
            return _any(program, (call.func.value, *(arg.value for arg in call.args)), depth)
    return Held.MAYBE


def _of_torch(program: Program, call: cst.Call, name: str, depth: int) -> Held:
    """Return what holds of the result of a function of torch: as of what it is given."""
    space, _, last = name.rpartition(".")
    if last in _CUTS:
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        return Held.MAYBE if "requires_grad" in given else Held.NO
    if space in ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft"):
        return _any(program, [arg.value for arg in call.args], depth)
    return Held.MAYBE


def _forward(program: Program, call: cst.Call, kind: str, depth: int) -> Held:
    """Return what holds of the output of a module; of a loss, as of what it is given."""
    given = _any(program, [arg.value for arg in call.args], depth)
    if kind.startswith("torch.nn.") and kind.endswith("Loss"):
        return given
    return max(given, Held.MAYBE)
