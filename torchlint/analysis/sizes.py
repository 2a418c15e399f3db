"""Whether an optimizer updates a handful of tensors only: an image, a latent code, one layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords
from torchlint.analysis.trained import trained_models
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

_LOOPS = (cst.For, cst.While, cst.ListComp, cst.GeneratorExp)
FEW = 4  # tensors: two layers, each with a bias
_ONE, _LAYER = 2, 2**16  # tensors and numbers of one layer that is not large
_HANDFUL = 512  # numbers
_NN = "torch.nn."
_PLAIN = frozenset({"Linear", "Bilinear", "LayerNorm", "GroupNorm"})
_ALONE = frozenset({"Parameter", "Embedding", "EmbeddingBag", "RMSNorm", "PReLU"})
_PLAIN_STARTS = ("Conv", "BatchNorm", "InstanceNorm")
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_SIDES = {
    "Linear": ("in_features", "out_features"),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "RNN": ("input_size", "hidden_size"),
}
_MORE = frozenset({"num_layers", "bidirectional", "proj_size"})
_EMPTY = frozenset(
    {"Identity", "Flatten", "Unflatten", "ReLU", "ReLU6", "LeakyReLU",
     "GELU", "ELU", "SELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Softplus",
     "Upsample", "PixelShuffle"}
)  # fmt: skip
_CONTAINERS = (f"{_NN}Sequential", f"{_NN}ModuleList")
_EMPTY_PARTS = ("Dropout", "Pool", "Pad", "Loss")
_INTEGERS = frozenset(
    f"torch.{name}" for name in ("long", "int", "int64", "int32", "int16", "int8", "uint8", "bool")
)
_BUILTIN = frozenset({"super", "len", "int", "float", "max", "min", "print", "range", "round"})


@dataclass(frozen=True, slots=True)
class Size:
    """How many parameters there are, and how many numbers they hold; None where it is not seen."""

    tensors: int
    numbers: int | None

    def __add__(self, other: Size) -> Size:
        """Return the size of both together."""
        known = self.numbers is not None and other.numbers is not None
        numbers = (self.numbers or 0) + (other.numbers or 0) if known else None
        return Size(self.tensors + other.tensors, numbers)


_NOTHING = Size(0, 0)


def updates_few(program: Program, optimizer: cst.Call) -> bool:
    """Whether an optimizer is given a few tensors by name, or small models that can be seen."""
    if asserts_few(program, optimizer) or _lists_few(program, optimizer, _may_be_tensor):
        return True
    size = _updated(program, optimizer)
    return size is not None and size.tensors <= FEW


def updates_little(program: Program, optimizer: cst.Call) -> bool:
    """Whether the parameters that an optimizer is given are known to be next to nothing."""
    if asserts_few(program, optimizer) or _lists_few(program, optimizer, _is_tensor):
        return True
    size = _updated(program, optimizer)
    return size is not None and _is_little(size)


def is_little(program: Program, model: Value) -> bool:
    """Whether a model is seen to have one small layer, or a few hundred numbers in all."""
    size = _of_model(program, model)
    return size is not None and _is_little(size)


def _is_little(size: Size) -> bool:
    most = _LAYER if size.tensors <= _ONE else _HANDFUL
    return size.numbers is not None and size.numbers <= most


def _updated(program: Program, optimizer: cst.Call) -> Size | None:
    """Return the size of the models whose parameters an optimizer is given, if it is seen."""
    given = program.argument(optimizer, "params").values
    if len(given) != 1 or not _of_models(given[0]):
        return None
    models = [one for one in trained_models(program) if one.optimizer is optimizer]
    total = _NOTHING
    for model in models:
        size = _of_model(program, model.value)
        if size is None:
            return None
        total += size
    return total if models else None


def _lists_few(
    program: Program,
    optimizer: cst.Call,
    is_one: Callable[[Program, cst.BaseExpression], bool],
) -> bool:
    """``SGD([image], lr=1)``: whether an optimizer is given a list of a few tensors."""
    match program.argument(optimizer, "params").values:
        case (cst.List(elements=members) | cst.Tuple(elements=members),):
            return 0 < len(members) <= FEW and all(
                isinstance(one, cst.Element) and is_one(program, one.value) for one in members
            )
        case _:
            return False


def asserts_few(program: Program, optimizer: cst.Call) -> bool:
    """``assert len(parameters) == 2`` of the list of parameters that an optimizer is given."""
    match program.argument(optimizer, "params").values:
        case (cst.Name() as given,):
            made = program.flow.reaching(given)
        case _:
            return False
    if not made or not all(one.path == () and _lists_parameters(one.value) for one in made):
        return False
    return any(
        (name := _counted(check.test)) is not None
        and program.flow.reaching(name) == made
        and (block := program.parent(program.statement(check))) is not None
        and program.index.inside(optimizer, block)
        for check in program.index.of(cst.Assert)
    )


def _lists_parameters(node: cst.CSTNode | None) -> bool:
    """``list(model.parameters())``, and those of them that are trained."""
    match node:
        case cst.ListComp(elt=cst.Name(), for_in=cst.CompFor(iter=iterated)):
            return _of_models(iterated)
        case cst.Call():
            return _of_models(node)
        case _:
            return False


def _counted(test: cst.BaseExpression) -> cst.Name | None:
    """Return ``x`` of ``len(x) == 2``, if the number is that of few tensors."""
    match test:
        case cst.Comparison(
            left=cst.Call(func=cst.Name(value="len"), args=[cst.Arg(value=cst.Name() as name)]),
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Equal() | cst.LessThanEqual(), comparator=cst.Integer() as most
                )
            ],
        ) if most.evaluated_value <= FEW:
            return name
        case _:
            return None


def _is_tensor(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a member of the list of parameters is known to be a tensor."""
    return program.value(node).kind is Kind.TENSOR


def _may_be_tensor(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a member of the list of parameters is one of them, and no group of many."""
    value = program.value(node)
    if isinstance(node, cst.Dict) or value.kind in (Kind.DICT, Kind.LIST):
        return False
    if isinstance(node, cst.Call):
        return value.kind is Kind.TENSOR or dotted(node.func).endswith("requires_grad_")
    return isinstance(node, cst.Name | cst.Attribute)


def _of_models(node: cst.BaseExpression) -> bool:
    """``model.parameters()``, also filtered, in a list, or with those of another model."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("parameters")), args=[]):
            return True
        case cst.Call(args=[_, *_] as args):
            inside = [arg.value for arg in args if not isinstance(arg.value, cst.Lambda)]
            return bool(inside) and all(_of_models(one) for one in inside)
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            return _of_models(left) and _of_models(right)
        case _:
            return False


def holds_integers(program: Program, optimizer: cst.Call) -> bool:
    """Whether a model that an optimizer updates keeps a number as a parameter: a step counter."""
    for model in trained_models(program):
        if model.optimizer is optimizer:
            home, owner = _class_of(program, model.value.type)
            if owner is not None and "Parameter(" in home.text and _counts(home, owner):
                return True
    return False


def _counts(home: Program, owner: Class) -> bool:
    return any(
        _is_integer(home, call.args[0].value)
        for call in home.calls_of("torch.nn.Parameter", "torch.nn.parameter.Parameter")
        if call.args and home.classes.around(call) in home.classes.lineage(owner)
    )


def _is_integer(program: Program, node: cst.BaseExpression) -> bool:
    """``torch.zeros(1).long()``, ``torch.zeros(1, dtype=torch.int64)``, ``torch.tensor(0)``."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="long" | "int")), args=[]):
            return True
        case cst.Call(args=args):
            dtypes = [
                program.qualified(arg.value)
                for arg in args
                if arg.keyword is not None and arg.keyword.value == "dtype"
            ]
            if dtypes:
                return dtypes[0] in _INTEGERS
            made_of = [arg.value for arg in args[:1]]
            plain = program.qualified(node.func) == "torch.tensor"
            return plain and bool(made_of) and isinstance(made_of[0], cst.Integer)
        case _:
            return False


def _class_of(program: Program, kind: str) -> tuple[Program, Class | None]:
    """Return a class of this file or of another, with the file that defines it."""
    owner = program.classes.named(kind)
    if owner is None and program.project is not None and ":" in kind:
        return program.project.class_of(kind) or (program, None)
    return program, owner


def _of_model(program: Program, model: Value) -> Size | None:
    """Return the size of a model, None where that is not seen."""
    kind, made = model.type, model.made
    if kind.startswith(_NN):
        seen = isinstance(made, cst.Call) and not _repeats(program, made)
        return _sum(program, program.index.below(made, cst.Call)) if made and seen else None
    home, owner = _class_of(program, kind)
    return None if owner is None else _of_class(home, owner)


def _of_class(home: Program, owner: Class, depth: int = 0) -> Size | None:
    """Return the size of what the methods of a class make, but for its forward pass."""
    lineage = home.classes.lineage(owner)
    bases = [base for one in lineage for base in one.bases if home.classes.named(base) is None]
    if bases != ["torch.nn.Module"] or depth > FEW:
        return None
    every = (pair for one in lineage for pair in one.methods.items())
    methods = [method for name, method in every if name != "forward"]
    if any(_repeats(home, method.body) for method in methods):
        return None
    calls = (c for one in methods for c in home.index.below(one.body, cst.Call))
    return _sum(home, calls, depth)


def _repeats(program: Program, node: cst.CSTNode) -> bool:
    return any(any(program.index.below(node, kind)) for kind in _LOOPS)


def _sum(program: Program, calls: Iterable[cst.Call], depth: int = 0) -> Size | None:
    """Return the size of the parameters that some calls make, None where one is not known."""
    total = _NOTHING
    for call in calls:
        found = _of_call(program, call, depth)
        if found is None:
            return None
        total += found
    return total


def _of_call(program: Program, call: cst.Call, depth: int) -> Size | None:
    name = program.qualified(call.func)
    if name in _CONTAINERS:
        return _NOTHING if all(isinstance(arg.value, cst.Call) for arg in call.args) else None
    if name.startswith(_NN):
        return _of_layer(program, call, name)
    if name.startswith(("torch.", "numpy.", "math.")):
        return _NOTHING
    func = call.func
    if isinstance(func, cst.Name):
        part = program.classes.named(name)
        if part is not None:
            return _of_class(program, part, depth + 1) if part.is_module else None
        return _NOTHING if func.value in _BUILTIN else None
    root: cst.BaseExpression = func
    while isinstance(root, cst.Attribute | cst.Subscript):
        root = root.value
    of_self = isinstance(root, cst.Name) and root.value == "self"
    return _NOTHING if of_self or isinstance(root, cst.Call) else None


def _of_layer(program: Program, call: cst.Call, name: str) -> Size | None:
    """Return the size of a layer of torch; None for those with many parameters."""
    last = name.rpartition(".")[2]
    if last in _GATES and name == f"{_NN}{last}":
        return _of_recurrence(program, call, _GATES[last])
    tensors = layer_parameters(name)
    if not tensors:
        return None if tensors is None else _NOTHING
    sides = _sides(program, call, last)
    if last == "Embedding":
        return Size(tensors, math.prod(sides) if sides else None)
    return Size(tensors, (sides[0] + 1) * sides[1] if sides else None)


def _of_recurrence(program: Program, call: cst.Call, gates: int) -> Size | None:
    """Return the size of a recurrent layer, of which there is one in one direction."""
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    unnamed = len(call.args) - len(named)
    if unnamed > len(_SIDES["RNN"]) or named & _MORE or any(arg.star for arg in call.args):
        return None
    sides = _sides(program, call, "RNN")
    return Size(4, gates * sides[1] * (sum(sides) + 2) if sides else None)


def _sides(program: Program, call: cst.Call, kind: str) -> list[int]:
    """Return the numbers of a layer's inputs and outputs; none where they are not certain."""
    if any(arg.star for arg in call.args):
        return []
    plain = [arg.value for arg in call.args if arg.keyword is None]
    named = keywords(call)
    names = _SIDES.get(kind, ())
    given = [*plain[: len(names)], *(named.get(name) for name in names[len(plain) :])]
    counts = [program.arguments.number(node) for node in given]
    known = [count for count in counts if count is not None]
    return known if len(known) == len(names) else []


def layer_parameters(name: str) -> int | None:
    """Return how many parameters a layer of torch has at most; None for those with many."""
    last = name.rpartition(".")[2]
    if name.startswith((f"{_NN}init.", f"{_NN}functional.")) or last in _EMPTY:
        return 0
    if any(part in last for part in _EMPTY_PARTS):
        return 0
    if last in _ALONE:
        return 1
    return 2 if last in _PLAIN or last.startswith(_PLAIN_STARTS) else None
