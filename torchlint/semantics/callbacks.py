"""What libraries call of what they are given: ``partial``, threads, ``spawn``, ``checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.semantics.arguments import Passed, first_of
from torchlint.semantics.models import of_model
from torchlint.semantics.values import (
    NEVER,
    RANK,
    Class,
    Dictionary,
    Function,
    Instance,
    Library,
    Method,
    Object,
    Sequence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value

PARTIAL = "functools.partial"


class Caller(NamedTuple):
    """How something calls what it is given.

    ``place`` and ``keyword`` are those of the function; ``args`` is the place of a tuple of its
    arguments, -1 where they follow one by one; ``has_rank``: the number of a process comes first.
    """

    place: int = 0
    keyword: str = "function"
    args: int = -1
    has_rank: bool = False


CALLERS = {
    "torch.utils.checkpoint.checkpoint": Caller(),
    "torch.func.functional_call": Caller(),
    "atexit.register": Caller(keyword="func"),
    "fire.Fire": Caller(keyword="component", args=99),
    "typer.run": Caller(args=99),
    "accelerate.notebook_launcher": Caller(args=1),
    "torch.multiprocessing.spawn": Caller(keyword="fn", args=1, has_rank=True),
    "torch.multiprocessing.start_processes": Caller(keyword="fn", args=1, has_rank=True),
    "torch_xla.distributed.xla_multiprocessing.spawn": Caller(keyword="fn", args=1, has_rank=True),
    **{
        f"{module}.{name}": Caller(1, "target", 3)
        for module in ("threading", "multiprocessing", "torch.multiprocessing")
        for name in ("Thread", "Process")
    },
}


def called_back(run: Run, node: cst.Call, name: str, passed: Several[Passed]) -> Value:
    """Return what a function gives that a library is given, and has it called."""
    caller = CALLERS[name]
    target = first_of(passed, caller.place, caller.keyword)
    if caller.args < 0:
        rest = tuple(one for one in passed if not one.keyword)[caller.place + 1 :]
    else:
        rest = _arguments(run, node, caller, passed)
    results: Value = NEVER
    for one in target:
        if isinstance(one, Function):
            results = run.sets.union(results, run.evaluation.call_function(run, node, one, rest))
        elif isinstance(one, (Instance, Object)):
            results = run.sets.union(results, of_model(run, node, one, rest, NEVER))
    return results or run.sets.unknown


def _arguments(
    run: Run, node: cst.Call, caller: Caller, passed: Several[Passed]
) -> tuple[Passed, ...]:
    at = cst.Arg(node)
    found = [Passed("", "", run.one(Object(RANK, None)), at)] if caller.has_rank else []
    found += [
        Passed("", "*", run.one(one), at)
        for one in first_of(passed, caller.args, "args")
        if isinstance(one, Sequence)
    ]
    found += [
        Passed("", "**", run.one(one), at)
        for one in first_of(passed, 99, "kwargs")
        if isinstance(one, Dictionary)
    ]
    return tuple(found)


def partial(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    """``partial(f, a, k=b)``: what it holds is kept by its call."""
    at = run.at(node)
    run.evaluation.partials[at] = tuple(passed[1:])
    run.give(run.evaluation.attribute(at, "func"), at, first_of(passed, 0, "func"))
    for place, one in enumerate(passed[1:]):
        run.give(run.evaluation.attribute(at, f"[{place}]"), at, one.value)
    return run.one(Object(PARTIAL, at))


def of_partial(run: Run, node: cst.Call, one: Object, passed: Several[Passed]) -> Value:
    """Call what a ``partial`` holds, with what it was given first."""
    if one.call is None:
        return run.sets.unknown
    kept = run.evaluation.partials.get(one.call, ())
    for place in range(len(kept)):  # who reads them runs again where they change
        run.read(run.evaluation.attribute(one.call, f"[{place}]"))
    given = {arg.keyword for arg in passed if arg.keyword}
    first = tuple(arg for arg in kept if not arg.keyword)
    named = tuple(arg for arg in kept if arg.keyword and arg.keyword not in given)
    value = NEVER
    for each in run.read(run.evaluation.attribute(one.call, "func")):
        if isinstance(each, (Function, Class, Library, Method, Instance)):
            value = run.sets.union(
                value, run.evaluation.apply(run, node, each, (*first, *passed, *named))
            )
    return value or run.sets.unknown
