"""Which loops run the training steps over a loader again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.loops import Role
from torchlint.analysis.origins import origins
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.hoisting import Loop
    from torchlint.analysis.program import Program

_DEPTH = 4  # functions between the loop over epochs and the one over batches
_COUNTERS = ("range", "trange", "count", "prange")
_AROUND = ("tqdm", "track", "enumerate", "progress_bar", "master_bar")


@dataclass(frozen=True, slots=True, eq=False)
class Epochs:
    """A loop over epochs, and the file that it stands in."""

    program: Program
    loop: Loop


def epoch_loops(program: Program, loader: cst.Call) -> list[Epochs]:
    """Return the loops over epochs in which a loader, made before them, gives training batches."""
    found: dict[int, Epochs] = {}
    for home, batches in program.loaders.loops_everywhere(loader):
        if home.loops.role(batches) is Role.TRAIN and not _only_looks(home):
            for one in _around(home, batches, loader, 0):
                found[id(one.loop)] = one
    return list(found.values())


def _only_looks(program: Program) -> bool:
    """Whether a file takes gradients and updates nothing: it looks at a model by them."""
    text = program.lowered
    return "backward(" in text and "optim" not in text and "step(" not in text


def _around(program: Program, node: cst.CSTNode, loader: cst.Call, depth: int) -> list[Epochs]:
    for loop in loops_around(program, node):
        if program.parent(loader) is not None and program.index.inside(loader, loop):
            return []  # a new loader in each turn
        if counts(program, loop) and not runs_once(program, loop):
            return [Epochs(program, loop)]
    function = program.function(node)
    if function is None or depth > _DEPTH:
        return []
    sites = [(program, site) for site in program.calls.sites(function)]
    if program.project is not None:
        sites += program.project.callers(program, function)
    return [one for home, site in sites for one in _around(home, site, loader, depth + 1)]


def counts(program: Program, loop: Loop) -> bool:
    """Whether a loop repeats something so many times, or for as long as a condition holds."""
    return isinstance(loop, cst.While) or _is_count(program, loop.iter)


def _is_count(program: Program, node: cst.CSTNode) -> bool:
    """Whether an expression is ``range(n)`` or the like, under a name or in a progress bar."""
    match node:
        case cst.Name():
            made = origins(program, node)
            return node not in made and all(_is_count(program, one) for one in made)
        case cst.Call():
            last = dotted(node.func).rpartition(".")[2]
            inside = last in _AROUND and bool(node.args)
            return last in _COUNTERS or (inside and _is_count(program, node.args[0].value))
        case _:
            return False


def runs_once(program: Program, loop: Loop) -> bool:
    """``for _ in range(1)``."""
    match loop:
        case cst.For(iter=cst.Call(func=cst.Name(value="range"), args=[cst.Arg(value=count)])):
            return program.arguments.number(count) == 1
        case _:
            return False
