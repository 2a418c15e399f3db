"""What a script does a single time: outside of loops, in functions that are called likewise.

And what it does for each sample, but only as a dataset is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.loops import Role

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_AGAIN = (
    cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda
)  # fmt: skip
_DEPTH = 4
_MAKES = ("__init__", "process")
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


def prepares_samples(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node runs in a loop, but only as a dataset is made: it prepares its samples."""
    return _prepares(program, node, frozenset(), looped=False)


def _prepares(program: Program, node: cst.CSTNode, seen: frozenset[int], *, looped: bool) -> bool:
    function = None
    for above in program.index.ancestors(node):
        if isinstance(above, cst.Lambda):
            return False
        if isinstance(above, cst.FunctionDef):
            function = above
            break
        looped = looped or isinstance(above, _AGAIN)
    if function is None or function.decorators:
        return False
    sites = program.sites_everywhere(function)
    if _makes_dataset(program, function):
        again = (home.context(site).role for home, site in sites)
        return looped and all(role is Role.OTHER for role in again)
    if len(seen) > _DEPTH:
        return False
    seen |= {id(function)}
    sites = [(home, site) for home, site in sites if id(home.function(site)) not in seen]
    return bool(sites) and all(_prepares(home, site, seen, looped=looped) for home, site in sites)


def _makes_dataset(program: Program, function: cst.FunctionDef) -> bool:
    """``__init__`` of a dataset, and ``process`` of one of PyTorch Geometric."""
    owner = program.classes.around(function)
    return (
        owner is not None
        and owner.is_dataset
        and owner.methods.get(function.name.value) is function
        and function.name.value in _MAKES
    )
