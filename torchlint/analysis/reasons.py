"""Whether somebody wrote down why the code is as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def explained(program: Program, node: cst.CSTNode) -> bool:
    """Whether a comment stands beside the statement of a node, or directly above it."""
    line = program.statement(node)
    if not isinstance(line, cst.SimpleStatementLine):
        return True
    above = line.leading_lines[-1:]
    return "#" in program.code(line) or any(empty.comment is not None for empty in above)
