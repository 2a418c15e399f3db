"""Loops over a loader that end after a few batches: `if i >= 5: break`, or the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.options import option_default
from torchlint.analysis.paused import waits_for_person
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

FEW = 16  # batches: to start workers for them takes longer than to load them
_DEPTH = 6
_WHOLE = "batch_size=len("


def only_looks(program: Program, loop: cst.For) -> bool:
    """Whether nothing is gained by faster batches: a few are looked at, or one after a key."""
    return ends_early(program, loop) or waits_for_person(program, loop)


def has_one_turn(program: Program, loop: cst.CSTNode | None) -> bool:
    """Whether the loaders that a loop goes through hold one batch: ``batch_size=len(dataset)``."""
    project = program.project
    said = _WHOLE in program.text or (project is not None and project.imports.having((_WHOLE,)))
    loaders = program.loaders.sources(loop.iter) if said and isinstance(loop, cst.For) else []
    home = program.loaders.home
    sizes = [home(loader).argument(loader, "batch_size") for loader in loaders]
    return bool(sizes) and all(
        size.arg is not None
        and isinstance(size.arg.value, cst.Call)
        and dotted(size.arg.value.func) == "len"
        for size in sizes
    )


def ends_early(program: Program, loop: cst.For) -> bool:
    """Whether a loop breaks once a count, asked in each of its turns, passes a small number."""
    for statement in loop.body.body:
        match statement:
            case cst.If(test=cst.Comparison() as test, body=cst.IndentedBlock(body=[*_, last])):
                pass
            case _:
                continue
        match last:
            case cst.SimpleStatementLine(body=[*_, cst.Break()]):
                if _is_reached(program, test, loop):
                    return True
            case _:
                pass
    return False


def _is_reached(program: Program, test: cst.Comparison, loop: cst.For) -> bool:
    """``i > samples``, where ``i`` counts the turns of the loop and ``samples`` are few."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.GreaterThanEqual() | cst.Equal(),
                    comparator=bound,
                )
            ],
        ):
            most = largest(program, bound)
        case _:
            return False
    if most is None or most > FEW:
        return False
    while isinstance(left, cst.BinaryOperation) and isinstance(left.right, cst.Integer):
        left = left.left  # `i + 1 == 5`
    if not isinstance(left, cst.Name):
        return False
    made = [binding.node for binding in program.flow.reaching(left)]
    return len(made) == 1 and made[0] is _index(loop)


def _index(loop: cst.For) -> cst.BaseExpression | None:
    """``i`` of ``for i, x in enumerate(loader)``."""
    match loop:
        case cst.For(
            target=cst.Tuple(elements=[cst.BaseElement(value=first), _]),
            iter=cst.Call(func=cst.Name(value="enumerate")),
        ):
            return first
        case _:
            return None


def largest(program: Program, node: cst.CSTNode | None) -> int | None:
    """Return the largest number that an expression is, also by what callers in other files pass."""
    return _number(program, node, 0)


def _number(program: Program, node: cst.CSTNode | None, depth: int) -> int | None:
    if depth > _DEPTH:
        return None
    match node:
        case cst.Integer():
            return int(node.value, 0)
        case cst.BinaryOperation(left=left, right=cst.Integer()):
            return _number(program, left, depth + 1)  # `samples - 1`
        case cst.Name():
            return _named(program, node, depth + 1)
        case cst.Attribute():
            default = option_default(program, node)
            return _constant(program, node, depth + 1) or (
                None if default is None else _number(*default, depth + 1)
            )
        case _:
            return None


def _named(program: Program, name: cst.Name, depth: int) -> int | None:
    found: list[int | None] = []
    for binding in program.flow.reaching(name):
        if isinstance(binding.value, cst.Param):
            found += _passed(program, binding.value, depth)
        elif not binding.path:
            found.append(_number(program, binding.value, depth))
    known = [one for one in found if one is not None]
    if not found:
        return _constant(program, name, depth)
    return max(known) if len(known) == len(found) else None


def _passed(program: Program, param: cst.Param, depth: int) -> list[int | None]:
    function = program.function(param)
    if function is None:
        return [None]
    sites = program.sites_everywhere(function)
    given = [(home, program.calls.passed(function, param, site)) for home, site in sites]
    numbers = [
        _number(program, param.default, depth) if node is None else _number(home, node, depth)
        for home, node in given
    ]
    return numbers or [None]


def _constant(program: Program, node: cst.BaseExpression, depth: int) -> int | None:
    """``hp.samples``, which a module of the project sets once."""
    if program.project is None:
        return None
    found = program.project.define(program, program.qualified(node))
    return None if found is None else _number(found.program, found.binding.value, depth)
