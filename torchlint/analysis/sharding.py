"""Whether the workers of a loader share the samples of an ``IterableDataset``, or repeat them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.datasets import ITERABLE_DATASET
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

# Words of a class that knows of workers, gives something else each time, or never ends.
_SHARES = re.compile(r"worker|shard|rank|rand|shuffle|sample|while True|cycle|split|partition")
_BASES = re.compile(r"typing\.|collections\.abc\.|abc\.")
_SAME = frozenset({"range", "open", "sorted", "list", "tuple", "zip", "enumerate", "iter",
                   "reversed", "map", "filter", "csv.reader", "csv.DictReader"})  # fmt: skip
_HOLDS = (Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.TENSOR, Kind.NDARRAY)
_DEPTH = 4


def repeats_samples(dataset: Dataset) -> bool:
    """Whether each worker certainly gives every sample of a dataset.

    The class has to be in the project, with all its bases, and what it goes through has to be seen:
    data of another library may well ask which worker it is in.
    """
    classes = dataset.lineage()
    if not classes or not dataset.iterable or dataset.wrappers:
        return False
    seen = {one.name for _, one in classes}
    for home, one in classes:
        outside = (base for base in one.bases if base.rpartition(".")[2] not in seen)
        if any(base != ITERABLE_DATASET and not _BASES.match(base) for base in outside):
            return False
        if _SHARES.search(home.code(one.node)):
            return False
    method = dataset.method("__iter__")
    if method is None:
        return False
    sources = list(_sources(*method))
    return bool(sources) and all(_is_same(method[0], source, 0) for source in sources)


def _sources(program: Program, method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """Yield what ``__iter__`` goes through, or gives as a whole."""
    for loop in program.index.below(method.body, cst.For):
        if any(program.index.below(loop.body, cst.Yield)):
            yield loop.iter
    for one in program.index.below(method.body, cst.Yield):
        if isinstance(one.value, cst.From):
            yield one.value.item
    for item in program.returns(method):
        if item.value is not None:
            yield item.value


def _is_same(program: Program, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression gives the same in every worker."""
    if depth > _DEPTH:
        return False
    if isinstance(node, cst.GeneratorExp | cst.ListComp):
        return _is_same(program, node.for_in.iter, depth + 1)
    if isinstance(node, cst.Call):
        name = program.qualified(node.func) or dotted(node.func)
        parts = [arg.value for arg in node.args]
        if name in ("range", "open"):
            return True
        return name in _SAME and any(_is_same(program, part, depth + 1) for part in parts)
    if isinstance(node, cst.Name):
        made = [binding.value for binding in program.flow.reaching(node) if not binding.path]
        if len(made) == 1 and isinstance(made[0], cst.Call):
            return _is_same(program, made[0], depth + 1)
    match node:
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            owner = program.classes.around(node)
            stores = [] if owner is None else program.classes.stores(owner, name)
            values = [
                store.value for store in stores if isinstance(store.value, cst.BaseExpression)
            ]
            same = (_is_same(program, value, depth + 1) for value in values)
            return bool(values) and len(values) == len(stores) and all(same)
        case _:
            return program.value(node).kind in _HOLDS
