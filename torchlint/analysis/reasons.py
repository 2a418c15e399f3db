"""Whether somebody wrote down why the code is as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.places import locate

if TYPE_CHECKING:
    from torchlint.analysis.arguments import Argument
    from torchlint.analysis.program import Program


def explained(program: Program, node: cst.CSTNode) -> bool:
    """Whether a comment stands beside the statement of a node, or directly above it."""
    line = program.statement(node)
    if not isinstance(line, cst.SimpleStatementLine):
        return True
    return "#" in program.text and "#" in locate(program, [line]).code(line)


def refused(program: Program, given: Argument, value: str = "False") -> bool:
    """Whether a call itself passes this literal for an argument, without a comment that says why.

    ``DataLoader(data, pin_memory=False)`` refuses; ``pin_memory=False,  # slower here`` explains,
    also at the end of the line, behind what else stands there.
    """
    if given.arg is None or given.literal() != value or "#" in program.code(given.arg):
        return False
    return not _is_commented(program, given.arg)


def _is_commented(program: Program, node: cst.CSTNode) -> bool:
    """Whether a comment stands behind something, in its line."""
    if "#" not in program.text:
        return False
    end = locate(program, [node]).span(node).end
    return "#" in program.text[end:].partition("\n")[0]
