"""Worker processes: what cannot be sent to them, what imports start, which samples they repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.values import (
    Array,
    Dictionary,
    Function,
    Instance,
    Iterator,
    Object,
    Sequence,
    Tensor,
    Text,
)
from torchlint.syntax.scopes import ScopeKind
from torchlint.training.datasets import ITERABLE, run_by

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.datasets import Datasets
    from torchlint.training.loaders import Loader

DEEPEST = 16  # calls
# Objects of libraries that keep the functions they are given.
KEEPERS = ("torchvision.", "functools.partial")
# What a worker asks to know its share, or draws something of its own from.
DIFFERS = tuple(
    """torch.utils.data.get_worker_info torch.distributed. random. numpy.random. torch.rand
    torch.multinomial os.environ os.getpid itertools.cycle itertools.islice time. secrets.
    """.split()
)
BASES = (ITERABLE, "typing.", "collections.abc.", "abc.", "builtins.")
SAME = ("builtins.", "csv.", "json.", "gzip.", "itertools.")
HOLDS = (Tensor, Array, Sequence, Dictionary, Text)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What cannot be pickled: a lambda, or what is defined in a function."""

    node: cst.CSTNode
    file: int
    text: str


def unpicklable(evaluation: Evaluation, loader: Loader) -> Local | None:
    """Return the first thing that only forked workers can be given."""
    words = ("dataset", "collate_fn", "worker_init_fn")
    waiting = [one for word in words for one in flat(loader.value(word))]
    seen: set[Alternative] = set()
    for one in waiting:
        inner: list[Value] = []
        match one if one not in seen else None:
            case Function(at=at, owner=None) | Instance(cls=at):
                if local := _local(evaluation, at):
                    return local
                homes = {each.at for each in evaluation.classes.lineage(at)}
                cells = evaluation.attributes.items()
                inner = [cell.value for (owner, _), cell in cells if owner in homes]
            case Object(kind=kind, call=call) if call and kind.startswith(KEEPERS):
                node = evaluation.node(call)
                assert isinstance(node, cst.Call)
                inner = [evaluation.value(arg.value) for arg in node.args]
        seen.add(one)
        waiting += [each for value in inner for each in flat(value)]
    return None


def _local(evaluation: Evaluation, at: At) -> Local | None:
    """Return a function or class that has no name at the level of a module."""
    module, node = evaluation.module(at.file), evaluation.node(at)
    if isinstance(node, cst.Lambda):
        return Local(node, at.file, module.brief(node))
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    what = "class " if isinstance(node, cst.ClassDef) else ""
    is_local = module.index.scope(node).kind is ScopeKind.FUNCTION
    return Local(node.name, at.file, f"{what}{node.name.value}") if is_local else None


def started_by_import(
    evaluation: Evaluation, node: cst.CSTNode, file: int, way: frozenset[int] = frozenset()
) -> tuple[cst.CSTNode, int] | None:
    """Return what makes an import run a node, at the level of a module, with its file.

    Workers that are not forked import the file again, which must not start the training anew.
    """
    index = evaluation.index(file)
    for above, child in evaluation.index(file).climb(node):
        match above:
            case cst.If(test=test) if child is above.body:
                if any(name.value == "__name__" for name in index.below(test, cst.Name)):
                    return None
            case cst.FunctionDef() if child is above.body:
                if id(above) in way or len(way) > DEEPEST:
                    return None
                calls = evaluation.callers(evaluation.at(above, file))
                ways = (
                    started_by_import(evaluation, call, unit.at.file, way | {id(above)})
                    for unit, call in calls
                )
                return next((one for one in ways if one), None)
            case cst.Lambda():
                return None
    return node, file


def repeats_samples(datasets: Datasets) -> bool:
    """Whether each worker certainly gives every sample of an `IterableDataset`.

    The class has to be in the project, with all its bases, and what it goes through has to be seen:
    data of another library may well ask which worker it is in.
    """
    evaluation, classes = datasets.evaluation, datasets.evaluation.classes
    methods = datasets.methods("__iter__")
    if not methods or len(datasets.classes) != len(datasets.found):
        return False
    for cls in datasets.classes:
        others = [one for one in classes.library_bases(cls) if not one.startswith(BASES)]
        if others or classes.is_open(cls):
            return False
    return not any(_differs(evaluation, at) for at in run_by(datasets.effects, methods)) and all(
        _gives_the_same(evaluation, method) for method in methods
    )


def _differs(evaluation: Evaluation, function: At) -> bool:
    """Whether a function may do something else in another worker.

    It asks for the worker, draws at random, never ends, or takes a part or every n-th sample.
    """
    unit = evaluation.units.get(function)
    if unit is None:
        return False
    below, node = unit.module.index.below, unit.node
    for call in below(node, cst.Call):
        name = evaluation.library(call.func)
        if name.startswith(DIFFERS) or (name == "builtins.range" and len(call.args) > 1):
            return True
    steps = (one.step for one in below(node, cst.Slice))
    return any(below(node, cst.While)) or any(below(node, cst.Modulo)) or any(steps)


def _gives_the_same(evaluation: Evaluation, method: At) -> bool:
    """Whether all that a method goes through to give samples is the same in every worker."""
    node, below = evaluation.node(method), evaluation.index(method.file).below
    loops = [loop.iter for loop in below(node, cst.For) if any(below(loop, cst.Yield))]
    sources = [*loops, *(one.item for one in below(node, cst.From))]
    sources += [one.value for one in below(node, cst.Return) if one.value is not None]
    values = [evaluation.value(source) for source in sources]
    return bool(values) and all(value and all(map(_is_same, value)) for value in values)


def _is_same(one: Alternative) -> bool:
    is_read = isinstance(one, Object) and one.kind.startswith(SAME)
    return is_read or isinstance(one, HOLDS) or (isinstance(one, Iterator) and not one.loader)
