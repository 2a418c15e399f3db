"""Training steps: where a loop runs the model forward, and steps simple enough to be rewritten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.blocks import block_of, line_of, place_in
from torchlint.analysis.branches import without_gpu
from torchlint.analysis.loops import Role
from torchlint.analysis.trained import is_trained, is_untrained, trained_models
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_METHODS = frozenset(
    {"to", "cuda", "item", "backward", "step", "zero_grad", "size", "view", "detach", "cpu",
     "train", "format", "append", "update", "float", "mean", "sum", "squeeze", "numpy"}
)  # fmt: skip
_LOSS = re.compile(r"loss|criteri|metric", re.IGNORECASE)
_MODEL = re.compile(r"model|net|encoder|backbone|classifier|generator|student", re.IGNORECASE)
_BARE = re.compile(  # layers without parameters, and those that only look rows up
    r"torch\.nn\.(Embedding\w*|Upsample\w*|Upsampling\w+|Softmax\w*|LogSoftmax|Sigmoid|Tanh|\w*ReLU\w*|"
    r"Dropout\w*|\w+Pool\d?d?|Flatten|Unfold|Fold|\w+Pad\dd|PixelShuffle|Identity)$"
)
_FURTHEST = 8  # how many lines and calls back a model is looked for
_EXPRESSIONS = (cst.Name, cst.Call, cst.Subscript)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingStep:
    """A training loop (or a function that does one step) and the first call of a model in it."""

    place: cst.For | cst.While | cst.FunctionDef
    backwards: tuple[cst.Call, ...]
    forward: cst.Call


@dataclass(frozen=True, slots=True, eq=False)
class PlainStep:
    """A step whose forward pass, loss, backward pass and update are lines of one block.

    ``forward`` are the lines from the first call of the model to the loss, ``after`` those
    between the backward pass and the update; ``loss`` is the name that is differentiated.
    """

    forward: tuple[cst.SimpleStatementLine, ...]
    loss: cst.Name
    loss_call: cst.Call
    backward: cst.Call
    after: tuple[cst.BaseStatement, ...]
    step: cst.Call
    optimizer: cst.BaseExpression


def training_steps(program: Program) -> Iterator[TrainingStep]:
    """Find the training steps of a file whose model is called in the very function."""
    places: dict[int, tuple[cst.For | cst.While | cst.FunctionDef, list[cst.Call]]] = {}
    for call, _ in program.method_calls("backward"):
        place = _place(program, call)
        if place is not None:
            places.setdefault(id(place), (place, []))[1].append(call)
    for place, backwards in places.values():
        called = (model_before(program, place, call) for call in _models(program, place, backwards))
        forward = _trained(program, place, backwards, [one for one in called if one is not None])
        if forward is not None:
            yield TrainingStep(place, tuple(backwards), forward)


def _trained(
    program: Program,
    place: cst.CSTNode,
    backwards: Sequence[cst.Call],
    called: list[cst.Call],
) -> cst.Call | None:
    """Return the first call of a model that may be trained.

    Beside none but those that nobody trains, a fixed filter, the model is what is trained by name.
    """
    trained = next((one for one in called if not is_untrained(program, one.func)), None)
    if trained is not None or not called:
        return trained
    others = _called_before(program, place, backwards)
    trained = next((one for one in others if is_trained(program, one.func)), None)
    known = trained is not None or any(trained_models(program))
    return trained if known else called[0]


def model_before(program: Program, place: cst.CSTNode, call: cst.Call) -> cst.Call | None:
    """Return the call of the model whose output a part of it, or a loss, is called with.

    The call itself, where no such model is seen; None of a layer that multiplies nothing.
    """
    node: cst.BaseExpression | None = call.args[0].value if call.args else None
    for _ in range(_FURTHEST):
        match node:
            case cst.Subscript(value=inner) | cst.Call(func=cst.Attribute(value=inner)) if (
                not isinstance(inner, cst.Name) or inner.value != "self"
            ):
                node = inner
            case cst.Name():
                made = [binding.value for binding in program.flow.reaching(node)]
                node = made[0] if len(made) == 1 and isinstance(made[0], _EXPRESSIONS) else None
            case _:
                break
        if isinstance(node, cst.Call) and _looks_like_a_model(program, place, node):
            return node
    return None if _BARE.match(program.value(call.func).type) else call


def _looks_like_a_model(program: Program, place: cst.CSTNode, call: cst.Call) -> bool:
    """Whether a call in a step is that of a model by its name, or by what it is made of."""
    name = dotted(call.func).rpartition(".")[2]
    return (
        _MODEL.search(name) is not None
        and not _LOSS.search(name)
        and (not isinstance(call.func, cst.Attribute) or dotted(call.func) == f"self.{name}")
        and program.value(call.func).kind in (Kind.MODULE, Kind.UNKNOWN)
        and program.calls.target(call) is None
        and not program.qualified(call.func).partition(".")[0]
        and program.index.inside(call, place)
        and not _without_gradients(program, call)
        and not without_gpu(program, call)
    )


def models(program: Program, step: TrainingStep) -> list[cst.Call]:
    """Return the calls of models in a step, up to its last backward pass."""
    return list(_models(program, step.place, step.backwards))


def _models(
    program: Program, place: cst.CSTNode, backwards: Sequence[cst.Call]
) -> Iterator[cst.Call]:
    for call in _called_before(program, place, backwards):
        if is_model(program, call.func):
            yield call


def _called_before(
    program: Program, place: cst.CSTNode, backwards: Sequence[cst.Call]
) -> Iterator[cst.Call]:
    """Yield the calls of a step, up to its last backward pass, that may be part of its graph."""
    function = program.function(backwards[0])
    last = program.index.order(backwards[-1])
    for call in program.index.below(place, cst.Call):
        if program.index.order(call) > last:
            return
        if (
            program.function(call) is function
            and not _without_gradients(program, call)
            and not without_gpu(program, call)
        ):
            yield call


def _place(program: Program, call: cst.Call) -> cst.For | cst.While | cst.FunctionDef | None:
    """Return the outermost training loop around a backward pass, else the function of the step."""
    if program.context(call).role is not Role.TRAIN:
        return None
    found: cst.For | cst.While | None = None
    for above in program.index.ancestors(call):
        if isinstance(above, cst.FunctionDef):
            return found or above
        if isinstance(above, cst.For | cst.While) and program.loops.role(above) is Role.TRAIN:
            found = above
    return found


def is_model(program: Program, func: cst.BaseExpression) -> bool:
    """Whether what is called is a model or a part of one, and no loss function."""
    if isinstance(func, cst.Attribute) and func.attr.value in _METHODS:
        return False
    if program.qualified(func).partition(".")[0]:  # a function of some module
        return False
    value = program.value(func)
    name = dotted(func).rpartition(".")[2]
    if value.kind is Kind.MODULE:
        return not (_LOSS.search(name) or _LOSS.search(value.type))
    return (
        value.kind is Kind.UNKNOWN
        and isinstance(func, cst.Name)
        and not _LOSS.search(name)
        and _moved_to_a_device(program.flow.reaching(func))
    )


def is_loss(program: Program, func: cst.BaseExpression) -> bool:
    """Whether what is called is a module that computes a loss, by its name or class."""
    value = program.value(func)
    name = dotted(func).rpartition(".")[2]
    return value.kind is Kind.MODULE and any(map(_LOSS.search, (name, value.type)))


def _moved_to_a_device(bindings: tuple[Binding, ...]) -> bool:
    """Whether a name is always an instance of some class, put on a device: ``Net().to(device)``."""
    return bool(bindings) and all(
        binding.is_plain and _is_moved(binding.value) for binding in bindings
    )


def _is_moved(node: cst.CSTNode | None) -> bool:
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.Call(func=made), attr=cst.Name(value="to" | "cuda"))
        ):
            return dotted(made).rpartition(".")[2][:1].isupper()
        case _:
            return False


def _without_gradients(program: Program, call: cst.Call) -> bool:
    return any(
        isinstance(above, cst.With) and program.loops.turns_gradients_off(above)
        for above in program.index.ancestors(call)
    )


# -- plain steps ------------------------------------------------------------------------------


def plain_step(program: Program, step: TrainingStep) -> PlainStep | None:
    """Return the parts of a step that is a run of lines, with one backward pass and one update."""
    if len(step.backwards) != 1:
        return None
    backward = step.backwards[0]
    block = block_of(program, backward)
    differentiated = _differentiated(backward)
    bound = None if differentiated is None else _only_binding(program, differentiated)
    if differentiated is None or bound is None or not isinstance(bound.value, cst.Call):
        return None
    first = place_in(program, block, step.forward)
    last = place_in(program, block, bound.node)
    middle = place_in(program, block, backward)
    updates = _updates(program, step, backward)
    end = place_in(program, block, updates[0]) if len(updates) == 1 else None
    if first is None or last is None or middle is None or end is None:
        return None
    if not first <= last < middle < end or line_of(program, updates[0]) is not block[end]:
        return None
    lines = block[first : last + 1]
    func = updates[0].func
    if not all(_is_line(line) for line in lines) or not isinstance(func, cst.Attribute):
        return None
    return PlainStep(
        tuple(line for line in lines if isinstance(line, cst.SimpleStatementLine)),
        differentiated,
        bound.value,
        backward,
        tuple(block[middle + 1 : end]),
        updates[0],
        func.value,
    )


def _differentiated(backward: cst.Call) -> cst.Name | None:
    """Return the name of the loss of a plain ``loss.backward()``."""
    match backward:
        case cst.Call(func=cst.Attribute(value=cst.Name() as loss), args=[]):
            return loss
        case _:
            return None


def _only_binding(program: Program, name: cst.Name) -> Binding | None:
    match program.flow.reaching(name):
        case (binding,) if binding.is_plain:
            return binding
        case _:
            return None


def _updates(program: Program, step: TrainingStep, backward: cst.Call) -> list[cst.Call]:
    """Return the updates of optimizers in the loop, in the function of the backward pass."""
    return [
        call
        for call, func in program.method_calls("step")
        if program.index.inside(call, step.place)
        and program.function(call) is program.function(backward)
        and program.value(func.value).kind is Kind.OPTIMIZER
        and not call.args
    ]


def _is_line(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
