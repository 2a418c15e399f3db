"""Conditions on options, by what these are where nobody asks for anything else.

``if args.weight > 0:`` of ``parser.add_argument("--weight", type=float, default=1.0)`` holds in
each step of those who start the script as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.decisions import COMPARED, truth
from torchlint.analysis.options import OPTION_ROOTS, UNKNOWN, constant, option_constant
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def holds_by_default(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition on nothing but options holds where none of them is given."""
    return truth(test, lambda part: _by_default(program, part)) is True


def _by_default(program: Program, part: cst.BaseExpression) -> bool | None:
    match part:
        case cst.Attribute():
            found = _option(program, part)
            return None if found is UNKNOWN else bool(found)
        case cst.Comparison(left=cst.Attribute() as option, comparisons=[only]):
            compare = COMPARED.get(type(only.operator))
            left, right = _option(program, option), constant(program, only.comparator)
        case _:
            return None
    if compare is None or left is UNKNOWN or right is UNKNOWN:
        return None
    try:
        return compare(left, right)
    except TypeError:
        return None


def _option(program: Program, option: cst.Attribute) -> object:
    """Return what an option is by default."""
    of_script = dotted(option.value).rpartition(".")[2] in OPTION_ROOTS
    return option_constant(program, option) if of_script else UNKNOWN
