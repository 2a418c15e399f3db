"""Allocations: tensors that are made on the host and then moved to another device.

The line that makes a tensor and the one that moves it may be two, and in two functions: a tensor
knows the call that it is the unchanged result of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    Array,
    At,
    Device,
    Function,
    Library,
    Number,
    Place,
    Tensor,
    Text,
)
from torchlint.syntax.calls import keyword_of, keywords, last_name, positional
from torchlint.training.conventions import suggested
from torchlint.training.copies import targets_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value

    Holders: TypeAlias = Mapping[At, list[tuple[int, cst.BaseExpression]]]

MOVERS = ("to", "cuda", "type", "type_as")
# Methods that do to a tensor on a GPU what they do to it on the host, bit for bit.
SAME = frozenset(
    """view reshape unsqueeze squeeze transpose permute t flatten repeat contiguous float double
    long int bool""".split()
)
FILLS = frozenset({"fill_", "zero_", "normal_", "uniform_", "random_"})
_SIZED = "zeros ones full empty eye arange linspace rand randn randint randperm normal"
SIZED = frozenset(f"torch.{name}" for name in _SIZED.split())
# Legacy constructors, and of which type what they make is.
_KINDS = "Float=float32 Double=float64 Half=float16 Long=int64 Int=int32 Short=int16 Byte=uint8"
TYPED = {f"torch.{name}Tensor": kind for name, kind in (k.split("=") for k in _KINDS.split())}
TYPED["torch.Tensor"] = ""
OF_VALUES = ("torch.tensor", "torch.as_tensor", "torch.from_numpy", *TYPED)
MAKERS = frozenset(name.rpartition(".")[2] for name in (*SIZED, *OF_VALUES))
CHOSEN = frozenset({"generator", "out"})  # who asks for these needs the host
_SHAPES = frozenset("shape device dtype ndim size dim numel requires_grad is_cuda __len__".split())
_PASSES_ON = (cst.Assign, cst.AssignTarget, cst.AnnAssign, cst.Return, cst.IfExp)
_FILLED = frozenset(
    """zeros ones full empty eye arange linspace rand randn random normal uniform randint
    random_sample standard_normal permutation""".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A call that makes a tensor on the host, and one that moves it.

    ``function`` is the name of the function of torch that makes such a tensor, "" where it makes
    one of given values.  ``methods`` lie between the two in one expression; ``is_direct``: they are
    one expression.  ``target`` is where it goes, and ``where`` says so.
    """

    made: cst.Call
    at: At
    function: str
    move: cst.Call
    file: int  # of the move
    methods: tuple[str, ...]
    is_direct: bool
    target: Device
    where: cst.BaseExpression | None = None


def allocations(evaluation: Evaluation) -> tuple[Allocation, ...]:
    """Return the allocations of connected files, each with the first move, in their order."""
    found: dict[At, Allocation] = {}
    for move, file in evaluation.files.of(cst.Call):
        if at := _uploaded(evaluation, move, file):
            found[at] = Allocation(move, at, "", move, file, (), True, Device.CUDA)
        for one in _moved(evaluation, move, file):
            if one.at not in found or one.is_direct > found[one.at].is_direct:
                found[one.at] = one
    is_direct = all(one.is_direct for one in found.values())
    uses: Holders = {} if is_direct else holders_of(evaluation)
    return tuple(
        found[at]
        for at in sorted(found)
        if found[at].is_direct or _is_only_moved(evaluation, uses.get(at, []))
    )


def _uploaded(evaluation: Evaluation, call: cst.Call, file: int) -> At | None:
    """``torch.cuda.FloatTensor(values)``, ``torch.tensor(values, device=device)``."""
    names = [one.name for one in evaluation.value(call.func) if isinstance(one, Library)]
    if not any(name in OF_VALUES or name.startswith("torch.cuda.") for name in names):
        return None
    value = evaluation.value(call)
    is_there = any(isinstance(one, Tensor) and one.device is Device.CUDA for one in value)
    plain = [arg.value for arg in call.args if keyword_of(arg) in ("", "data")]
    may_be_size = any(name not in OF_VALUES[:3] for name in names)
    if not is_there or len(plain) != 1 or (may_be_size and _is_size(evaluation, plain[0])):
        return None
    return evaluation.at(call, file)


def _moved(evaluation: Evaluation, move: cst.Call, file: int) -> Iterator[Allocation]:
    """Yield what made the tensor that a call moves, below methods that change nothing."""
    name = last_name(move.func)
    goes = targets_of(evaluation, move, name) if name in MOVERS else None
    if goes is None or not isinstance(move.func, cst.Attribute):
        return
    (targets, where), target = goes, Device.CUDA
    if Device.CUDA not in targets:
        target, kinds = Device.UNKNOWN, {type(one) for one in evaluation.value(where)}
        is_place = bool(kinds & {Place, Text}) or suggested(last_name(where)) == "device"
        if name != "to" or target not in targets or Tensor in kinds or not is_place:
            return
    node, methods = move.func.value, list[str]()
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        name, owner = node.func.attr.value, node.func.value
        is_tensor = any(isinstance(one, Tensor) for one in evaluation.value(owner))
        if name not in SAME | FILLS or not is_tensor:
            break
        methods.append(name)
        node = owner
    for one in evaluation.value(node):
        if isinstance(one, Tensor) and one.made is not None and one.device is Device.HOST:
            made = evaluation.node(one.made)
            function = maker(evaluation, made) if isinstance(made, cst.Call) else None
            if isinstance(made, cst.Call) and function is not None:
                how = tuple(methods), made is node, target, where
                yield Allocation(made, one.made, function, move, file, *how)


def maker(evaluation: Evaluation, call: cst.Call) -> str | None:
    """Return the function of torch that makes such a tensor on a device.

    "" for one of given values; None where the tensor has to be made on the host, and where nobody
    knows what makes it.
    """
    name = next((n.name for n in evaluation.value(call.func) if isinstance(n, Library)), "")
    words, plain = keywords(call), positional(call)
    if words.keys() & CHOSEN or any(arg.star for arg in call.args):
        return None
    if name in SIZED:
        if len(plain) == 1 and evaluation.value(plain[0]) == (Number(0),):
            return None  # it has no element to copy
        is_of_tensors = name == "torch.normal" and len(plain) < 3 and "size" not in words
        return None if is_of_tensors else name[6:]
    if name in TYPED and (len(plain) > 1 or (plain and _is_size(evaluation, plain[0]))):
        return "empty"
    return "" if name in OF_VALUES and plain else None


def _is_size(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether an argument is a number, or the size of a tensor, and no values."""
    match node:
        case (
            cst.Call(func=cst.Attribute(value=of, attr=cst.Name("size")), args=[])
            | cst.Attribute(value=of, attr=cst.Name("shape"))
        ):
            return any(isinstance(one, Tensor) for one in evaluation.value(of))
    return is_number(evaluation.value(node))


def is_number(value: Value) -> bool:
    """Whether a value is certainly a number."""
    return bool(value) and all(isinstance(one, Number) for one in value)


# -- what else uses it -----------------------------------------------------------------------


def holders_of(evaluation: Evaluation) -> Holders:
    """Return the names and attributes that hold a tensor or an array, by what made it."""
    found: dict[At, list[tuple[int, cst.BaseExpression]]] = {}
    held = {
        id(value): [one.made for one in value if isinstance(one, (Array, Tensor)) and one.made]
        for value in evaluation.different
        if not any(isinstance(one, Tensor) and one.device is Device.CUDA for one in value)
    }  # else it may have been moved by now
    for node, file in evaluation.files.of(cst.Name, cst.Attribute):
        for made in held.get(id(evaluation.value(node)), ()):
            found.setdefault(made, []).append((file, node))
    return found


def _is_only_moved(evaluation: Evaluation, uses: list[tuple[int, cst.BaseExpression]]) -> bool:
    """Whether nothing on the host reads, fills or changes a tensor: it is handed on and moved."""
    return all(_hands_on(evaluation, file, node) for file, node in uses)


def _hands_on(evaluation: Evaluation, file: int, node: cst.CSTNode) -> bool:
    index = evaluation.module(file).index
    parent = index.parent(node)
    match parent:
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
            return name in _SHAPES | SAME | FILLS or name in MOVERS
        case cst.Arg():
            call = index.parent(parent)
            called = evaluation.value(call.func) if isinstance(call, cst.Call) else ()
            return bool(called) and all(isinstance(one, Function) for one in called)
    return isinstance(parent, _PASSES_ON)


def array_of(evaluation: Evaluation, made: cst.Call, uses: Holders) -> cst.Call | None:
    """Return the call of NumPy that only fills memory for a tensor, and for nothing else."""
    data = made.args[0].value if made.args else None
    for array in evaluation.value(data):
        if isinstance(array, Array) and array.made is not None:
            call = evaluation.node(array.made)
            names = evaluation.value(call.func) if isinstance(call, cst.Call) else ()
            known = [one.name for one in names if isinstance(one, Library)]
            fills = any(
                one.startswith("numpy.") and one.rpartition(".")[2] in _FILLED for one in known
            )
            others = [use for use in uses.get(array.made, []) if use[1] is not data]
            if fills and isinstance(call, cst.Call) and _is_only_moved(evaluation, others):
                return call
    return None
