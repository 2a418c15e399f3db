"""Lines of code and the blocks that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program


def line_of(program: Program, call: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line that does nothing but make a call, and perhaps keep its result."""
    small = program.parent(call)
    line = None if small is None else program.parent(small)
    if isinstance(small, cst.Expr | cst.Assign) and isinstance(line, cst.SimpleStatementLine):
        return line if len(line.body) == 1 else None
    return None


def block_of(program: Program, call: cst.Call) -> Sequence[cst.BaseStatement]:
    """Return the statements of the block that a call is a line of; none if it is no line."""
    line = line_of(program, call)
    match None if line is None else program.parent(line):
        case cst.IndentedBlock(body=body) | cst.Module(body=body):
            return body
        case _:
            return ()


def place_in(program: Program, block: Sequence[cst.BaseStatement], node: cst.CSTNode) -> int | None:
    """Return which statement of a block holds a node."""
    for place, statement in enumerate(block):
        if program.index.inside(node, statement):
            return place
    return None
