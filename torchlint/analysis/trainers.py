"""Whether a trainer that a call makes is seen to train, or only to test and to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import received
from torchlint.analysis.uses import uses_of
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 8  # names and functions between a trainer and where it trains


def is_asked(
    program: Program, made: cst.BaseExpression, methods: frozenset[str], depth: int = 0
) -> bool:
    """Whether what an expression makes is asked for one of some methods, where that is seen.

    By its names, in functions of the project that it is handed to or that return it, and by the
    attribute that keeps it.  What is kept in a list or a dictionary may be.
    """
    above = program.parent(made)
    if depth > _DEPTH or above is None:
        return True

    def follow(home: Program, bindings: list[Binding]) -> bool:
        uses = (use for one in bindings for use in uses_of(home, one))
        return any(is_asked(home, use, methods, depth + 1) for use in uses)

    match above:
        case cst.Attribute(value=inner, attr=cst.Name(value=name)) if inner is made:
            return name in methods
        case cst.Assign() | cst.AnnAssign() | cst.NamedExpr():
            targets = list(_targets(above))
            bound = [one for target in targets if (one := program.index.bound(target)) is not None]
            kept = [dotted(one) for one in targets if not isinstance(one, cst.Name)]
            return follow(program, bound) or any(
                _is_kept_for(program, one, methods) for one in kept
            )
        case cst.Arg() if isinstance(call := program.parent(above), cst.Call):
            if dotted(call.func) == "getattr":
                return True
            taken = None if above.star else received(program, call, made)
            return taken is not None and follow(taken[0], [taken[1]])
        case cst.Return():
            function = program.function(above)
            assert function is not None
            sites = program.sites_everywhere(function)
            return _is_kept_for(program, function.name.value, methods) or any(
                is_asked(home, site, methods, depth + 1) for home, site in sites
            )
        case cst.IfExp() | cst.BooleanOperation():
            return is_asked(program, above, methods, depth + 1)
        case cst.Expr():
            return False
        case _:
            return True


def _targets(node: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Assign):
        yield from (one.target for one in node.targets)
    else:
        yield node.target


def _is_kept_for(program: Program, name: str, methods: frozenset[str]) -> bool:
    """Whether an attribute is asked for a method: ``self.trainer.fit(model)``; "" may be."""
    last = name.rpartition(".")[2]
    return not name or any(
        dotted(func.value).rpartition(".")[2] == last for _, func in program.method_calls(*methods)
    )
