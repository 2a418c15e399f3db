"""Conditions that hold in one process of many: what they compare is a rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_RANK = re.compile(r"rank|process_?(index|id)|proc_?id|worker_?id|ordinal", re.IGNORECASE)
# By itself, as the last part of a name.
_FIRST = re.compile(
    r"(?:^|[._])(?:is_?)?(?:main|master|primary|chief|root|coordinator|rank_?(?:zero|0))"
    r"(?:_?(?:process|worker|node|rank|proc))?$"
    r"|(?:^|[._])is_(?:main|master|primary|chief|leader|(?:global|local|world_process)_zero)$",
    re.IGNORECASE,
)
_FEW = 1  # arguments of a question; what is told more than a rank computes something
_DEPTH = 3


def picks_process(program: Program, test: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a condition, or what it asks, compares the rank of the process with a number.

    ``if is_primary():`` is such a one where its body is ``return get_rank() == 0``, in whatever
    file of the project, and so is ``if primary:`` after ``primary = get_rank() == 0``.
    """
    if any(_compares(program, one) for one in program.index.below(test, cst.Comparison)):
        return True
    return depth < _DEPTH and any(
        picks_process(home, value, depth + 1) for home, value in _asked(program, test)
    )


def is_of_first(test: cst.CSTNode) -> bool:
    """Whether a condition only asks for the first process, where it holds in each step.

    ``if rank == 0:``, ``if is_main_process():``, ``if master_process:``.
    """
    match test:
        case cst.Comparison(
            left=cst.Name() | cst.Attribute() | cst.Call(args=[]) as asked,
            comparisons=[
                cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Integer(value="0"))
            ],
        ):
            named = asked.func if isinstance(asked, cst.Call) else asked
            return _RANK.search(dotted(named)) is not None
        case cst.Call(func=func, args=[]):
            return _FIRST.search(dotted(func)) is not None
        case cst.Name() | cst.Attribute():
            return _FIRST.search(dotted(test)) is not None
        case _:
            return False


def _compares(program: Program, node: cst.Comparison) -> bool:
    """``rank == 0``, ``dist.get_rank() in (-1, 0)``."""
    match node.comparisons:
        case [cst.ComparisonTarget(operator=cst.Equal() | cst.In() | cst.LessThan())]:
            return any(_RANK.search(name.value) for name in _names(program, node.left))
        case _:
            return False


def trains_alone(test: cst.BaseExpression) -> bool:
    """Whether a condition holds in each step of a process that is all there is: its rank is -1.

    ``if rank in (-1, 0):``, ``if args.local_rank == -1:``.
    """
    match test:
        case cst.Comparison(
            left=cst.Name() | cst.Attribute() as asked,
            comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.In(), comparator=ranks)],
        ):
            return _RANK.search(dotted(asked)) is not None and _holds_none(ranks)
        case _:
            return False


def _holds_none(ranks: cst.BaseExpression) -> bool:
    """Whether -1 is among some ranks: that of a process without others."""
    match ranks:
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer(value="1")):
            return True
        case cst.Tuple() | cst.List() | cst.Set():
            return any(_holds_none(element.value) for element in ranks.elements)
        case _:
            return False


def _names(program: Program, node: cst.BaseExpression) -> Iterator[cst.Name]:
    """Yield the names in an expression, and in what gave it its name."""
    yield from program.index.below(node, cst.Name)
    for binding in program.flow.reaching(node) if isinstance(node, cst.Name) else ():
        if binding.kind is Bind.ASSIGN and binding.value is not None:
            yield from program.index.below(binding.value, cst.Name)


def _asked(
    program: Program, test: cst.BaseExpression
) -> Iterator[tuple[Program, cst.BaseExpression]]:
    """Yield what the calls, names and attributes of a condition stand for, with its file."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield program, inner
        case cst.BooleanOperation():
            yield from ((program, test.left), (program, test.right))
        case cst.Call() if len(test.args) <= _FEW:
            yield from _answers(program, test)
        case cst.Name() if "rank" in program.lowered:
            for binding in program.flow.reaching(test):
                if binding.kind is Bind.ASSIGN and isinstance(binding.value, cst.BaseExpression):
                    yield program, binding.value
        case _:
            pass


def _answers(program: Program, call: cst.Call) -> Iterator[tuple[Program, cst.BaseExpression]]:
    """Yield what the function that a call runs returns."""
    own = program.calls.target(call)
    found = None if own is not None else program.calls.elsewhere(call)
    home, function = (program, own) if found is None else (found.program, found.function)
    if function is not None and "rank" in home.lowered:
        for one in home.returns(function):
            if one.value is not None:
                yield home, one.value
