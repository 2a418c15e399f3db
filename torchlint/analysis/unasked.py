"""Branches for a value that no call in the project gives: ``elif distance == "l_2":``.

Or ``if criterion is not None:`` of what every call leaves at its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_MOST = 10  # calls that are looked at


def is_unasked(program: Program, branch: cst.If, *, holds: bool) -> bool:
    """Whether every call of a function gives a parameter a value with which a branch does not run.

    The branch is that of a condition on a parameter and literals, which ``holds`` there or not.
    Only where there are calls, and each gives a literal or leaves it at its default.
    """
    asked = _asked(branch.test)
    if asked is None:
        return False
    name, wanted, among = asked
    bindings = program.flow.reaching(name)
    param = bindings[0].value if len(bindings) == 1 else None
    function = program.function(branch)
    if not isinstance(param, cst.Param) or function is None:
        return False
    if not all(program.loops.is_no_grad(one.decorator) for one in function.decorators):
        return False  # a decorator may pass arguments of its own
    if program.function(param) is not function:
        return False  # of a function around it, which others call
    sites = program.sites_everywhere(function)
    if not sites or len(sites) > _MOST:
        return False
    values = {_given(program, function, param, site) for _, site in sites}
    return None not in values and not any(((value in wanted) is among) is holds for value in values)


def _asked(test: cst.BaseExpression) -> tuple[cst.Name, frozenset[str | None], bool] | None:
    """Return the name that a condition asks, and whether it holds with some literals or others."""
    match test:
        case cst.Name():
            return test, frozenset({"True"}), True
        case cst.Comparison(left=cst.Name() as name, comparisons=[only]):
            pass
        case _:
            return None
    wanted: frozenset[str | None]
    match only:
        case cst.ComparisonTarget(
            operator=cst.Equal() | cst.Is() | cst.NotEqual() | cst.IsNot(), comparator=one
        ):
            wanted = frozenset({literal(one)})
        case cst.ComparisonTarget(
            operator=cst.In() | cst.NotIn(),
            comparator=cst.List() | cst.Tuple() | cst.Set() as several,
        ):
            wanted = frozenset(literal(element.value) for element in several.elements)
        case _:
            return None
    among = isinstance(only.operator, cst.Equal | cst.Is | cst.In)
    return None if None in wanted else (name, wanted, among)


def _given(
    program: Program, function: cst.FunctionDef, param: cst.Param, site: cst.Call
) -> str | None:
    """Return the literal that a call gives a parameter, or leaves it at."""
    node = program.calls.passed(function, param, site)
    if node is None and not any(arg.star for arg in site.args):
        node = param.default
    return literal(node)
