"""Gradient accumulation by hand: loops whose optimizer steps only every few backward passes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Loop
    from torchlint.analysis.program import Program

_DEPTH = 6
_OPTIMIZER = re.compile(r"optim|^opt|opt$", re.IGNORECASE)
_LOSS = re.compile(r"crit|loss|objective", re.IGNORECASE)
_SHOWS = re.compile(r"^(print|info|debug|log\w*|write|update|append|set_\w+|add_scalars?)$")
_SUMS = ("sum", "none")


class Scale(enum.Enum):
    """How the loss of one backward pass stands to the loss of the whole window."""

    DIVIDED = enum.auto()  # by something, or summed: it may be right
    WHOLE = enum.auto()  # proved to be the mean of its own batch
    LIKELY = enum.auto()  # such a mean by its name
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """A loop with a backward pass in each turn and a step in some.

    ``guard`` holds the first ``step``, and those of all other ``optimizers`` (their code) of the
    loop; ``every`` is how many backward passes it waits for; ``backward`` is the one that runs in
    each turn.
    """

    loop: Loop
    guard: cst.If
    every: cst.BaseExpression
    step: cst.Call
    optimizers: dict[str, cst.Call]
    backward: cst.Call


def accumulations(program: Program) -> Iterator[Accumulation]:
    """Find loops all of whose optimizers step under one condition that counts the turns."""
    if "%" not in program.text:
        return
    steps = [(call, stepped(program, call)) for call, _ in program.method_calls("step")]
    seen: set[int] = set()
    for step, optimizer in steps:
        found = step_guard(program, step) if optimizer else None
        if found is None or id(found[0]) in seen:
            continue
        loop, guard, every = found
        seen.add(id(loop))
        inside = [one for one in steps if one[1] and program.index.inside(one[0], loop.body)]
        backward = _only_backward(program, loop)
        alone = all(program.index.inside(one, guard.body) for one, _ in inside)
        if alone and backward is not None and not program.index.inside(backward, guard):
            yield Accumulation(
                loop, guard, every, step, {name: one for one, name in reversed(inside)}, backward
            )


def stepped(program: Program, call: cst.Call) -> str:
    """Return the code of the optimizer that ``x.step()`` moves on, or "" if it is none."""
    assert isinstance(call.func, cst.Attribute)
    receiver = call.func.value
    value = program.value(receiver)
    if call.args and (value.kind is Kind.SCALER or "scaler" in dotted(receiver).lower()):
        return dotted(call.args[0].value)
    name = dotted(receiver)
    if value.kind is Kind.OPTIMIZER:
        return name
    open_ = value.kind in (Kind.UNKNOWN, Kind.INSTANCE)
    return name if open_ and _OPTIMIZER.search(name.rpartition(".")[2]) else ""


def step_guard(program: Program, step: cst.Call) -> tuple[Loop, cst.If, cst.BaseExpression] | None:
    """Return the loop around a step, and the condition under which some of its turns take it."""
    child: cst.CSTNode = step
    guards: list[cst.If] = []
    for above in program.index.ancestors(step):
        match above:
            case cst.If() if child is above.body:
                guards.append(above)
            case cst.For() | cst.While():
                if child is not above.body:
                    return None
                for guard in guards:
                    every = _every(program, guard.test, above)
                    if every is not None:
                        return above, guard, every
                return None
            case cst.FunctionDef() | cst.Lambda() | cst.ExceptHandler():
                return None
            case _:
                pass
        child = above
    return None


def _every(
    program: Program, test: cst.BaseExpression, loop: Loop, depth: int = 0
) -> cst.BaseExpression | None:
    """Return ``k`` of a test like ``(i + 1) % k == 0``, of a counter that the loop changes."""
    match test:
        case cst.Name() if depth < _DEPTH:
            found = program.flow.reaching(test)
            if len(found) == 1 and found[0].is_plain:
                value = found[0].value
                if isinstance(value, cst.BaseExpression):
                    return _every(program, value, loop, depth + 1)
            return None
        case cst.BooleanOperation():
            left = _every(program, test.left, loop, depth + 1)
            return left or _every(program, test.right, loop, depth + 1)
        case cst.UnaryOperation(operator=cst.Not(), expression=cst.BinaryOperation() as inner):
            return _divisor(program, inner, loop)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(cst.Equal(), right)]):
            for side in (left, right):
                if isinstance(side, cst.BinaryOperation):
                    found_every = _divisor(program, side, loop)
                    if found_every is not None:
                        return found_every
            return None
        case _:
            return None


def _divisor(program: Program, node: cst.BinaryOperation, loop: Loop) -> cst.BaseExpression | None:
    if not isinstance(node.operator, cst.Modulo):
        return None
    turns = any(
        program.index.inside(binding.node, loop)
        for name in program.index.below(node.left, cst.Name)
        for binding in program.flow.reaching(name)
    ) or any(
        isinstance(other.target, cst.Attribute)
        and program.code(other.target) in program.code(node.left)
        for other in program.index.below(loop.body, cst.AugAssign)
    )
    return node.right if turns and program.code(node.right) != "1" else None


def _only_backward(program: Program, loop: Loop) -> cst.Call | None:
    """Return the one backward pass of a loop, if it runs in each turn, and once."""
    calls = [
        call
        for call, _ in program.method_calls("backward")
        if program.index.inside(call, loop.body)
    ]
    # both branches of ``if amp:`` have one
    places = {id(_branching(program, call, loop)) for call in calls}
    return calls[0] if len(places) == 1 and in_each_turn(program, calls[0], loop) else None


def _branching(program: Program, node: cst.CSTNode, loop: Loop) -> cst.CSTNode:
    """Return the outermost statement of a loop's body that a node stands in."""
    last = node
    for above in program.index.ancestors(node):
        if above is loop.body:
            break
        last = above
    return last


def in_each_turn(
    program: Program, node: cst.CSTNode, loop: Loop, beside: cst.CSTNode | None = None
) -> bool:
    """Whether a node runs once in every turn of a loop.

    Conditions that count turns must not stand around it; other conditions may if the node
    ``beside`` it is under them as well, or if there is no such node.
    """
    for above in program.index.ancestors(node):
        match above:
            case cst.For() | cst.While():
                return above is loop and not program.context(node).guarded
            case cst.If():
                shared = beside is None or program.index.inside(beside, above.body)
                if not shared or "%" in program.code(above.test):
                    return False
            case cst.FunctionDef() | cst.Lambda() | cst.ExceptHandler() | cst.IfExp():
                return False
            case _:
                pass
    return False


def zeroings(program: Program, found: Accumulation) -> list[cst.Call]:
    """Return the calls that drop the gradients in each turn of an accumulating loop."""
    models = {_model(program, step) for step in found.optimizers.values()}
    receivers = {*found.optimizers, *models} - {""}
    return [
        call
        for call, func in program.method_calls("zero_grad")
        if program.index.inside(call, found.loop.body)
        and dotted(func.value) in receivers
        and in_each_turn(program, call, found.loop, found.guard)
    ]


def _model(program: Program, step: cst.Call) -> str:
    """Return the model all of whose parameters the optimizer of a step was given, or ""."""
    assert isinstance(step.func, cst.Attribute)
    value = program.value(step.func.value)
    if value.kind is Kind.SCALER and step.args:
        value = program.value(step.args[0].value)
    match value.made:
        case cst.Call(
            args=[cst.Arg(value=cst.Call(func=cst.Attribute(model, cst.Name("parameters")))), *_]
        ) if value.kind is Kind.OPTIMIZER:
            return dotted(model)
        case _:
            return ""


def scale(program: Program, found: Accumulation) -> Scale:
    """Tell whether the loss of an accumulating loop is divided by the number of its parts."""
    every = program.code(found.every)
    if _appears_in_arithmetic(program, every):
        return Scale.DIVIDED
    func = found.backward.func
    assert isinstance(func, cst.Attribute)
    loss: cst.BaseExpression = func.value
    match loss:
        case cst.Call(func=cst.Attribute(attr=cst.Name("scale")), args=[cst.Arg(value=inner)]):
            loss = inner
        case _:
            pass
    return _scale(program, loss, 0)


def touches_gradients(program: Program) -> bool:
    """Whether the file reads or changes gradients by hand: it may divide them."""
    return any(
        node.attr.value == "grad" and not program.qualified(node)
        for node in program.index.of(cst.Attribute)
    )


def _appears_in_arithmetic(program: Program, code: str) -> bool:
    """Whether the file multiplies or divides by something: a loss, a rate, a number of steps.

    What is only shown is left out: ``print(total / k)``.
    """
    last = code.rpartition(".")[2]
    return any(_is_factor(program, name) for name in program.index.named.get(last, ()))


def _is_factor(program: Program, name: cst.Name) -> bool:
    factor = False
    for above in program.index.ancestors(name):
        match above:
            case cst.BinaryOperation(operator=cst.Divide() | cst.Multiply()):
                factor = True
            case cst.AugAssign(operator=cst.DivideAssign() | cst.MultiplyAssign()):
                factor = True
            case cst.FormattedStringExpression():
                return False
            case cst.Call(func=cst.Attribute(attr=cst.Name("div" | "div_" | "mul" | "mul_"))):
                factor = True
            case cst.Call() if _SHOWS.search(dotted(above.func).rpartition(".")[2]):
                return False
            case cst.BaseSmallStatement() | cst.BaseStatement():
                return factor
            case _:
                pass
    return factor


def _scale(program: Program, node: cst.CSTNode | None, depth: int) -> Scale:
    """Tell what a loss is: the weakest of what its parts are."""
    if depth > _DEPTH:
        return Scale.UNKNOWN
    match node:
        case cst.Name():
            return _of_name(program, node, depth)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract()):
            return _weakest(_scale(program, side, depth + 1) for side in (node.left, node.right))
        case cst.BinaryOperation(operator=cst.Multiply()):
            sides = [s for s in (node.left, node.right) if not isinstance(s, cst.Integer)]
            plain = [s for s in sides if not (isinstance(s, cst.Float) and float(s.value) >= 1)]
            return _scale(program, plain[0], depth + 1) if len(plain) == 1 else Scale.UNKNOWN
        case cst.BinaryOperation(operator=cst.Divide()):
            return Scale.DIVIDED
        case cst.Attribute(attr=cst.Name("loss")):
            return Scale.LIKELY
        case cst.Call():
            return _of_call(program, node)
        case _:
            return Scale.UNKNOWN


def _of_name(program: Program, node: cst.Name, depth: int) -> Scale:
    found = program.flow.reaching(node)
    if not found or any(not one.is_plain for one in found):
        changed = any(
            one.kind is Bind.AUGMENT
            and isinstance(one.value, cst.AugAssign)
            and isinstance(one.value.operator, cst.DivideAssign | cst.MultiplyAssign)
            for one in found
        )
        return Scale.DIVIDED if changed else Scale.UNKNOWN
    return _weakest(_scale(program, one.value, depth + 1) for one in found)


def _weakest(scales: Iterator[Scale]) -> Scale:
    found = set(scales)
    for one in (Scale.DIVIDED, Scale.UNKNOWN, Scale.LIKELY):
        if one in found:
            return one
    return Scale.WHOLE


def _of_call(program: Program, call: cst.Call) -> Scale:
    """Tell what a loss function gives."""
    name = program.qualified(call.func)
    value = program.value(call.func)
    made = value.made if isinstance(value.made, cst.Call) else None
    if name.startswith("torch.nn.functional.") and _LOSS_NAME.search(name):
        return _reduced(call)
    if value.type.startswith("torch.nn.") and value.type.endswith("Loss"):
        return Scale.UNKNOWN if made is None else _reduced(made)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "mean":
        return Scale.WHOLE
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("sum", "div", "div_"):
        return Scale.DIVIDED
    if value.known or name:
        return Scale.UNKNOWN
    last = dotted(call.func).rpartition(".")[2]
    return Scale.LIKELY if _LOSS.search(last) else Scale.UNKNOWN


_LOSS_NAME = re.compile(r"_loss$|cross_entropy|kl_div")


def _reduced(call: cst.Call) -> Scale:
    """Tell what the reduction makes of a loss: the mean of its batch, if it is not given."""
    for arg in call.args:
        keyword = "" if arg.keyword is None else arg.keyword.value
        if arg.star or keyword in ("size_average", "reduce"):
            return Scale.UNKNOWN
        if keyword == "reduction":
            text = arg.value.evaluated_value if isinstance(arg.value, cst.SimpleString) else None
            return (
                Scale.WHOLE if text == "mean" else Scale.DIVIDED if text in _SUMS else Scale.UNKNOWN
            )
    return Scale.WHOLE
