"""Which tensors hold on to the graph that autograd recorded to compute them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.arguments import literal
from torchlint.analysis.parameters import has_parameters
from torchlint.analysis.reach import callee, forward_of
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.syntax.scopes import Binding


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
# ... or hold as much as their members: nothing is put into them later, as into a list.
_MEMBERS = frozenset({Kind.ITERATOR, Kind.TUPLE})
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
GRAPH_METHODS = frozenset(
    """mean sum pow square sqrt exp log abs neg view reshape squeeze unsqueeze flatten transpose
    permute contiguous clone float double half bfloat16 cpu cuda to max min amax amin norm clamp
    softmax log_softmax sigmoid tanh relu t add sub mul div matmul mm bmm expand repeat prod
    logsumexp std var cumsum type_as masked_select index_select gather""".split()
)  # fmt: skip
# ... or of what it is combined with.
_OPERATES = frozenset("add sub mul div matmul mm bmm max min pow clamp".split())
DISTRIBUTIONS = "torch.distributions."
# Methods of distributions that draw without gradients; ``rsample`` draws with them.
_DRAWS = frozenset({"sample", "sample_n"})
_ATTRIBUTES_WITHOUT = frozenset({"data", "grad", "shape", "device", "dtype", "ndim"})
_INDICES = torch_api.ALWAYS_PAIR | torch_api.PAIR_WITH_DIM
_DEPTH = 20  # expressions and functions in one another


def held(program: Program, node: cst.CSTNode | None) -> Held:
    """Whether the value of an expression holds a graph."""
    return Held.MAYBE if node is None else _Question(program).held(node, 0)


def holds(program: Program, binding: Binding) -> Held:
    """Whether a name holds a graph by what one of its bindings gave it."""
    return _Question(program).holds(binding, 0)


class _Question:
    """One question with the answers on the way to it: bindings lead back to one another."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[int, Held] = {}

    def held(self, node: cst.CSTNode, depth: int) -> Held:
        if depth > _DEPTH:
            return Held.MAYBE
        match node:
            case cst.Name():
                return self._name(node, depth)
            case cst.Attribute(attr=cst.Name(value=name)) if name in _ATTRIBUTES_WITHOUT:
                return Held.NO
            case cst.Subscript(value=cst.Call() as call) if _gives_indices(self._program, call):
                return Held.NO if _is_second(node) else self.held(call, depth + 1)
            case cst.Attribute(value=inner) | cst.Subscript(value=inner):
                return self._plain(node) or self.held(inner, depth + 1)
            case cst.Call():
                return self._call(node, depth)
            case cst.BinaryOperation(left=left, right=right):
                off = self._program.recordings.at(node) is Recording.OFF
                return Held.NO if off else self._plain(node) or self._any((left, right), depth)
            case cst.UnaryOperation(operator=operator, expression=inner):
                return Held.NO if isinstance(operator, cst.Not) else self.held(inner, depth + 1)
            case cst.Comparison():
                return Held.NO
            case cst.IfExp(body=first, orelse=second):
                return _either([self.held(first, depth + 1), self.held(second, depth + 1)])
            case cst.BooleanOperation(left=first, right=second):
                return _either([self.held(first, depth + 1), self.held(second, depth + 1)])
            case cst.Tuple() | cst.List() | cst.Dict():
                return self._any([element.value for element in node.elements], depth)
            case _:
                return self._plain(node) or Held.MAYBE

    def _plain(self, node: cst.CSTNode) -> Held | None:
        """Return NO for what is known to be no tensor, None for what may be one."""
        return Held.NO if _is_plain(self._program.value(node)) else None

    def _any(self, nodes: Iterable[cst.CSTNode], depth: int) -> Held:
        """Return what holds of a value that is made of several."""
        return max((self.held(node, depth + 1) for node in nodes), default=Held.NO)

    # -- names -------------------------------------------------------------------------------

    def _name(self, node: cst.Name, depth: int) -> Held:
        bindings = self._program.flow.reaching(node)
        if not bindings:
            return self._plain(node) or Held.MAYBE
        found = _either(self.holds(binding, depth + 1) for binding in bindings)
        return min(found, Held.MAYBE) if is_cut_in_place(self._program, node) else found

    def holds(self, binding: Binding, depth: int) -> Held:
        known = self._known.get(id(binding))
        if known is None:
            self._known[id(binding)] = Held.NO  # it leads back to itself, which adds nothing
            known = self._known[id(binding)] = self._bound(binding, depth)
        return known

    def _bound(self, binding: Binding, depth: int) -> Held:
        program, value = self._program, binding.value
        if _is_plain(program.values.binding(binding)):
            return Held.NO
        shown = program.usage.shown_by((binding,))
        if shown is not None and shown.kind is Kind.TENSOR:
            return Held.YES
        match binding.kind:
            case Bind.ASSIGN if isinstance(value, cst.Dict) and not value.elements:
                return Held.MAYBE  # filled later
            case Bind.ASSIGN if value is not None:
                given = program.growth.of_binding(binding)
                put = self._any([gift.value for gift in given], depth)
                return max(put, self._part(value, binding.path, depth + 1))
            case Bind.AUGMENT if isinstance(value, cst.AugAssign):
                if program.recordings.at(value) is Recording.OFF:
                    return Held.NO
                before = program.flow.before(value, binding.name)
                others = [self.holds(one, depth + 1) for one in before if one is not binding]
                return max(_either(others), self.held(value.value, depth + 1))
            case _:
                return Held.MAYBE

    def _part(self, value: cst.CSTNode, path: tuple[int, ...], depth: int) -> Held:
        """Return what holds of a part of a value that is taken apart."""
        if not path:
            return self.held(value, depth)
        match value:
            case cst.Tuple() | cst.List() if 0 <= path[0] < len(value.elements):
                return self._part(value.elements[path[0]].value, path[1:], depth)
            case cst.Call() if path == (1,) and _gives_indices(self._program, value):
                return Held.NO
            case cst.Call():
                return self._call(value, depth, path)
            case _:
                return self.held(value, depth)

    # -- calls -------------------------------------------------------------------------------

    def _call(self, call: cst.Call, depth: int, path: tuple[int, ...] = ()) -> Held:
        program = self._program
        if program.recordings.at(call) is Recording.OFF or self._plain(call):
            return Held.NO
        name = program.qualified(call.func)
        if name.startswith("torch."):
            return self._of_torch(call, name, depth)
        function = program.value(call.func)
        if function.kind is Kind.MODULE:
            return self._forward(call, function, path, depth)
        found = callee(program, call)
        if found is not None:
            return self._returned(*found, path, depth)
        if isinstance(call.func, cst.Attribute):
            method = call.func.attr.value
            if method in _CUTS or (method in _DRAWS and is_distribution(program, call.func.value)):
                return Held.NO
            if method in GRAPH_METHODS:
                others = call.args if method in _OPERATES else ()
                return self._any((call.func.value, *(arg.value for arg in others)), depth)
        return Held.MAYBE

    def _returned(
        self, program: Program, function: cst.FunctionDef, path: tuple[int, ...], depth: int
    ) -> Held:
        """Return what holds of what a function returns, or of a part of it."""
        other = self if program is self._program else _Question(program)
        returned = [one.value for one in program.returns(function) if one.value is not None]
        names = (program.qualified(_called(item.decorator)) for item in function.decorators)
        if depth > _DEPTH or program.yields(function) or not all(map(_is_transparent, names)):
            return Held.MAYBE
        return _either(other._part(value, path, depth + 1) for value in returned)  # noqa: SLF001

    def _of_torch(self, call: cst.Call, name: str, depth: int) -> Held:
        """Return what holds of the result of a function of torch: as of what it is given."""
        space, _, last = name.rpartition(".")
        if last in _CUTS:
            given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            return Held.MAYBE if "requires_grad" in given else Held.NO
        if space in ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft"):
            return self._any([arg.value for arg in call.args], depth)
        return Held.MAYBE

    def _forward(self, call: cst.Call, module: Value, path: tuple[int, ...], depth: int) -> Held:
        """Return what holds of the output of a module; of a loss, as of what it is given.

        One without parameters may only measure what it is given: it returns what it says.
        """
        given = self._any([arg.value for arg in call.args], depth)
        if module.type.startswith("torch.nn.") and module.type.endswith("Loss"):
            return given
        found = forward_of(self._program, module)
        if found is not None and has_parameters(self._program, module) is False:
            return self._returned(*found, path, depth)
        return max(given, Held.MAYBE)


def is_distribution(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression is one of PyTorch's distributions, made here or under its name."""
    made: list[cst.CSTNode | None] = [node]
    if isinstance(node, cst.Name):
        bound = program.flow.reaching(node)
        made = [one.value if one.is_plain else None for one in bound]
    return bool(made) and all(
        isinstance(one, cst.Call) and program.qualified(one.func).startswith(DISTRIBUTIONS)
        for one in made
    )


def _is_plain(value: Value) -> bool:
    """Whether a value is no tensor, nor has any: an iterator of a loader has batches alone."""
    if value.kind not in _MEMBERS:
        return value.kind in _PLAIN
    members = value.items or (value.element,)
    return all(one is not None and _is_plain(one) for one in members)


def _called(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


def _is_transparent(decorator: str) -> bool:
    """Whether a decorator gives back what the function returns."""
    return decorator.startswith(("torch.", "functools.", "typing."))


def _either(found: Iterable[Held]) -> Held:
    """Return what holds of a value that is one of several."""
    kinds = set(found)
    return kinds.pop() if len(kinds) == 1 else Held.MAYBE


def is_cut_in_place(program: Program, node: cst.Name) -> bool:
    """Whether ``x.detach_()`` is called on a name, wherever that is."""
    return any(
        isinstance(func.value, cst.Name) and func.value.value == node.value
        for _, func in program.method_calls("detach_")
    )


def _is_second(node: cst.Subscript) -> bool:
    """Whether a subscript takes the second of two results."""
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and literal(index.value) == "1"


def _gives_indices(program: Program, call: cst.Call) -> bool:
    """Whether a call gives values and their places: ``out.max(1)``, ``torch.topk(out, 5)``."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _INDICES:
        return False
    of_torch = program.qualified(func).startswith("torch.")
    return func.attr.value in torch_api.ALWAYS_PAIR or len(call.args) > of_torch
