"""Files that are started by themselves, and where they set what holds for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.rewrites import InsertAfter

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def is_script(program: Program) -> bool:
    """Whether the file is started by itself: it asks for ``__main__``, or trains at its top."""
    asks = any(
        isinstance(item, cst.If) and "__main__" in program.code(item.test)
        for item in program.module.body
    )
    return asks or any(program.function(loop) is None for loop in program.loops.training)


def at_the_top(program: Program, line: str) -> InsertAfter | None:
    """Put a line that uses ``torch`` below the imports; None where torch has no such name there."""
    root = program.index.root
    if program.names.root("torch", root) != "torch":
        return None
    last = None
    for item in program.module.body:
        if isinstance(item, cst.FunctionDef | cst.ClassDef | cst.For | cst.While | cst.With):
            break
        if isinstance(item, cst.SimpleStatementLine) and any(
            isinstance(small, cst.Import | cst.ImportFrom) for small in item.body
        ):
            last = item
    order = program.index.order
    imports = [one.node for one in root.bindings.get("torch", ())] or root.stars
    if last is None or all(order(one) > program.index.end(last) for one in imports):
        return None
    return InsertAfter(last, line, apart=True)
