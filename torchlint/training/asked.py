"""Of what are gradients asked: what each backward goes back through, by reaching definitions.

Autograd goes back from the tensor that `backward()` is called on.  So does this: from there to the
names that it was computed of, to what those were given, through functions, attributes and
containers, until something is detached or is no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.definitions import parameters
from torchlint.semantics.tables.tensors import DETACHED, READS
from torchlint.semantics.values import (
    Array,
    Dictionary,
    Function,
    Nothing,
    Number,
    Place,
    Sequence,
    Tensor,
    Text,
    Truth,
)
from torchlint.syntax.calls import last_name
from torchlint.syntax.scopes import Bind
from torchlint.training.effects import BACKWARDS, Effect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.effects import Effects

GOES_BACK = frozenset({Effect.BACKWARD, Effect.GRAD})
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_PARTS = (cst.BaseExpression, cst.BaseElement, cst.BaseDictElement)
NO_TENSORS = (Array, Number, Truth, Text, Nothing, Place)
_STOPS = DETACHED | READS | {"data", "shape", "device", "dtype"}


@dataclass(eq=False)
class Asked:
    """The expressions that gradients are asked of, each with its file, and the runs of models."""

    evaluation: Evaluation
    effects: Effects
    nodes: dict[int, tuple[cst.CSTNode, int]] = field(default_factory=dict)
    graph: set[At] = field(default_factory=set)
    _waiting: list[tuple[cst.CSTNode, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for unit, sites in sorted(self.effects.sites.items()):
            for site in sites:
                if site.effects & GOES_BACK or last_name(site.node.func) in BACKWARDS:
                    self._root(site.node, unit.file)
        while self._waiting:
            self._follow(*self._waiting.pop())

    def of(self, node: cst.CSTNode, file: int) -> bool:
        """Whether a gradient of an expression may be asked."""
        return id(node) in self.nodes or self.evaluation.at(node, file) in self.graph

    def _root(self, call: cst.Call, file: int) -> None:
        parts = [arg.value for arg in call.args]
        if isinstance(call.func, cst.Attribute):
            parts.append(call.func.value)
        for part in parts:
            self._add(part, file)
            for one in self.evaluation.value(part):
                if isinstance(one, Tensor):
                    self.graph.update(one.graph)

    def _add(self, node: cst.CSTNode | None, file: int) -> None:
        if node is not None and id(node) not in self.nodes:
            self.nodes[id(node)] = node, file
            self._waiting.append((node, file))

    # -- one step back -----------------------------------------------------------------------

    def _follow(self, node: cst.CSTNode, file: int) -> None:
        value = self.evaluation.value(node)
        if value and all(map(_is_no_tensor, value)):
            return
        for one in value:
            if isinstance(one, (Sequence, Dictionary)) and one.made is not None:
                self._put_into(one.made)
        match node:
            case cst.Name():
                for source, home in sources(self.evaluation, node, file):
                    self._add(source, home)
            case cst.Attribute(value=inner, attr=attr):
                if attr.value not in _STOPS:
                    self._add(inner, file)
                    for stored, _, home in self.stores.get(attr.value, ()):
                        self._add(stored, home)
            case cst.Call():
                self._called(node, file)
            case _:
                for child in self.evaluation.index(file).children(node):
                    if isinstance(child, _PARTS):
                        self._add(child, file)

    def _called(self, call: cst.Call, file: int) -> None:
        func, units = call.func, self.evaluation.units
        if last_name(func) in _STOPS:
            return
        value = self.evaluation.value(func)
        seen = [units[one.at] for one in value if isinstance(one, Function) and one.at in units]
        for unit in seen:
            self._given_back(unit)
        if not seen or len(seen) < len(value):
            for arg in call.args:
                self._add(arg.value, file)
            self._add(func.value if isinstance(func, cst.Attribute) else func, file)

    def _given_back(self, unit: Unit) -> None:
        """Go on with what a function returns and yields."""
        if isinstance(unit.node, cst.Lambda):
            self._add(unit.node.body, unit.at.file)
            return
        index = unit.module.index
        for kind in (cst.Return, cst.Yield):
            for node in index.below(unit.node, kind):
                value: cst.CSTNode | None = node.value  # type: ignore[attr-defined]
                if next(one for one in index.ancestors(node) if isinstance(one, _FUNCTIONS)) is (
                    unit.node
                ):
                    self._add(value.item if isinstance(value, cst.From) else value, unit.at.file)

    # -- what attributes and containers were given -------------------------------------------

    @cached_property
    def stores(self) -> dict[str, list[tuple[cst.BaseExpression, cst.Attribute, int]]]:
        """What is assigned to attributes, by their names."""
        found: dict[str, list[tuple[cst.BaseExpression, cst.Attribute, int]]] = {}
        for one, file in self.evaluation.files.of(*ASSIGNS):
            for value, target in assignments(one):
                if isinstance(target, cst.Attribute):
                    found.setdefault(target.attr.value, []).append((value, target, file))
        return found

    def _put_into(self, made: At) -> None:
        """Go on with what a container was given later."""
        for cell in self.evaluation.later(made).values():
            for giver in cell.given:
                if not isinstance(giver, str):
                    node = self.evaluation.node(giver)
                    if not isinstance(node, cst.Call):
                        node = self.evaluation.module(giver.file).smallest_statement(node)
                    given = [arg.value for arg in getattr(node, "args", ())]
                    for one in given or [getattr(node, "value", None)]:
                        self._add(one, giver.file)


def sources(
    evaluation: Evaluation, name: cst.Name, file: int
) -> Iterator[tuple[cst.BaseExpression, int]]:
    """Yield what a name may be given where it stands, or be a part of, each with its file."""
    found = evaluation.bindings(name)
    if not found:
        owner = evaluation.index(file).scope(name).owner(name.value)
        found = tuple(owner.bindings.get(name.value, ())) if owner else ()
    for binding in found:
        match binding.kind, binding.value:
            case Bind.ASSIGN | Bind.REST, cst.Tuple(elements=elements) if (
                binding.path and 0 <= binding.path[0] < len(elements)
            ):
                yield elements[binding.path[0]].value, file
            case Bind.AUGMENT, cst.AugAssign(value=value, target=target):
                yield value, file
                yield target, file
            case Bind.PARAMETER, cst.Param(name=param) as node:
                above = evaluation.index(file).ancestors(node)
                function = next(one for one in above if isinstance(one, _FUNCTIONS))
                unit = evaluation.units[evaluation.at(function, file)]
                for caller, call in unit.callers.values():
                    for one in passed_to(evaluation, unit, call, param.value):
                        yield one, caller.at.file
            case ((Bind.ASSIGN | Bind.REST | Bind.FOR | Bind.WITH), cst.BaseExpression() as value):
                yield value, file


def passed_to(
    evaluation: Evaluation, unit: Unit, call: cst.Call, name: str
) -> list[cst.BaseExpression]:
    """Return the expressions that a call passes for a parameter of a function."""
    assert not isinstance(unit.node, cst.Module)
    names = [param.name.value for param in parameters(unit.node)]
    is_plain = any(
        isinstance(one, Function) and one.owner is None for one in evaluation.value(call.func)
    )
    is_method = evaluation.class_around(unit) is not None and not is_plain
    found = given_to(evaluation, call, names[is_method:])[0].get(name)
    if found is not None and found.node is not None:
        return [found.node]
    if found is None and name in names:
        return []
    return [arg.value for arg in call.args if arg.star or name not in names]


ASSIGNS: tuple[type[cst.BaseSmallStatement], ...] = (cst.Assign, cst.AugAssign, cst.AnnAssign)


def assignments(one: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield what a statement assigns with the targets that get it, unpacked ones too."""
    match one:
        case cst.Assign(value=value, targets=targets):
            for each in targets:
                yield from _paired(value, each.target)
        case cst.AugAssign(value=value, target=target) | cst.AnnAssign(value=value, target=target):
            if value is not None:
                yield value, target


def _paired(
    value: cst.BaseExpression, target: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    if not isinstance(target, (cst.Tuple, cst.List)):
        yield value, target
        return
    values = value.elements if isinstance(value, cst.Tuple) else ()
    for place, element in enumerate(target.elements):
        inner = values[place].value if len(values) == len(target.elements) else value
        yield from _paired(inner, element.value)


def _is_no_tensor(one: Alternative) -> bool:
    return isinstance(one, NO_TENSORS) or (
        isinstance(one, Tensor) and one.dtype in ("bool", "int") and not one.graph
    )
