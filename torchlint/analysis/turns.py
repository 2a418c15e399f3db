"""What the turns of a loop do with the rows of tensors: whether one operation could do it for all.

A turn fits where nothing of it is seen by the next, but for sums and lists that only grow, where
its results have the same shape in each, and where all that it calls is known.  Everything else is
left alone: recurrences, branches, rows of different lengths, work on the host.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.origins import origins
from torchlint.analysis.torch_api import NO_TENSOR, SEVERAL, TENSOR_BOOL, TENSOR_NONE
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value


class Part(enum.Enum):
    """What an expression of a turn is."""

    SAME = enum.auto()  # the same in each turn
    COUNT = enum.auto()  # the number of the turn
    ROW = enum.auto()  # a tensor that differs by the turn, in its values alone
    INDEX = enum.auto()  # one of whole numbers, such as what `argmax` gives
    NUMBER = enum.auto()  # read from one of those: `.item()`


_VALUES = (Part.ROW, Part.INDEX)
_PICKS = (Part.COUNT, Part.INDEX, Part.NUMBER)

_SPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
# What gives results whose shape depends on values, cannot take many rows at once, or leaves torch.
_UNEVEN = frozenset(
    """nonzero argwhere masked_select unique unique_consecutive bincount histc histogram randperm
    repeat_interleave isin from_numpy as_tensor asarray from_dlpack frombuffer cpu cuda to numpy
    tolist grad masked_scatter sparse_coo_tensor to_sparse coalesce indices combinations
    cartesian_prod split_with_sizes narrow sparse_mask type vmap cond compile""".split()
).union(SEVERAL, NO_TENSOR, TENSOR_BOOL, TENSOR_NONE)
_WHOLE = frozenset({"argmax", "argmin", "argsort", "multinomial", "searchsorted", "long"})
_PAIRS = frozenset({"max", "min", "topk", "sort", "median", "mode", "kthvalue"})  # then an index
_SIZES = frozenset({"size", "numel", "dim", "nelement", "ndimension"})
_SHAPES = frozenset({"shape", "device", "dtype", "ndim", "is_cuda"})
_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
# Layers of torch that treat every sample for itself, and keep nothing.
_LAYERS = frozenset(
    """Linear Bilinear Identity Embedding LayerNorm GroupNorm RMSNorm CosineSimilarity
    PairwiseDistance Softmax Softmin LogSoftmax Sigmoid LogSigmoid Tanh ReLU ReLU6 LeakyReLU PReLU
    ELU CELU SELU GELU SiLU Mish Hardswish Hardsigmoid Hardtanh Softplus Flatten Unflatten
    Conv1d Conv2d Conv3d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d Upsample""".split()
)
_MODES = frozenset({"no_grad", "enable_grad", "inference_mode", "autocast"})
JOINS = frozenset(
    f"torch.{name}"
    for name in ("stack", "cat", "concat", "concatenate", "vstack", "hstack", "row_stack")
)


class UnfitError(Exception):
    """A turn does what no single operation does for all rows."""


class Turn:
    """One turn of a loop, read statement by statement.

    ``taken`` are the tensors of which each turn takes one row, ``works`` whether it computes
    anything with one, ``picks`` whether it reads an index from the device, and ``grown`` the lists
    that it appends to.
    """

    def __init__(self, program: Program) -> None:
        """Begin with nothing that differs by the turn."""
        self.program = program
        self.parts: dict[str, Part] = {}
        self.taken: list[tuple[cst.BaseExpression, bool]] = []  # and whether its first dimension
        self.grown: list[cst.Name] = []
        self.works = False
        self.picks = False
        self.gives = False
        self._bound: set[str] = set()  # by assignments, anywhere in the loop
        self._kept: set[str] = set()  # outlasts the turn: sums, lists, what it fills

    # -- statements --------------------------------------------------------------------------

    def run(self, body: cst.BaseSuite) -> None:
        """Read the body of the loop."""
        self._bound = _assigned(self.program, body)
        self._kept = _filled(self.program, body) - self._bound
        self._block(body)

    def _block(self, body: cst.BaseSuite) -> None:
        for line in body.body:
            if type(line) is cst.SimpleStatementLine:
                for small in line.body:
                    self._statement(small)
            elif type(line) is cst.With and all(self._is_mode(item.item) for item in line.items):
                self._block(line.body)
            elif isinstance(line, cst.BaseSmallStatement):
                self._statement(line)
            else:
                raise UnfitError

    def _is_mode(self, node: cst.BaseExpression) -> bool:
        name = self.program.qualified(node.func) if type(node) is cst.Call else ""
        return name.startswith("torch.") and name.rpartition(".")[2] in _MODES

    def _statement(self, node: cst.BaseSmallStatement) -> None:
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                self._assign(target, value)
            case cst.AugAssign(target=cst.Name() as name, value=value):
                self._add(name, value, node.operator)
            case cst.AugAssign(target=cst.Subscript() as target, value=value):
                self._store(target, value)
            case cst.Expr(
                value=cst.Call(
                    func=cst.Attribute(value=cst.Name() as name, attr=cst.Name(value="append")),
                    args=[cst.Arg(value=value, star="")],
                )
            ):
                self._append(name, value)
            case cst.Expr(value=cst.SimpleString()) | cst.Pass():
                pass
            case _:
                raise UnfitError

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        match target, value:
            case cst.Name(value=name), _ if name not in self.parts and (
                added := _added(self.program, value, name)
            ):
                self._accumulate(name, added)
            case cst.Name(value=name), _:
                self.parts[name] = self.part(value)
            case cst.Subscript(), _:
                self._store(target, value)
            case cst.Tuple(elements=names), cst.Tuple(elements=values) if len(names) == len(values):
                parts = [self.part(one.value) for one in values]
                for one, part in zip(names, parts, strict=True):
                    self._name(one.value, part)
            case cst.Tuple(elements=[first, second]), cst.Call() if _is_pair(value):
                part = self.part(value)
                self._name(first.value, part)
                self._name(second.value, Part.INDEX if part in _VALUES else part)
            case _:
                raise UnfitError

    def _name(self, target: cst.BaseExpression, part: Part) -> None:
        if type(target) is not cst.Name:
            raise UnfitError
        self.parts[target.value] = part

    def _add(self, name: cst.Name, value: cst.BaseExpression, operator: cst.BaseAugOp) -> None:
        """``total += f(row)``, or a change of what the turn itself has made."""
        if name.value in self.parts:
            part = self.part(value)
            if part not in (Part.SAME, *_VALUES) or self.parts[name.value] not in (
                Part.SAME,
                *_VALUES,
            ):
                raise UnfitError
            self.works = self.works or part in _VALUES
            self.parts[name.value] = Part.ROW
        elif isinstance(operator, cst.AddAssign | cst.SubtractAssign):
            self._accumulate(name.value, value)
        else:
            raise UnfitError

    def _accumulate(self, name: str, value: cst.BaseExpression) -> None:
        part = self.part(value)
        if part not in (Part.SAME, *_VALUES):
            raise UnfitError
        self._kept.add(name)
        self.gives = self.gives or part in _VALUES
        self.works = self.works or part in _VALUES

    def _store(self, target: cst.Subscript, value: cst.BaseExpression) -> None:
        """``out[i] = f(row)``."""
        base = target.value
        if type(base) is not cst.Name or self.program.value(base).kind is not Kind.TENSOR:
            raise UnfitError
        if Part.COUNT not in [self._pick(one.slice) for one in target.slice]:
            raise UnfitError  # two turns may fill the same place
        if self.part(value) not in _VALUES:
            raise UnfitError
        self.gives = True

    def _append(self, name: cst.Name, value: cst.BaseExpression) -> None:
        if name.value in self._bound or self.part(value) not in _VALUES:
            raise UnfitError
        self.grown.append(name)
        self.gives = True

    # -- expressions -------------------------------------------------------------------------

    def part(self, node: cst.CSTNode) -> Part:
        """Return what an expression is in a turn; raise where that cannot be told."""
        match node:
            case cst.Name(value=name):
                return self._variable(name)
            case cst.Integer() | cst.Float() | cst.SimpleString():
                return Part.SAME
            case cst.Attribute(value=inner, attr=cst.Name(value=name)):
                part = self.part(inner)
                if part is Part.SAME or (part in _VALUES and name in _SHAPES):
                    return Part.SAME
                if part in _VALUES and name in _VIEWS:
                    return part
            case cst.Subscript():
                return self._entry(node)
            case cst.Call():
                return self._call(node)
            case cst.BinaryOperation(left=left, right=right):
                return self._combined(self.part(left), self.part(right))
            case cst.Comparison(left=left, comparisons=[one]) if not isinstance(
                one.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot
            ):
                return self._combined(self.part(left), self.part(one.comparator))
            case cst.UnaryOperation(operator=operator, expression=inner):
                if not isinstance(operator, cst.Not):
                    return self._combined(self.part(inner), Part.SAME)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                parts = {self.part(one.value) for one in elements if type(one) is cst.Element}
                if len(elements) and parts <= {Part.SAME, *_VALUES}:
                    return Part.SAME if parts == {Part.SAME} else Part.ROW
            case _:
                pass
        raise UnfitError

    def _variable(self, name: str) -> Part:
        if name in self.parts:
            return self.parts[name]
        if name in self._bound or name in self._kept:
            raise UnfitError  # a turn sees what the one before it has made
        return Part.SAME

    def _combined(self, left: Part, right: Part) -> Part:
        parts = {left, right} - {Part.SAME}
        if Part.COUNT in parts:
            raise UnfitError
        if parts <= {Part.NUMBER}:
            return Part.NUMBER if parts else Part.SAME
        self.works = True
        return Part.ROW

    def _entry(self, node: cst.Subscript) -> Part:
        picks = [self._pick(one.slice) for one in node.slice]
        own = type(node.value) is cst.Name and node.value.value in self._kept
        if own and not (Part.COUNT in picks and set(picks) <= {Part.COUNT, Part.SAME}):
            raise UnfitError  # of what the loop fills, what other turns have made
        base = Part.SAME if own else self.part(node.value)
        if base not in (Part.SAME, *_VALUES):
            raise UnfitError
        chosen = [pick for pick in picks if pick in _PICKS]
        if not chosen:
            return base
        if not own and Part.COUNT in chosen:
            self._take(node.value, base, picks)
        elif not self._may_be_tensor(node.value):
            raise UnfitError
        if Part.INDEX in chosen or Part.NUMBER in chosen:
            self.works = True
            self.picks = self.picks or Part.NUMBER in chosen
        return Part.ROW

    def _take(self, node: cst.BaseExpression, base: Part, picks: Sequence[Part]) -> None:
        if (
            base is not Part.SAME
            or picks.count(Part.COUNT) > 1
            or not is_tensor(self.program, node)
        ):
            raise UnfitError
        self.taken.append((node, picks[0] is Part.COUNT))

    def _may_be_tensor(self, node: cst.BaseExpression) -> bool:
        return self.program.value(node).kind in (Kind.TENSOR, Kind.BATCH, Kind.UNKNOWN)

    def _pick(self, node: cst.BaseSlice) -> Part:
        """Return by what a subscript picks; a slice has to be as long in each turn."""
        if isinstance(node, cst.Index):
            if type(node.value) is cst.Ellipsis:
                return Part.SAME
            part = self.part(node.value)
            if part is Part.ROW:
                raise UnfitError  # a mask, as far as anybody knows
            return part
        assert isinstance(node, cst.Slice)
        bounds = [one for one in (node.lower, node.upper, node.step) if one is not None]
        if any(self.part(one) is not Part.SAME for one in bounds):
            raise UnfitError
        return Part.SAME

    # -- calls -------------------------------------------------------------------------------

    def _call(self, call: cst.Call) -> Part:
        if any(arg.star or (arg.keyword and arg.keyword.value == "out") for arg in call.args):
            raise UnfitError
        func = call.func
        name = self.program.qualified(func)
        if name.startswith("torch."):
            return self._torch(name, call)
        if type(func) is cst.Attribute:
            receiver = self.part(func.value)
            if receiver is not Part.SAME or self.program.value(func.value).is_tensor:
                return self._method(func.attr.value, receiver, call)
            if func.attr.value in _SIZES and not self._given(call):
                return Part.SAME
        elif type(func) is cst.Name and self.program.is_builtin(func):
            return self._builtin(func.value, call)
        if _is_layer(self.program.value(func)):
            return self._of(self._given(call), "")
        raise UnfitError

    def _given(self, call: cst.Call) -> set[Part]:
        return {self.part(arg.value) for arg in call.args} - {Part.SAME}

    def _torch(self, name: str, call: cst.Call) -> Part:
        space, _, last = name.rpartition(".")
        if name == "torch.tensor":
            return Part.ROW if self._given(call) else Part.SAME
        if space not in _SPACES or last in _UNEVEN or (last == "where" and len(call.args) == 1):
            raise UnfitError
        given = self._given(call)
        if not given and last.startswith(("rand", "normal", "bernoulli", "multinomial")):
            return Part.ROW
        return self._of(given, last)

    def _method(self, name: str, receiver: Part, call: cst.Call) -> Part:
        if receiver not in (Part.SAME, *_VALUES):
            raise UnfitError
        given = self._given(call)
        if name == "item" and receiver in _VALUES:
            return Part.NUMBER
        if name in _SIZES:
            return Part.SAME
        if name in _UNEVEN or name.endswith("_"):
            raise UnfitError
        return self._of(given | ({receiver} - {Part.SAME}), name)

    def _builtin(self, name: str, call: cst.Call) -> Part:
        match name, [self.part(arg.value) for arg in call.args]:
            case "len", [Part.SAME | Part.ROW | Part.INDEX]:
                return Part.SAME
            case "int", [Part.ROW | Part.INDEX | Part.NUMBER]:
                return Part.NUMBER
            case "abs", [part]:
                return self._combined(part, Part.SAME)
            case "int" | "float" | "min" | "max", parts if set(parts) == {Part.SAME}:
                return Part.SAME
            case _:
                raise UnfitError

    def _of(self, given: Iterable[Part], name: str) -> Part:
        """Return what an operation of torch gives for what differs by the turn."""
        given = set(given)
        if not given <= set(_VALUES):
            raise UnfitError
        if not given:
            return Part.SAME
        self.works = True
        return Part.INDEX if name in _WHOLE else Part.ROW


def _is_layer(module: Value) -> bool:
    """Whether a module is a layer of torch that treats every sample for itself."""
    last = module.type.rpartition(".")[2]
    known = last in _LAYERS or last.endswith("Loss")
    return module.kind is Kind.MODULE and module.type.startswith("torch.nn.") and known


def _is_pair(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in _PAIRS
        case _:
            return False


def _added(program: Program, node: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """``f(row)`` of ``name + f(row)`` and ``torch.cat([name, f(row)])``."""
    match node:
        case cst.BinaryOperation(left=cst.Name(value=left), operator=cst.Add() | cst.Subtract()):
            return node.right if left == name else None
        case cst.BinaryOperation(right=cst.Name(value=right), operator=cst.Add()):
            return node.left if right == name else None
        case cst.Call(
            func=func,
            args=[
                cst.Arg(
                    value=cst.List(elements=[first, second]) | cst.Tuple(elements=[first, second])
                ),
                *_,
            ],
        ) if program.qualified(func) in JOINS:
            own = type(first.value) is cst.Name and first.value.value == name
            return second.value if own else None
        case _:
            return None


def _assigned(program: Program, body: cst.BaseSuite) -> set[str]:
    """Return the names that plain assignments of a block give values to."""
    found = set()
    for assign in program.index.below(body, cst.AssignTarget):
        target = assign.target
        elements = target.elements if isinstance(target, cst.Tuple | cst.List) else ()
        for one in (target, *(element.value for element in elements)):
            if type(one) is cst.Name:
                found.add(one.value)
    return found


def _filled(program: Program, body: cst.BaseSuite) -> set[str]:
    """Return the names of what a block adds to, appends to or fills."""
    found = set()
    for added in program.index.below(body, cst.AugAssign):
        found.add(_base(added.target))
    for assign in program.index.below(body, cst.AssignTarget):
        if type(assign.target) is cst.Subscript:
            found.add(_base(assign.target))
    for call in program.index.below(body, cst.Call):
        match call.func:
            case cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value="append")):
                found.add(name)
            case _:
                pass
    return found


def _base(node: cst.CSTNode) -> str:
    while type(node) is cst.Subscript:
        node = node.value
    return node.value if type(node) is cst.Name else ""


# -- what is a tensor -----------------------------------------------------------------------------

# Methods that tensors have, and neither lists nor arrays nor dictionaries.
_TENSOR_ONLY = frozenset(
    """size permute contiguous detach unsqueeze expand expand_as view_as new_zeros new_ones new_full
    masked_fill softmax log_softmax requires_grad_ index_select gather""".split()
)
_OF_OTHERS = frozenset({"items", "keys", "values", "get", "pop", "copy", "index", "count"})
_OF_LISTS = (cst.Add, cst.Multiply)


def is_tensor(
    program: Program, node: cst.BaseExpression, seen: frozenset[int] = frozenset()
) -> bool:
    """Whether a value is proved to be a tensor: what makes it gives one, or it is used as one.

    What a model gives is taken for a tensor elsewhere, but may be a list of them.
    """
    if program.value(node).kind not in (Kind.TENSOR, Kind.BATCH, Kind.UNKNOWN):
        return False
    if _is_used_as_tensor(program, node):
        return True
    made = origins(program, node)
    known = seen.union(id(one) for one in made)
    return bool(made) and all(id(one) in seen or _gives_tensor(program, one, known) for one in made)


def _is_used_as_tensor(program: Program, node: cst.BaseExpression) -> bool:
    if type(node) is not cst.Name:
        return False
    bindings = program.flow.reaching(node)
    return bool(bindings) and any(
        type(func.value) is cst.Name
        and func.value.value == node.value
        and program.flow.reaching(func.value) == bindings
        for _, func in program.method_calls(*_TENSOR_ONLY)
    )


def _gives_tensor(program: Program, node: cst.CSTNode, seen: frozenset[int]) -> bool:
    computed = program.value(node).is_tensor
    match node:
        case cst.Call(func=func):
            name = program.qualified(func)
            if name.startswith("torch."):
                return name.rpartition(".")[0] in _SPACES
            if type(func) is cst.Attribute and program.value(func).kind is not Kind.MODULE:
                known = program.value(func.value).kind in (Kind.TENSOR, Kind.BATCH)
                of_tensor = known or is_tensor(program, func.value, seen)
                method = func.attr.value
                one = method not in SEVERAL or program.value(node).known  # one of a known tuple
                return of_tensor and one and method not in _OF_OTHERS
            return _is_layer(program.value(func))
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            return (computed and not isinstance(operator, _OF_LISTS)) or any(
                is_tensor(program, one, seen) for one in (left, right)
            )
        case cst.UnaryOperation(expression=inner) | cst.Comparison(left=inner):
            return computed or is_tensor(program, inner, seen)
        case cst.Subscript(value=base, slice=picks):
            return (computed and len(picks) > 1) or is_tensor(program, base, seen)
        case cst.Attribute(value=base, attr=cst.Name(value=name)) if name in _VIEWS:
            return is_tensor(program, base, seen)
        case _:
            return False
