"""Loaders of PyTorch Geometric: each batch is one graph, joined in Python of many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchlint.analysis.torch_api import GRAPH_LOADERS
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.analysis.program import Program

_DATASET = re.compile(r"(data_?set|\._?data)$", re.IGNORECASE)
_TRANSFORMS = ("ToDevice", "ToSparseTensor")


def gives_graphs(program: Program, loader: cst.Call) -> bool:
    """Whether a loader is the one of PyTorch Geometric, whose batches have ``pin_memory()``."""
    return program.qualified(loader.func) in GRAPH_LOADERS


def may_refuse_to_pin(program: Program, loader: cst.Call) -> bool:
    """Whether graphs may hold sparse tensors, or live on a GPU: to pin those raises."""
    return gives_graphs(program, loader) and (
        any(name in program.text for name in _TRANSFORMS)
        or any(
            _DATASET.search(dotted(func.value)) is not None
            for _, func in program.method_calls("to", "cuda")
        )
    )
