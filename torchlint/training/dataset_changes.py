"""Whether what repeats the passes over a loader changes its dataset in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Function, Instance, Library, Method, Object, Unknown
from torchlint.syntax.chains import dotted, root_of
from torchlint.training.loader_uses import loaders_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import At, Value
    from torchlint.syntax.index import Index
    from torchlint.training.effects import Effects
    from torchlint.training.loaders import Loader

MOST = 60  # functions that a loop is followed into
DEEPEST = 4  # methods that call methods
# Methods of containers and arrays that change them.
CHANGING = frozenset(
    """append extend insert remove pop popitem popleft clear add discard update setdefault sort
    reverse shuffle fill""".split()
)
SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle"})


def changes_dataset(
    effects: Effects, loader: Loader, loop: cst.CSTNode, file: int, *others: str
) -> bool:
    """Whether the turns of a loop, or what they call, change the dataset of a loader.

    ``others`` are parameters of which that is asked as well: its sampler.
    """
    return any(
        changes.in_node(node, home)
        for changes in (_Changes(effects, loader, word) for word in ("dataset", *others))
        for body, home in _run_in(effects, loop, file)
        for node in body
    )


def _run_in(
    effects: Effects, loop: cst.CSTNode, file: int
) -> Iterator[tuple[list[cst.CSTNode], int]]:
    """Yield the nodes of a loop and of the functions that it calls, each with their file."""
    evaluation = effects.evaluation
    index = evaluation.index(file)
    yield _nodes(index, getattr(loop, "body", loop)), file
    waiting = [
        target
        for sites in effects.sites.values()
        for site in sites
        if any(one is loop for one in site.loops)
        for target in site.targets
    ]
    seen: set[At] = set()
    while waiting and len(seen) < MOST:
        at = waiting.pop(0)
        unit = evaluation.units.get(at)
        if at in seen or unit is None or isinstance(unit.node, cst.Module):
            continue
        seen.add(at)
        cls = evaluation.class_around(unit)
        if cls is not None and evaluation.classes.kind(cls.at) == "dataset":
            continue  # what it does is asked of the method where it is called
        yield _nodes(unit.module.index, unit.node.body), at.file
        waiting += [target for site in effects.sites.get(at, ()) for target in site.targets]


def _nodes(index: Index, node: cst.CSTNode) -> list[cst.CSTNode]:
    return index.nodes[index.order(node) : index.end(node)]


@dataclass(slots=True, eq=False)
class _Changes:
    """What is a change of the dataset of a loader, or of what else it was given."""

    effects: Effects
    loader: Loader
    word: str

    def value(self, node: cst.CSTNode) -> Value:
        return self.effects.evaluation.value(node)

    def in_node(self, node: cst.CSTNode, file: int) -> bool:
        """Whether a node by itself changes the dataset."""
        match node:
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                holder = _holder(target)
                return holder is not None and self._is_inside(holder, file)
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name)) as func):
                if self._is_dataset(owner, file):
                    return self._may_change(node, func, file)
                if name in CHANGING and self._is_inside(owner, file):
                    return True
        if isinstance(node, cst.Call) and _shuffles(self.value(node.func)):
            return any(self._is_inside(arg.value, file) for arg in node.args)
        return False

    def _is_inside(self, node: cst.BaseExpression, file: int) -> bool:
        """Whether an expression is the dataset, or something in it: ``data.files[0]``."""
        while True:
            if self._is_dataset(node, file):
                return True
            if not isinstance(node, (cst.Attribute, cst.Subscript)):
                return False
            node = node.value

    def _is_dataset(self, node: cst.BaseExpression, file: int) -> bool:
        """Whether an expression may be the dataset."""
        given = self.loader.arguments.get(self.word)
        if given is None:
            return False
        known = [one for one in given.value if isinstance(one, (Instance, Object)) and one.call]
        value = self.value(node)
        if any(one in known for one in value):
            return True
        match node:
            case cst.Attribute(value=inner, attr=cst.Name(value=name)) if name == self.word:
                return self.loader.at in loaders_in(self.value(inner))
        if known or given.node is None or file != self.loader.at.file:
            return False
        index = self.effects.evaluation.index(file)
        name = dotted(node)
        root = root_of(node)
        other = root_of(given.node)
        return (
            bool(name)
            and name == dotted(given.node)
            and isinstance(root, cst.Name)
            and isinstance(other, cst.Name)
            and index.scope(root).owner(root.value) is index.scope(other).owner(other.value)
        )

    def _may_change(self, call: cst.Call, func: cst.Attribute, file: int) -> bool:
        """Whether a method of the dataset changes it; one that is not seen, as a statement."""
        module = self.effects.evaluation.module(file)
        value = self.value(func)
        functions = [one for one in value if isinstance(one, Function)]
        if functions:
            return any(_mutates(self.effects, one.at, 0) for one in functions)
        is_open = not value or any(isinstance(one, (Unknown, Method)) for one in value)
        return is_open and isinstance(module.parent(call), cst.Expr)


def _holder(target: cst.BaseAssignTargetExpression) -> cst.BaseExpression | None:
    """Return what a store changes: ``x`` of ``x.name = value`` and ``x[0] = value``."""
    return target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else None


def _shuffles(value: Value) -> bool:
    return any(isinstance(one, Library) and one.name in SHUFFLES for one in value)


def _mutates(effects: Effects, at: At, depth: int) -> bool:
    """Whether a method changes the object that it is of, itself or by others."""
    unit = effects.evaluation.units.get(at)
    if unit is None or not isinstance(unit.node, cst.FunctionDef) or not unit.node.params.params:
        return False
    own, index = unit.node.params.params[0].name.value, unit.module.index

    def is_own(node: cst.BaseExpression | None) -> bool:
        root = None if node is None else root_of(node, subscripts=True)
        return isinstance(root, cst.Name) and root.value == own

    for node in _nodes(index, unit.node.body):
        match node:
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                if is_own(_holder(target)):
                    return True
            case cst.Call(func=func, args=args):
                called = effects.evaluation.value(func)
                if _shuffles(called) and any(is_own(arg.value) for arg in args):
                    return True
                if not (isinstance(func, cst.Attribute) and is_own(func.value)):
                    continue
                if func.attr.value in CHANGING and not isinstance(func.value, cst.Name):
                    return True
                methods = [one.at for one in called if isinstance(one, Function)]
                if depth < DEEPEST and any(_mutates(effects, one, depth + 1) for one in methods):
                    return True
    return False
