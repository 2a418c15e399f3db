"""Sparse tensors, which no loader can pin: whether batches are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.syntax.calls import last_name
from torchlint.training.datasets import GIVES, reached

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.datasets import Datasets

GRAPHS = "torch_geometric.transforms."
MAKERS = ("torch.sparse", f"{GRAPHS}ToSparseTensor", f"{GRAPHS}ToDevice")


def gives_sparse(datasets: Datasets) -> bool:
    """Whether a dataset, or what puts samples together, makes sparse tensors."""
    if datasets.loader.gives_graphs:
        return makes_sparse(datasets.evaluation)
    functions = [*datasets.methods("__init__", *GIVES), *datasets.collates]
    calls = (site.node for site, _ in reached(datasets.effects, functions))
    return any(_is_sparse(datasets.evaluation, call) for call in calls)


def makes_sparse(evaluation: Evaluation) -> bool:
    """Whether connected files make sparse tensors anywhere."""
    modules = evaluation.files.modules
    return any(_is_sparse(evaluation, call) for one in modules for call in one.index.of(cst.Call))


def _is_sparse(evaluation: Evaluation, call: cst.Call) -> bool:
    """``x.to_sparse()``, ``torch.sparse_coo_tensor(...)``."""
    is_method = last_name(call.func).startswith("to_sparse")
    return is_method or evaluation.library(call.func).startswith(MAKERS)
