"""Branches for a value that no call in the project gives: ``elif distance == "l_2":``.

Or ``if criterion is not None:`` of what every call leaves at its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.left_out import is_never_named
from torchlint.analysis.outcomes import outcome, param_of

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def is_unasked(program: Program, branch: cst.If, *, holds: bool) -> bool:
    """Whether every call of a function gives a parameter a value with which a branch does not run.

    The branch is that of a condition on parameters and literals, which ``holds`` there or not.
    Only where there are calls, and each gives a literal or leaves it at its default; or where a
    parameter that is False by default is only given by its name, and nothing writes that.
    """
    return outcome(program, branch.test, calls_seen) is (not holds) or (
        holds and _is_never_set(program, branch.test)
    )


def _is_never_set(program: Program, test: cst.BaseExpression) -> bool:
    """``if progress:`` of ``def attack(x, *, progress=False)``, whatever ``**options`` hides."""
    match param_of(program, test) if isinstance(test, cst.Name) else None:
        case (function, cst.Param(default=cst.Name("False")) as param):
            return is_never_named(program, function, param)
        case _:
            return False


def calls_seen(program: Program, function: cst.FunctionDef) -> list[tuple[Program, cst.Call]]:
    """Return the calls of a function that are seen to pass what they pass: it may have others."""
    if not all(program.loops.is_no_grad(one.decorator) for one in function.decorators):
        return []  # a decorator may pass arguments of its own
    return program.sites_everywhere(function)
