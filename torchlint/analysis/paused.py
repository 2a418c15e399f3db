"""Loops that wait for a person in each of their turns: for a key, a line of input, a debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_KEYS = ("cv2.waitKey", "cv2.waitKeyEx")
_DEBUGGERS = frozenset({"pdb.set_trace", "ipdb.set_trace", "IPython.embed", "code.interact"})
_NOT_ALWAYS = (cst.FunctionDef, cst.Lambda, cst.CompFor, cst.For, cst.ExceptHandler, cst.MatchCase)
_SKIPS = (cst.Continue, cst.Return)
_DEPTH = 3  # functions that call functions


def waits_for_person(program: Program, loop: cst.For) -> bool:
    """Whether no turn of a loop ends before a person has done something: nothing hurries it."""
    return _waits(program, loop, 0)


def _waits(program: Program, place: cst.For | cst.FunctionDef, depth: int) -> bool:
    """Whether each run of a body waits, itself or in a function of the file that it calls."""
    return depth < _DEPTH and any(
        (_asks(program, call) or _calls_what_waits(program, call, depth))
        and _always_runs(program, call, place)
        for call in program.index.below(place.body, cst.Call)
    )


def _calls_what_waits(program: Program, call: cst.Call, depth: int) -> bool:
    target = program.calls.target(call)
    return target is not None and _waits(program, target, depth + 1)


def _asks(program: Program, call: cst.Call) -> bool:
    """``input()``, ``cv2.waitKey(0)``: with a number of milliseconds it goes on by itself."""
    if isinstance(call.func, cst.Name) and program.is_builtin(call.func):
        return call.func.value in ("input", "breakpoint")
    name = program.qualified(call.func)
    if name not in _KEYS:
        return name in _DEBUGGERS
    return all(program.arguments.number(arg.value) == 0 for arg in call.args)


def _always_runs(program: Program, call: cst.Call, place: cst.For | cst.FunctionDef) -> bool:
    """Whether nothing in a body decides if a call is reached."""
    index = program.index
    child: cst.CSTNode = call
    for above in index.ancestors(call):
        if above is place:
            break
        match above:
            case cst.If(test=first) | cst.While(test=first) | cst.IfExp(test=first):
                decided = first is not child
            case cst.BooleanOperation(left=first):
                decided = first is not child
            case _:
                decided = isinstance(above, _NOT_ALWAYS)
        if decided:
            return False
        child = above
    skips = (skip for kind in _SKIPS for skip in index.below(place.body, kind))
    return all(index.order(skip) > index.order(call) for skip in skips)
