"""Datasets of the project that certainly have few samples: ``def __len__(self): return 1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.construction import passed
from torchlint.analysis.datasets import DATA
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.classes import Store
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

FEW = 4  # samples: a pass over them is no longer than a few steps
_DEPTH = 4  # datasets around datasets
_JOINING = frozenset({f"{DATA}.ConcatDataset", f"{DATA}.ChainDataset"})


def may_have_few(program: Program, loader: cst.Call) -> bool:
    """Whether a dataset that a loader may be given is seen to have only a few samples."""
    return any(_has_few(one, 0) for one in program.datasets.of_loader(loader))


def _has_few(dataset: Dataset, depth: int) -> bool:
    method = dataset.method("__len__")
    if method is None or depth > _DEPTH or _JOINING.intersection(dataset.wrappers):
        return False
    home, function = method
    results = home.returns(function)
    return bool(results) and all(_is_few(home, one.value, dataset, depth) for one in results)


def _is_few(
    program: Program, node: cst.BaseExpression | None, dataset: Dataset, depth: int
) -> bool:
    """Whether what ``__len__`` returns is a small number, or the length of a dataset inside."""
    match node:
        case cst.Integer():
            return int(node.value, 0) <= FEW
        case cst.Call(
            func=cst.Name(value="len") as func,
            args=[cst.Arg(value=cst.Attribute(value=cst.Name(value="self"), attr=attr))],
        ):
            stores = [
                (home, store)
                for home, one in dataset.lineage()
                for store in one.stores.get(attr.value, ())
            ]
            return (
                program.is_builtin(func)
                and bool(stores)
                and all(_holds_few(home, store, dataset, depth + 1) for home, store in stores)
            )
        case _:
            return False


def _holds_few(program: Program, store: Store, dataset: Dataset, depth: int) -> bool:
    """Whether an attribute is a dataset of few samples, which may be passed as it is made."""
    value, path = store.value, store.path
    found = program.datasets.of(value) if value is not None and not path else ()
    if isinstance(value, cst.Name) and dataset.call is not None:
        params = [one.value for one in program.flow.reaching(value) if one.kind is Bind.PARAMETER]
        if len(params) == 1 and isinstance(params[0], cst.Param):
            given = passed(dataset, store.method, params[0])
            found = () if given is None else given[0].datasets.of(given[1])
    return bool(found) and all(_has_few(one, depth) for one in found)
