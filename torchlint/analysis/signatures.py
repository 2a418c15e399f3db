"""Calls that a function does not take: they raise, and nothing of it is run.

``Net(width=3)`` of a class whose ``__init__`` has no ``width``: left over from an earlier version.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program

_PLAIN = ("torch.nn.Module", "torch.utils.data.Dataset", "object")


def never_binds(program: Program, made: cst.CSTNode | None, call: cst.Call) -> bool:
    """Whether a call of an undecorated function or class raises for the arguments that it passes.

    ``program`` is the file that defines it.  Of a class only where nothing but its own ``__init__``
    takes the arguments.
    """
    taken = taker(program, made)
    return taken is not None and not binds(*taken, call.args)


def taker(program: Program, made: cst.CSTNode | None) -> tuple[cst.Parameters, int] | None:
    """Return the parameters that a call fills, and how many of them are given already."""
    match made:
        case cst.FunctionDef():
            return made.params, 0
        case cst.ClassDef():
            first = _initialiser(program, made)
            return None if first is None else (first.params, 1)
        case _:
            return None


def _initialiser(program: Program, made: cst.ClassDef) -> cst.FunctionDef | None:
    """Return the ``__init__`` of a class, if it has but one, which gets what a call passes."""
    owner = program.classes.get(made)
    if owner is None or made.keywords:
        return None
    if "__new__" in owner.methods or any(base not in _PLAIN for base in owner.bases):
        return None  # which may change the arguments
    own = [
        one
        for one in program.index.below(made, cst.FunctionDef)
        if one.name.value == "__init__" and program.classes.around(one) is owner
    ]
    return own[0] if len(own) == 1 and not own[0].decorators else None


def binds(params: cst.Parameters, bound: int, args: Sequence[cst.Arg]) -> bool:
    """Whether a call may pass some arguments; the first ``bound`` parameters are given already."""
    places = [*params.posonly_params, *params.params]
    named = {one.name.value for one in (*params.params, *params.kwonly_params)}
    keywords = [arg.keyword.value for arg in args if arg.keyword is not None]
    first = sum(1 for _ in takewhile(lambda arg: arg.keyword is None and not arg.star, args))
    filled = {one.name.value for one in places[: bound + first]}
    if len(places) < bound + first and not isinstance(params.star_arg, cst.Param):
        return False
    if params.star_kwarg is None and not named.issuperset(keywords):
        return False
    if filled.intersection(keywords, named):
        return False
    if any(arg.star for arg in args):
        return True
    return all(
        one.default is not None or one.name.value in filled or one.name.value in keywords
        for one in (*places, *params.kwonly_params)
    )
