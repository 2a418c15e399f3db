"""Whether the processes of a distributed training may divide the data, or draw of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import RANK, Instance, Library, Number, Object
from torchlint.syntax.calls import has_keyword
from torchlint.training.datasets import reached

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.datasets import Datasets
    from torchlint.training.loaders import Loader

WRAPPER = "torch.nn.parallel.DistributedDataParallel"
SEEDS = frozenset({
    "torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "random.seed",
    "numpy.random.seed", "torch.random.manual_seed",
})  # fmt: skip
GROUPS = frozenset({"process_group", "device_mesh"})
ASKS = ("torch.distributed.", "torch.utils.data.get_worker_info", "os.environ")
DEEPEST = 4  # names that come from names


def wrap_alike(evaluation: Evaluation) -> bool:
    """Whether models are wrapped for processes that all draw the same, of one group."""
    wrapped = [node for _, node, name in evaluation.makings.values() if name == WRAPPER]
    if not wrapped or any(has_keyword(call, GROUPS) for call in wrapped):
        return False
    for module in evaluation.files.modules:
        for call in module.index.of(cst.Call):
            called = evaluation.value(call.func)
            if any(isinstance(one, Library) and one.name in SEEDS for one in called):
                values = [evaluation.value(arg.value) for arg in call.args]
                if not all(isinstance(one, Number) for value in values for one in value):
                    return False  # the rank is in it, perhaps
    return True


def runs_wrapped(evaluation: Evaluation, loader: Loader) -> bool:
    """Whether what takes the batches of a loader is seen to run a wrapped model."""
    for turn in loader.turns:
        index = evaluation.index(turn.file)
        around = turn.node
        while not isinstance(around, (cst.For, cst.While, cst.FunctionDef, cst.Module)):
            around = index.parent(around) or evaluation.module(turn.file).tree
        for call in index.below(around, cst.Call):
            parts = [call.func, *(arg.value for arg in call.args)]
            values = (evaluation.value(part) for part in parts)
            if any(isinstance(o, Object) and o.kind == WRAPPER for value in values for o in value):
                return True
    return False


def may_divide(datasets: Datasets) -> bool:
    """Whether the dataset of a loader may be another one in each process."""
    evaluation = datasets.evaluation
    given = datasets.loader.arguments.get("dataset")
    if given is None or given.node is None or _is_part(evaluation, given.node, 0):
        return True
    for one in datasets.found:
        made = getattr(one, "call", None)
        call = evaluation.node(made) if made is not None else None
        if not isinstance(one, (Instance, Object)) or not isinstance(call, cst.Call):
            return True
        if any(_is_part(evaluation, arg.value, 0) for arg in call.args):
            return True
    methods = datasets.methods("__init__", "__getitem__", "__len__", "__iter__")
    called = [site.node.func for site, _ in reached(datasets.effects, methods)]
    return any(
        isinstance(one, Library) and one.name.startswith(ASKS)
        for func in called
        for one in evaluation.value(func)
    )


def _is_part(evaluation: Evaluation, node: cst.CSTNode, depth: int) -> bool:
    """Whether an expression takes a part of something, or has the rank in it."""
    value = evaluation.value(node)
    if isinstance(node, cst.Subscript):
        return True
    if any(isinstance(one, Object) and (one.kind == RANK or one.kind.startswith(ASKS))
           for one in value):  # fmt: skip
        return True
    if isinstance(node, cst.Name) and depth < DEEPEST:
        bound = evaluation.bindings(node)
        return any(
            one.value is not None and one.is_plain and _is_part(evaluation, one.value, depth + 1)
            for one in bound
        )
    if isinstance(node, cst.Call):
        return any(_is_part(evaluation, arg.value, depth) for arg in node.args)
    if isinstance(node, cst.BinaryOperation):
        return any(_is_part(evaluation, one, depth) for one in (node.left, node.right))
    return False
