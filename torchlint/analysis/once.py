"""What a script does a single time: outside of loops, in functions that are called likewise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_AGAIN = (
    cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda
)  # fmt: skip
_DEPTH = 4
_ENTRY = frozenset({"main", "cli", "run_main"})  # what starts a script


def runs_once(program: Program, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a node stands outside of loops, and so does every call of its function.

    A function whose calls are not seen may run at any time, unless its name says that it starts
    the script.
    """
    for above in program.index.ancestors(node):
        if isinstance(above, _AGAIN):
            return False
        if isinstance(above, cst.FunctionDef):
            return _is_called_once(program, above, depth)
    return True


def _is_called_once(program: Program, function: cst.FunctionDef, depth: int) -> bool:
    if function.decorators and function.name.value not in _ENTRY:
        return False
    sites = program.sites_everywhere(function) if depth < _DEPTH else []
    if not sites:
        return function.name.value in _ENTRY and depth < _DEPTH
    return all(runs_once(home, site, depth + 1) for home, site in sites)
