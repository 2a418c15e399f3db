"""Micro-batches: loops whose turns add up gradients that one step of an optimizer then uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.accumulation import in_each_turn, step_guard, stepped
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.reach import callee
from torchlint.analysis.scaling import exclusive
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.hoisting import Loop
    from torchlint.analysis.program import Program

_DEPTH = 2  # calls between a loop and the step that it takes
_PARTS = ("chunk", "tensor_split")
# What changes gradients, by those of all processes.
_CHANGES = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_gradient", "unscale_")


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatches:
    """A loop whose ``backward`` passes add up until a ``step``.

    ``every`` is how many there are for one step, where an expression says so.
    """

    loop: Loop
    backward: cst.Call
    step: cst.Call
    every: cst.BaseExpression | None


def micro_batches(program: Program) -> Iterator[MicroBatches]:
    """Find the backward passes of micro-batches: the step is taken in some turns, or behind all."""
    calls = [call for call, _ in program.method_calls("backward")]
    steps = [call for call, _ in program.method_calls("step") if stepped(program, call)]
    for backward in calls if steps else ():
        loop = next(loops_around(program, backward), None)
        if loop is None or _has_another(program, loop, backward, calls):
            continue
        if _reads_gradients(program, loop) or _changes_gradients(program, loop, backward):
            continue
        found = _guarded(program, loop, backward, steps) or _behind(program, loop, backward, steps)
        if found is not None:
            yield found


def _has_another(program: Program, loop: Loop, backward: cst.Call, calls: list[cst.Call]) -> bool:
    """Whether a turn has a second backward pass: another model's, perhaps."""
    return any(
        one is not backward
        and program.index.inside(one, loop.body)
        and not exclusive(program, one, backward)
        for one in calls
    )


def _reads_gradients(program: Program, loop: Loop) -> bool:
    """Whether the turns use ``.grad``: they need the gradients of all processes, or of inputs."""
    return any(
        node.attr.value == "grad" and not program.qualified(node)
        for node in program.index.below(loop.body, cst.Attribute)
    )


def _changes_gradients(program: Program, loop: Loop, backward: cst.Call) -> bool:
    """Whether each turn clips what it has added: every average then counts."""
    changes = (
        call
        for call in program.index.below(loop.body, cst.Call)
        if dotted(call.func).rpartition(".")[2] in _CHANGES
        and not exclusive(program, call, backward)
    )
    guards = (step_guard(program, call) for call in changes)
    return any(guard is None or guard[0] is not loop for guard in guards)


def _guarded(
    program: Program, loop: Loop, backward: cst.Call, steps: list[cst.Call]
) -> MicroBatches | None:
    """``if (i + 1) % k == 0: optimizer.step()`` in the loop itself."""
    inside = [
        one
        for one in steps
        if program.index.inside(one, loop.body) and not exclusive(program, one, backward)
    ]
    found = step_guard(program, inside[0]) if inside else None
    if found is None or found[0] is not loop:
        return None
    _, guard, every = found
    if program.index.inside(backward, guard):
        return None
    if not all(program.index.inside(one, guard.body) for one in inside):
        return None
    drops = any(
        program.index.inside(call, loop.body)
        and in_each_turn(program, call, loop, guard)
        and not exclusive(program, call, backward)
        for call, _ in program.method_calls("zero_grad")
    )
    return None if drops else MicroBatches(loop, backward, inside[0], every)


def _behind(
    program: Program, loop: Loop, backward: cst.Call, steps: list[cst.Call]
) -> MicroBatches | None:
    """``for part in parts: ...`` and then ``optimizer.step()``."""
    inside = program.index.inside
    dropped = [call for call, _ in program.method_calls("zero_grad")]
    if any(inside(call, loop.body) for call in dropped) or _may_step(program, loop.body, 0):
        return None
    step = _next_step(program, loop, steps)
    if step is None:
        return None
    order, end = program.index.order, program.index.end(loop)
    if any(end <= order(call) < order(step) for call in dropped):
        return None
    return MicroBatches(loop, backward, step, _count(loop))


def _next_step(program: Program, loop: Loop, steps: list[cst.Call]) -> cst.Call | None:
    """Return the first step behind a loop, in the turn of the loop around it or in the function."""
    region = next(loops_around(program, loop), None) or program.function(loop)
    if region is None:
        return None
    end = program.index.end(loop)
    return next(
        (
            one
            for one in steps
            if program.index.inside(one, region.body)
            and program.index.order(one) >= end
            and program.function(one) is program.function(loop)
            and not exclusive(program, one, loop)
        ),
        None,
    )


def _may_step(program: Program, place: cst.CSTNode, depth: int) -> bool:
    """Whether a step may be taken in a place: in the open, or in a function that is called."""
    for call in program.index.below(place, cst.Call):
        last = dotted(call.func).rpartition(".")[2]
        found = callee(program, call)
        if found is None:
            if "step" in last or "optim" in last:
                return True
        elif depth < _DEPTH and _may_step(found[0], found[1].body, depth + 1):
            return True
    return False


def _count(loop: Loop) -> cst.BaseExpression | None:
    """Return how many turns a loop has: ``range(k)``, ``zip(x.chunk(k), y.chunk(k))``."""
    node = loop.iter if isinstance(loop, cst.For) else None
    while isinstance(node, cst.Call):
        last = dotted(node.func).rpartition(".")[2]
        if not node.args:
            return None
        if last in _PARTS or (last == "range" and len(node.args) == 1):
            return node.args[0].value
        if last == "range" and len(node.args) == 2 and literal(node.args[0].value) == "0":
            return node.args[1].value
        if last not in ("enumerate", "zip", "tqdm", "trange"):
            return None
        node = node.args[0].value
    return None
