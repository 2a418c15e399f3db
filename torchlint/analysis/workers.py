"""Worker processes of a DataLoader: how many, what is sent to them, and when they start."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint.analysis.arguments import Given
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.options import option_default
from torchlint.analysis.uses import is_label, uses_of
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, Binding, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program

_DEPTH = 8
_COUNTS = ("os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count",
           "os.process_cpu_count", "psutil.cpu_count")  # fmt: skip
# What gives options values that are written elsewhere: in a file, or in a dictionary.
_CHANGES_OPTIONS = re.compile(r"set_defaults\(|setattr\(|__dict__|vars\([\w.]+\)(\[|\.update)")


class Workers(enum.Enum):
    """What is known of the number of worker processes of a loader."""

    NONE = enum.auto()
    SOME = enum.auto()  # above 0 wherever it runs
    ASKED = enum.auto()  # above 0 unless the command line or a caller says otherwise
    UNASKED = enum.auto()  # none unless the command line or a caller says otherwise
    UNSURE = enum.auto()


def workers_of(program: Program, loader: cst.Call) -> Workers:
    """Return what is known of the number of workers of a loader."""
    given = program.argument(loader, "num_workers", LOADER)
    if given.given is not Given.YES:
        return Workers.NONE if given.absent else Workers.UNSURE
    return _joined([_count(program, value, 0) for value in given.values])


def _may_change(program: Program, name: str) -> bool:
    """Whether a file gives an option another value: ``args.workers = 4``, or other defaults."""
    stored = any(
        isinstance(program.parent(program.parent(node) or node), cst.AssignTarget | cst.AugAssign)
        for node in program.index.named.get(name, ())
        if is_label(program, node)
    )
    return stored or _CHANGES_OPTIONS.search(program.text) is not None


def _joined(found: list[Workers]) -> Workers:
    """Return what holds of a number that is one of several."""
    kinds = set(found)
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {Workers.SOME, Workers.ASKED}:
        return Workers.ASKED
    return Workers.UNASKED if kinds == {Workers.NONE, Workers.UNASKED} else Workers.UNSURE


def _as_default(found: Workers) -> Workers:
    """Return what is known of a number that is this one where nothing else is given."""
    by_default = {Workers.SOME: Workers.ASKED, Workers.NONE: Workers.UNASKED}
    return by_default.get(found, found)


def _count(program: Program, node: cst.CSTNode | None, depth: int) -> Workers:
    """Tell whether a whole number is above 0."""
    if depth > _DEPTH:
        return Workers.UNSURE
    match node:
        case cst.Integer():
            return Workers.SOME if int(node.value, 0) else Workers.NONE
        case cst.Name():
            return _of_name(program, node, depth + 1)
        case cst.Attribute():
            default = option_default(program, node)
            found = Workers.UNSURE if default is None else _count(*default, depth + 1)
            return _as_default(found)
        case cst.IfExp():
            sides = (node.body, node.orelse)
            return _joined([_count(program, side, depth + 1) for side in sides])
        case cst.BooleanOperation(operator=cst.Or()):
            left, right = (_count(program, side, depth + 1) for side in (node.left, node.right))
            return left if left in (Workers.SOME, Workers.ASKED) else right
        case cst.Call():
            return _of_call(program, node, depth + 1)
        case _:
            return Workers.UNSURE


def _of_name(program: Program, node: cst.Name, depth: int) -> Workers:
    found: list[Workers] = []
    for binding in program.flow.reaching(node):
        match binding.kind, binding.value:
            case Bind.ASSIGN, value if not binding.path:
                found.append(_count(program, value, depth))
            case Bind.PARAMETER, cst.Param() as param:
                found.append(_of_parameter(program, param, depth))
            case _:
                return Workers.UNSURE
    return _joined(found) if found else Workers.UNSURE


def _of_parameter(program: Program, param: cst.Param, depth: int) -> Workers:
    """A parameter is what the calls in the file pass, and what it is where they pass nothing."""
    function = program.parent(program.parent(param) or param)
    passed: list[cst.BaseExpression] = []
    if isinstance(function, cst.FunctionDef):
        passed = program.calls.arguments(function, param)
    nodes = [*passed, *([] if param.default is None else [param.default])]
    found = _joined([_count(program, node, depth) for node in nodes]) if nodes else Workers.UNSURE
    return _as_default(found)


def _of_call(program: Program, node: cst.Call, depth: int) -> Workers:
    name = program.qualified(node.func)
    if name in _COUNTS:
        return Workers.SOME
    args = [arg.value for arg in node.args]
    if not isinstance(node.func, cst.Name) or not program.is_builtin(node.func):
        return Workers.UNSURE
    found = [_count(program, arg, depth) for arg in args]
    match node.func.value:
        case "int" if len(args) == 1:
            return found[0]
        case "len" if len(args) == 1 and _is_affinity(program, args[0]):
            return Workers.SOME
        case "min" if len(args) > 1 and set(found) <= {Workers.SOME, Workers.ASKED}:
            return _joined(found)
        case "max" if Workers.SOME in found:
            return Workers.SOME
        case _:
            return Workers.UNSURE


def _is_affinity(program: Program, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and program.qualified(node.func) == "os.sched_getaffinity"


def is_run(program: Program, loader: cst.Call) -> bool:
    """Whether something may go through a loader: else its workers never start.

    A local variable that only code uses which nothing reaches is gone through nowhere, and so is
    one that nothing reads.
    """
    if program.unreached.at(loader):
        return False
    match program.parent(loader):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            binding = program.index.bound(name)
        case _:
            return True
    if _is_never_read(program, name):
        return False
    if binding is None or binding.scope.kind is not ScopeKind.FUNCTION:
        return True
    uses = list(uses_of(program, binding))
    return not uses or not all(map(program.unreached.at, uses))


def _is_never_read(program: Program, name: cst.Name) -> bool:
    """Whether a file only ever sets a name, and no other file imports it."""
    project, index = program.project, program.index
    if project is None or project.imports.importers(str(program.path)):
        return False
    return all(index.bound(one) is not None for one in index.named[name.value])


# -- what is sent to the workers --------------------------------------------------------------


class Local(NamedTuple):
    """What cannot be pickled: a lambda, or a function or class that is defined in a function."""

    home: Program
    node: cst.CSTNode
    text: str


def unpicklable(program: Program, loader: cst.Call, datasets: tuple[Dataset, ...]) -> Local | None:
    """Return what only forked workers can be given."""
    return next(_unpicklable(program, loader, datasets), None)


def _unpicklable(
    program: Program, loader: cst.Call, datasets: tuple[Dataset, ...]
) -> Iterator[Local]:
    for word in ("collate_fn", "worker_init_fn"):
        for node in program.argument(loader, word, LOADER).values:
            yield from _locals(program, node, 0)
    for dataset in datasets:
        if dataset.owner is not None and dataset.home is not None:
            owner = dataset.owner.node
            if dataset.home.index.scope(owner).kind is not ScopeKind.MODULE:
                yield Local(dataset.home, owner.name, f"class {dataset.owner.name}")
            yield from _stored(dataset)
        for arg in dataset.call.args if dataset.call is not None else ():
            if not _is_used_up(dataset, arg.value):
                yield from _locals(dataset.program, arg.value, 0)


def _is_used_up(dataset: Dataset, given: cst.BaseExpression) -> bool:
    """Whether a dataset only calls an argument as it is made, itself or in a method of its own."""
    made, site = dataset.method("__init__"), dataset.call
    if made is None or site is None:
        return False
    home, function = made
    for param in (*function.params.params, *function.params.kwonly_params):
        if home.calls.passed(function, param, site) is given:
            uses = [
                use
                for use in home.index.below(function.body, cst.Name)
                if use.value == param.name.value and not is_label(home, use)
            ]
            return bool(uses) and all(_is_only_called(home, use) for use in uses)
    return False


def _is_only_called(home: Program, use: cst.Name) -> bool:
    """``name_of(x)``, ``self._list(root, name_of)``."""
    match home.parent(use):
        case cst.Call(func=func) if func is use:
            return True
        case cst.Arg() as arg:
            call = home.parent(arg)
            return (
                isinstance(call, cst.Call)
                and isinstance(call.func, cst.Attribute)
                and isinstance(call.func.value, cst.Name)
                and call.func.value.value == "self"
            )
        case _:
            return False


def _stored(dataset: Dataset) -> Iterator[Local]:
    """Yield what a dataset's own methods keep in it that cannot be pickled."""
    for home, one in dataset.lineage():
        for stores in one.stores.values():
            for store in stores:
                if isinstance(store.value, cst.Lambda | cst.Call):
                    yield from _locals(home, store.value, 0)


def _locals(program: Program, node: cst.CSTNode, depth: int) -> Iterator[Local]:
    """Yield the lambdas and local functions that an expression is, or keeps."""
    if depth > _DEPTH:
        return
    inner: list[cst.BaseExpression] = []
    match node:
        case cst.Lambda():
            yield Local(program, node, program.brief(node))
        case cst.Name():
            yield from _named_locals(program, node, depth)
        case cst.List() | cst.Tuple():
            inner = [element.value for element in node.elements]
        case cst.IfExp():
            inner = [node.body, node.orelse]
        case cst.Call() if dotted(node.func).rpartition(".")[2][:1].isupper():
            inner = [arg.value for arg in node.args]  # a class, whose instance keeps them
        case _:
            pass
    for one in inner:
        yield from _locals(program, one, depth + 1)


def _named_locals(program: Program, node: cst.Name, depth: int) -> Iterator[Local]:
    for binding in program.flow.reaching(node):
        match binding.kind, binding.value:
            case Bind.DEFINITION, _:
                if binding.scope.kind is ScopeKind.FUNCTION:
                    yield Local(program, binding.node, node.value)
            case Bind.ASSIGN, value if value is not None and not binding.path:
                yield from _locals(program, value, depth + 1)
            case _:
                pass


# -- when they start --------------------------------------------------------------------------


def start_method(program: Program, loader: cst.Call) -> str:
    """Return how the workers of a loader are started: "" for Python's way, "unknown"."""
    given = program.argument(loader, "multiprocessing_context", LOADER).values
    sets = (call for call, _ in program.method_calls("set_start_method") if call.args)
    asked = list(given) or [call.args[0].value for call in sets]
    named = {_method_named(program, node) for node in asked}
    return "" if not named else named.pop() if len(named) == 1 else "unknown"


def _method_named(program: Program, node: cst.CSTNode | None) -> str:
    """Return the start method that ``"spawn"`` or ``get_context("spawn")`` names."""
    if isinstance(node, cst.Name):
        match program.flow.reaching(node):
            case (Binding(is_plain=True, value=value),):
                node = value
            case _:
                return "unknown"
    if isinstance(node, cst.Call) and dotted(node.func).endswith("get_context") and node.args:
        node = node.args[0].value
    return literal(node) or "unknown"


def started_by_import(program: Program, node: cst.CSTNode) -> tuple[Program, cst.CSTNode] | None:
    """Return the node at the level of a module that makes an import run another, with its file."""
    return _on_import(program, node, frozenset())


def _on_import(
    program: Program, node: cst.CSTNode, way: frozenset[int]
) -> tuple[Program, cst.CSTNode] | None:
    child = node
    for above in program.index.ancestors(node):
        match above:
            case cst.If() if child is not above.test and _asks_for_main(program, above):
                return None
            case cst.FunctionDef() if child is above.body:
                if id(above) in way or len(way) > _DEPTH:
                    return None
                sites = program.sites_everywhere(above)
                found = (_on_import(*site, way | {id(above)}) for site in sites)
                return next((one for one in found if one is not None), None)
            case cst.Lambda():
                return None
            case _:
                child = above
    return program, node


def _asks_for_main(program: Program, node: cst.If) -> bool:
    return any(name.value == "__name__" for name in program.index.below(node.test, cst.Name))
