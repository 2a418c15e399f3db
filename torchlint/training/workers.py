"""Worker processes that are not forked: what cannot be sent to them, and what imports start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Function, Instance, Library, Object, Sequence, Text
from torchlint.syntax.scopes import ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.syntax.index import Index
    from torchlint.training.loaders import Loader

DEEPEST = 8  # objects that hold others
CONTEXT = ("multiprocessing.get_context", "torch.multiprocessing.get_context")
SETS = ("multiprocessing.set_start_method", "torch.multiprocessing.set_start_method")
# Objects of libraries that keep the functions they are given.
KEEPERS = ("torchvision.", "functools.partial")


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What cannot be pickled: a lambda, or what is defined in a function."""

    node: cst.CSTNode
    file: int
    text: str


def unpicklable(evaluation: Evaluation, loader: Loader) -> Local | None:
    """Return the first thing that only forked workers can be given."""
    for word in ("dataset", "collate_fn", "worker_init_fn"):
        for found in _locals(evaluation, loader.value(word), frozenset()):
            return found
    return None


def _locals(evaluation: Evaluation, value: Value, way: frozenset[Alternative]) -> Iterator[Local]:
    for one in value if len(way) < DEEPEST else ():
        if one in way:
            continue
        match one:
            case Function(at=at, owner=None):
                yield from _local(evaluation, at)
            case Instance(cls=cls):
                yield from _local(evaluation, cls)
                homes = {each.at for each in evaluation.classes.lineage(cls)}
                for (owner, _), cell in evaluation.attributes.items():
                    if owner in homes:
                        yield from _locals(evaluation, cell.value, way | {one})
            case Sequence(elements=elements, element=element):
                for part in (*(elements or ()), element):
                    yield from _locals(evaluation, part, way | {one})
            case Object(kind=kind, call=call) if call is not None and kind.startswith(KEEPERS):
                node = evaluation.node(call)
                assert isinstance(node, cst.Call)
                for arg in node.args:
                    given = evaluation.value(arg.value)
                    yield from _locals(evaluation, given, way | {one})


def _local(evaluation: Evaluation, at: At) -> Iterator[Local]:
    """Yield a function or class that has no name at the level of a module."""
    module, node = evaluation.module(at.file), evaluation.node(at)
    if isinstance(node, cst.Lambda):
        yield Local(node, at.file, module.brief(node))
        return
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    scope = module.index.scope(node)
    if scope.kind is ScopeKind.FUNCTION:
        what = "class " if isinstance(node, cst.ClassDef) else ""
        yield Local(node.name, at.file, f"{what}{node.name.value}")


def start_method(evaluation: Evaluation, loader: Loader) -> str:
    """Return how the workers of a loader are started: "" for Python's way, "unknown"."""
    values = [loader.value("multiprocessing_context")]
    if not values[0]:
        values = [
            evaluation.value(call.args[0].value)
            for call in _calls_of(evaluation, SETS)
            if call.args
        ]
    named = {_named(evaluation, one) for value in values for one in value}
    return "" if not named else named.pop() if len(named) == 1 else "unknown"


def _calls_of(evaluation: Evaluation, names: tuple[str, ...]) -> Iterator[cst.Call]:
    for module in evaluation.files.modules:
        if any(name.rpartition(".")[2] in module.index.named for name in names):
            for call in module.index.of(cst.Call):
                value = evaluation.value(call.func)
                if any(isinstance(one, Library) and one.name in names for one in value):
                    yield call


def _named(evaluation: Evaluation, one: Alternative) -> str:
    """Return the start method that ``"spawn"`` or ``get_context("spawn")`` names."""
    match one:
        case Text(value=str(name)):
            return name
        case Object(kind=kind, call=call) if kind in CONTEXT and call is not None:
            node = evaluation.node(call)
            assert isinstance(node, cst.Call)
            match evaluation.value(node.args[0].value) if node.args else ():
                case (Text(value=str(name)),):
                    return name
    return "unknown"


def started_by_import(
    evaluation: Evaluation, node: cst.CSTNode, file: int
) -> tuple[cst.CSTNode, int] | None:
    """Return what makes an import run a node, at the level of a module, with its file.

    Workers that are not forked import the file again, which must not start the training anew.
    """
    return _on_import(evaluation, node, file, frozenset())


def _on_import(
    evaluation: Evaluation, node: cst.CSTNode, file: int, way: frozenset[int]
) -> tuple[cst.CSTNode, int] | None:
    module, child = evaluation.module(file), node
    for above in module.index.ancestors(node):
        match above:
            case cst.If() if child is above.body and _asks_for_main(module.index, above):
                return None
            case cst.FunctionDef() if child is above.body:
                if id(above) in way or len(way) > DEEPEST * 2:
                    return None
                for unit, call in evaluation.callers(evaluation.at(above, file)):
                    found = _on_import(evaluation, call, unit.at.file, way | {id(above)})
                    if found is not None:
                        return found
                return None
            case cst.Lambda():
                return None
        child = above
    return node, file


def _asks_for_main(index: Index, node: cst.If) -> bool:
    return any(name.value == "__name__" for name in index.below(node.test, cst.Name))
