"""Lines that only log: which can be left out together, and what counts the steps of their loop."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Iterator, Number, Sequence
from torchlint.syntax.calls import last_name
from torchlint.syntax.chains import dotted
from torchlint.training.read_uses import Use, argument_use, readers, targets_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchlint.semantics.values import Value
    from torchlint.training.script import Script

# Functions and methods that look at numbers, texts and times, and change nothing.
LOOKS = frozenset(
    """float int str bool repr round len min max sum abs dict list tuple zip sorted format type
    isinstance item detach cpu mean norm std var sqrt exp log pow numpy tolist size dim numel
    double long argmax eq isnan isfinite isinf all any view reshape squeeze clone array
    join strip rjust ljust keys values items get get_last_lr get_lr get_scale time perf_counter
    monotonic now total_seconds strftime isoformat memory_allocated max_memory_allocated
    memory_reserved max_memory_reserved""".split()
)


def run_of(
    script: Script, line: cst.CSTNode, reading: Collection[int]
) -> list[cst.SimpleStatementLine]:
    """Return the lines around one that log, with the names that only they read.

    ``reading`` holds the ids of the lines that read something of the GPU.  Empty where a line that
    does anything else needs what is read.
    """
    block = script.module.parent(line)
    lines = block.body if isinstance(block, cst.IndentedBlock) else ()
    fitting = [
        one
        for one in lines
        if isinstance(one, cst.SimpleStatementLine)
        and (_only_logs(script, one) or (id(one) in reading and _only_names(script, one)))
    ]
    while True:
        runs = (list(run) for _, run in groupby(lines, fitting.__contains__))
        around = next((one for one in runs if line in one), [])
        run = [one for one in fitting if one in around]
        needed = [one for one in run if not _stays(script, one, run)]
        if not needed:
            return run if any(_only_logs(script, one) for one in run) else []
        fitting = [one for one in fitting if one not in needed]


def _only_logs(script: Script, line: cst.SimpleStatementLine) -> bool:
    match line.body:
        case [cst.Expr(value=cst.Call() as call)]:
            is_shown = argument_use(script.connected.evaluation, call) is Use.SHOWN
            return is_shown and _only_looks(script, line, call)
    return False


def _only_names(script: Script, line: cst.SimpleStatementLine) -> bool:
    """Whether a line gives names to values, and does nothing else."""
    match line.body:
        case [cst.Assign() as assign]:
            targets = targets_of(assign)
            are_names = all(isinstance(one, cst.Name) for one in targets)
            return are_names and _only_looks(script, line, None)
    return False


def _only_looks(script: Script, line: cst.CSTNode, sink: cst.Call | None) -> bool:
    index = script.module.index
    kinds = (cst.NamedExpr, cst.Await, cst.Yield)
    return not any(True for kind in kinds for _ in index.below(line, kind)) and all(
        call is sink or (last_name(call.func) or dotted(call.func)) in LOOKS
        for call in index.below(line, cst.Call)
    )


def _stays(
    script: Script, line: cst.SimpleStatementLine, run: list[cst.SimpleStatementLine]
) -> bool:
    """Whether what a line gives names to is read in the run alone."""
    return all(
        any(script.module.index.inside(use, one) for one in run)
        for name in targets_of(line.body[0])
        if isinstance(name, cst.Name)
        for use in readers(script.connected.evaluation, name, script.file)
    )


def step_counter(script: Script, loop: cst.For | cst.While) -> str | None:
    """Return a name that is one more in every turn of a loop: an index, or ``n += 1``."""
    found = [_index(script, loop)] if isinstance(loop, cst.For) else []
    for line in loop.body.body:
        match line:
            case cst.SimpleStatementLine([cst.AugAssign(grown, cst.AddAssign(), cst.Integer("1"))]):
                found += [grown] if _are_numbers(script.value(grown)) else []
    for name in found:
        if isinstance(name, cst.Name) and _is_bound_once(script, name, loop):
            return name.value
    return None


def _index(script: Script, loop: cst.For) -> cst.BaseExpression | None:
    """Return ``i`` of ``for i, x in enumerate(...)`` or ``for i in range(n)``."""
    calls = script.module.index.below(loop.iter, cst.Call)
    if any(len([arg for arg in call.args if arg.keyword is None]) > 2 for call in calls):
        return None  # a range whose steps are longer
    elements = [one.element for one in script.value(loop.iter) if isinstance(one, Iterator)]
    match loop.target, elements:
        case cst.Tuple(elements=[cst.Element(value=index), _]), [(Sequence(elements=(number, _)),)]:
            return index if _are_numbers(number) else None
        case index, [number]:
            return index if _are_numbers(number) else None
    return None


def _are_numbers(value: Value) -> bool:
    return bool(value) and all(isinstance(one, Number) for one in value)


def _is_bound_once(script: Script, name: cst.Name, loop: cst.CSTNode) -> bool:
    """Whether a loop gives a name a value in one place."""
    index = script.module.index
    owner = index.scope(name).owner(name.value)
    bindings = owner.bindings[name.value] if owner else ()
    return sum(index.inside(one.node, loop) for one in bindings) == 1
