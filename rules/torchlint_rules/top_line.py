"""A line below the imports, for what holds for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.rewrites import InsertAfter
from torchlint.semantics.values import Library

if TYPE_CHECKING:
    from torchlint.training.script import Script


def at_the_top(script: Script, line: str) -> InsertAfter | None:
    """Put a line that uses ``torch`` below the imports; None where torch has no such name there."""
    index, evaluation = script.module.index, script.connected.evaluation
    root = index.root
    cell = evaluation.name(script.file, root, "torch")
    starred = evaluation.starred(script.file, root, "torch")
    if (Library("torch"),) not in (cell.value, starred.value if starred else ()):
        return None
    last = None
    for item in script.module.tree.body:
        if isinstance(item, (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.With)):
            break
        if isinstance(item, cst.SimpleStatementLine) and any(
            isinstance(small, (cst.Import, cst.ImportFrom)) for small in item.body
        ):
            last = item
    imports = [one.node for one in root.bindings.get("torch", ())] or root.stars
    if last is None or all(index.order(one) > index.end(last) for one in imports):
        return None
    return InsertAfter(last, line, apart=True)
