"""Sparse tensors, which no loader can pin: whether batches are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library
from torchlint.syntax.calls import last_name
from torchlint.training.datasets import datasets_of, reached

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.effects import Effects
    from torchlint.training.loaders import Loader

MAKERS = ("torch.sparse", "torch_geometric.transforms.ToSparseTensor",
          "torch_geometric.transforms.ToDevice")  # fmt: skip


def gives_sparse(effects: Effects, loader: Loader) -> bool:
    """Whether the dataset of a loader, or what puts samples together, makes sparse tensors."""
    evaluation = effects.evaluation
    if is_graph(evaluation, loader):
        return makes_sparse(evaluation)
    datasets = datasets_of(effects, loader)
    lineage = (one for cls in datasets.classes for one in evaluation.classes.lineage(cls))
    names = dict.fromkeys(name for one in lineage for name in one.methods)
    functions = [*datasets.methods(*names), *datasets.collates]
    return any(_is_sparse(evaluation, site.node) for site, _ in reached(effects, functions))


def makes_sparse(evaluation: Evaluation) -> bool:
    """Whether connected files make sparse tensors anywhere."""
    modules = evaluation.files.modules
    return any(_is_sparse(evaluation, call) for one in modules for call in one.index.of(cst.Call))


def is_graph(evaluation: Evaluation, loader: Loader) -> bool:
    """Whether a loader is one of PyTorch Geometric, whose batches are graphs."""
    made = evaluation.value(loader.node.func)
    return any(isinstance(one, Library) and one.name.startswith("torch_geo") for one in made)


def _is_sparse(evaluation: Evaluation, call: cst.Call) -> bool:
    """``x.to_sparse()``, ``torch.sparse_coo_tensor(...)``."""
    if last_name(call.func).startswith("to_sparse"):
        return True
    called = evaluation.value(call.func)
    return any(isinstance(one, Library) and one.name.startswith(MAKERS) for one in called)
