"""Whether the workers of a loader share the samples of an `IterableDataset`, or repeat them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import (
    RANK,
    Array,
    Dictionary,
    Iterator,
    Library,
    Method,
    Object,
    Sequence,
    Tensor,
    Text,
)
from torchlint.training.datasets import ITERABLE, reached

if TYPE_CHECKING:
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.datasets import Datasets
    from torchlint.training.effects import Effects

# What a worker asks to know its share, or draws something of its own from.
DIFFERS = ("torch.utils.data.get_worker_info", "torch.distributed.", "random.", "numpy.random.",
           "torch.rand", "torch.randperm", "torch.multinomial", "os.environ", "os.getpid",
           "itertools.cycle", "time.", "secrets.")  # fmt: skip
BASES = ("typing.", "collections.abc.", "abc.", "builtins.")
SAME = ("builtins.", "csv.", "json.", "gzip.", "itertools.")
HOLDS = (Tensor, Array, Sequence, Dictionary, Text)


def repeats_samples(effects: Effects, datasets: Datasets) -> bool:
    """Whether each worker certainly gives every sample of a dataset.

    The class has to be in the project, with all its bases, and what it goes through has to be seen:
    data of another library may well ask which worker it is in.
    """
    classes = effects.evaluation.classes
    methods = datasets.methods("__iter__")
    if not methods or len(datasets.classes) != len(datasets.found):
        return False
    for cls in datasets.classes:
        others = [base for base in classes.library_bases(cls) if base != ITERABLE]
        if classes.is_open(cls) or any(not base.startswith(BASES) for base in others):
            return False
    return not any(_differs(effects, method) for method in methods) and all(
        _gives_the_same(effects, method) for method in methods
    )


def _differs(effects: Effects, method: At) -> bool:
    """Whether a method, or what it calls, may give something else in another worker.

    It asks for the worker, draws at random, never ends, or takes every n-th sample.
    """
    evaluation = effects.evaluation
    units = {method: None}
    for site, _ in reached(effects, [method]):
        units |= dict.fromkeys(site.targets)
        for one in evaluation.value(site.node.func):
            match one:
                case Library(name=name) | Method(owner=Library(name=name) | Object(kind=name)):
                    if name.startswith(DIFFERS):
                        return True
                    steps = name in ("builtins.range", "itertools.islice")
                    if steps and len(site.node.args) > 2 + (name != "builtins.range"):
                        return True
                    if name == "builtins.range" and len(site.node.args) == 2:
                        return True  # a part of all, perhaps
    for at in units:
        unit = evaluation.units.get(at)
        if unit is None:
            continue
        below, node = unit.module.index.below, unit.node
        if any(isinstance(one.test, cst.Name) for one in below(node, cst.While)):
            return True
        if any(below(node, cst.Modulo)) or any(one.step for one in below(node, cst.Slice)):
            return True
        names = (evaluation.value(name) for name in below(node, cst.Name))
        if any(isinstance(one, Object) and one.kind == RANK for value in names for one in value):
            return True
    return False


def _gives_the_same(effects: Effects, method: At) -> bool:
    """Whether all that a method goes through to give samples is the same in every worker."""
    unit = effects.evaluation.units.get(method)
    if unit is None:
        return False
    index = unit.module.index
    sources = [
        loop.iter for loop in index.below(unit.node, cst.For) if any(index.below(loop, cst.Yield))
    ]
    sources += [one.item for one in index.below(unit.node, cst.From)]
    sources += [one.value for one in index.below(unit.node, cst.Return) if one.value is not None]
    values = [effects.evaluation.value(source) for source in sources]
    return bool(values) and all(value and all(map(_is_same, value)) for value in values)


def _is_same(one: Alternative) -> bool:
    match one:
        case Object(kind=kind):
            return kind.startswith(SAME)
        case Iterator(loader=loader):
            return loader is None
    return isinstance(one, HOLDS)
