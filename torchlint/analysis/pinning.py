"""Batches that gain nothing from pinned memory: arrays, and little but the labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.dictionaries import literal
from torchlint.analysis.index import dotted
from torchlint.analysis.loaders import functions_given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loaders import Move
    from torchlint.analysis.program import Program

_LABEL = re.compile(
    r"(?:^|_)(?:y|labels?|lbls?|targets?|tgts?|gt|classes|class_ids?)(?:_\w{1,2})?$", re.IGNORECASE
)
_NO_MAKERS = ("torch.utils.", "torch.device", "torch.cuda.", "torch.no_grad")
_ARRAYS = ("numpy.array", "numpy.asarray", "numpy.stack", "numpy.concatenate", "numpy.vstack")


def moves_labels_only(moves: list[Move]) -> bool:
    """Whether all that goes to the GPU as it was loaded is labels: of the rest a copy goes."""
    names = [_moved(move) for move in moves]
    return bool(names) and all(_LABEL.search(name) for name in names)


def _moved(move: Move) -> str:
    """Return the name of what is moved, or the key it is taken by."""
    match move.node:
        case cst.Call(func=cst.Attribute(value=cst.Subscript(slice=[part]))):
            index = part.slice
            return (literal(index.value) or "") if isinstance(index, cst.Index) else ""
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="to" | "cuda"))):
            return dotted(value).rpartition(".")[2]
        case _:
            return ""


def gives_arrays(program: Program, loader: cst.Call) -> bool:
    """Whether a ``collate_fn`` makes arrays of NumPy, in a file that makes no tensor.

    Only tensors are pinned: of arrays a thread of the loader hands on the list as it is.
    """
    return any(
        not _makes_tensors(home) and any(_makes_arrays(home, one) for one in _run(home, function))
        for home, function in functions_given(program, loader, "collate_fn")
    )


def _run(
    program: Program, function: cst.FunctionDef | cst.Lambda
) -> Iterator[cst.FunctionDef | cst.Lambda]:
    """Yield a function, and what it calls in its file."""
    yield function
    for call in program.index.below(function, cst.Call):
        target = program.calls.target(call)
        if target is not None:
            yield target


def _makes_arrays(program: Program, function: cst.CSTNode) -> bool:
    return any(
        program.qualified(call.func) in _ARRAYS for call in program.index.below(function, cst.Call)
    )


def _makes_tensors(program: Program) -> bool:
    """Whether a file calls functions of torch other than those that load and place."""
    names = (program.qualified(call.func) for call in program.index.of(cst.Call))
    return any(
        name.startswith(("torch.", "torchvision.", "torchaudio."))
        and not name.startswith(_NO_MAKERS)
        for name in names
    )
