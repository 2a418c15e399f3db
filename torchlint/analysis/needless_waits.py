"""Waits for the whole GPU in training steps that nothing needs: neither a clock nor an order."""

from __future__ import annotations

import enum
from itertools import dropwhile, islice
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.clocks import reads_clock
from torchlint.analysis.conditions import is_statement, past_device_checks
from torchlint.analysis.loops import Role
from torchlint.analysis.queued import WAITS
from torchlint.analysis.timing import (
    communicates,
    is_named_for_it,
    measures,
    orders_by_hand,
    profiled,
    times_loop,
    times_rarely,
)

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


class Clock(enum.Enum):
    """When the time that a wait is for is read."""

    STEP = enum.auto()
    SELDOM = enum.auto()  # taken in every step, and read now and then
    LOOP = enum.auto()  # taken and read outside of the loop


def needless_waits(program: Program) -> list[cst.Call]:
    """Return the waits of training steps and forward passes that could go."""
    return [call for call in _waits(program) if _is_needless(program, call)]


def timed_waits(program: Program) -> dict[cst.Call, Clock]:
    """Return the waits of training steps for a clock of the step, or one around the loop.

    Benchmarks, profiled code and orders made by hand are left out.
    """
    return {call: _clock(program, call) for call in _waits(program) if _times(program, call)}


def _clock(program: Program, call: cst.Call) -> Clock:
    """Return when the time is read that a wait is for."""
    places = _places(program, call)
    context = program.context(past_device_checks(program, call))
    assert context.loop is not None
    if not measures(program, [context.loop]) and program.index.inside(call, context.loop):
        return Clock.LOOP
    return Clock.SELDOM if times_rarely(program, places) else Clock.STEP


def _waits(program: Program) -> list[cst.Call]:
    """Return the statements that wait for the GPU, in a file that orders no work by hand."""
    calls = [call for call in program.calls_of(*WAITS) if is_statement(program, call)]
    return [] if not calls or orders_by_hand(program) else calls


def _times(program: Program, call: cst.Call) -> bool:
    context = program.context(past_device_checks(program, call))
    places = _places(program, call)
    return (
        not context.guarded
        and context.role is Role.TRAIN
        and context.loop is not None
        and _is_clocked(program, call, context.loop)
        and not is_named_for_it(program, places)
        and (_is_for_clock(program, call) or not any(communicates(program, p) for p in places))
        and not profiled(program, call)
        and not _catches_errors(program, call)
    )


def _is_clocked(program: Program, call: cst.Call, loop: cst.CSTNode) -> bool:
    """Whether a loop reads a clock, or the function that it is in does before and after it."""
    if measures(program, [loop]):
        return True
    function = program.function(loop) or program.module
    return program.index.inside(call, loop) and times_loop(program, function, loop)


def _is_needless(program: Program, call: cst.Call) -> bool:
    context = program.context(past_device_checks(program, call))
    if context.guarded or context.role not in (Role.TRAIN, Role.FORWARD):
        return False
    return not (_has_reason(program, call) or _catches_errors(program, call))


def _is_for_clock(program: Program, call: cst.Call) -> bool:
    """Whether the line after a wait reads a clock: then it is there for that, and for nothing else.

    Device checks around the wait belong to it.
    """
    checked = past_device_checks(program, call)
    line = checked if isinstance(checked, cst.If) else program.parent(program.parent(call) or call)
    block = None if line is None else program.parent(line)
    if not isinstance(block, cst.BaseSuite | cst.Module):
        return False
    following = dropwhile(lambda one: one is not line, block.body)
    return any(reads_clock(program, one) for one in islice(following, 1, 2))


def _has_reason(program: Program, call: cst.Call) -> bool:
    """Whether the wait is there to time something, or to order work that PyTorch does not."""
    places = _places(program, call)
    if measures(program, places) or any(communicates(program, place) for place in places):
        return True
    return profiled(program, call)


def _places(program: Program, call: cst.Call) -> list[cst.CSTNode]:
    """Return the function of a wait, and the loop that makes it run per step with its function."""
    context = program.context(past_device_checks(program, call))
    places: list[cst.CSTNode] = [program.function(call) or program.module]
    if context.loop is not None:
        places += [context.loop, program.function(context.loop) or program.module]
    return places


def _catches_errors(program: Program, call: cst.Call) -> bool:
    """Whether the wait stands in ``try`` so that errors of the GPU appear there."""
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.Try) and child is above.body and above.handlers:
            return True
        if isinstance(above, cst.For | cst.While | cst.FunctionDef):
            return False
        child = above
    return False
