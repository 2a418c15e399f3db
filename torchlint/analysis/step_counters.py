"""The name that counts the steps of a training loop: an index, or a variable that is increased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_PROGRESS = ("tqdm", "track", "prange", "progress")


def step_counter(program: Program, statement: cst.CSTNode, loop: cst.For | cst.While) -> str | None:
    """Return a name that is one more in every turn of a loop, as seen at a statement in it."""
    if isinstance(loop, cst.For):
        index = index_of(program, loop)
        if index is not None and _only(program, statement, index, loop):
            return index.value
    for name in _increased(loop):
        if _counts(program, statement, name, loop):
            return name.value
    return None


def index_of(program: Program, loop: cst.For) -> cst.Name | None:
    """Return ``i`` of ``for i, x in enumerate(...)`` or ``for i in range(n)``."""
    iterated = loop.iter
    while isinstance(iterated, cst.Call) and _shows_progress(iterated):
        if dotted(iterated.func).rpartition(".")[2] == "trange":
            break
        iterated = iterated.args[0].value
    if not isinstance(iterated, cst.Call):
        return None
    match iterated.func, loop.target:
        case cst.Name(value="enumerate") as func, cst.Tuple(elements=[first, _]):
            index = first.value
        case cst.Name(value="range") as func, cst.Name() as index:
            if len(iterated.args) > 2 and literal(iterated.args[2].value) != "1":
                return None
        case func, cst.Name() as index if dotted(func).rpartition(".")[2] == "trange":
            return index if sum(arg.keyword is None for arg in iterated.args) < 3 else None
        case _:
            return None
    return index if isinstance(index, cst.Name) and program.is_builtin(func) else None


def _shows_progress(call: cst.Call) -> bool:
    name = dotted(call.func).rpartition(".")[2].lower()
    return bool(call.args) and (name == "trange" or any(word in name for word in _PROGRESS))


def _only(program: Program, statement: cst.CSTNode, index: cst.Name, loop: cst.For) -> bool:
    """Whether the index is what the loop gave, and nothing else, at a statement."""
    seen = program.flow.before(statement, index.value)
    return [binding.node for binding in seen] == [index] and program.index.inside(statement, loop)


def _increased(loop: cst.For | cst.While) -> list[cst.Name]:
    """Names that every turn increases by one, unconditionally and once."""
    found: list[cst.Name] = []
    for line in loop.body.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match small:
                case cst.AugAssign(
                    target=cst.Name() as name,
                    operator=cst.AddAssign(),
                    value=cst.Integer(value="1"),
                ):
                    found.append(name)
                case _:
                    pass
    return found


def _counts(
    program: Program, statement: cst.CSTNode, name: cst.Name, loop: cst.For | cst.While
) -> bool:
    """Whether a variable starts as a number, and only this increase changes it in the loop."""
    increase = program.parent(name)
    assert increase is not None
    seen = {
        *program.flow.before(increase, name.value),
        *program.flow.before(statement, name.value),
    }
    return all(
        binding.node is name
        or (_is_number(program, binding) and not program.index.inside(binding.node, loop))
        for binding in seen
    )


def _is_number(program: Program, binding: Binding) -> bool:
    starts = binding.is_plain
    return starts and program.values.binding(binding).kind is Kind.NUMBER
