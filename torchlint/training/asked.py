"""Of what are gradients asked: what each backward goes back through, by reaching definitions.

Autograd goes back from the tensor that `backward()` is called on.  So does this: from there to the
names that it was computed of, to what those were given, through functions, attributes and
containers, until something is detached or is no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import bound, passed_with
from torchlint.semantics.definitions import parameters
from torchlint.semantics.tables.tensors import DETACHED, READS
from torchlint.semantics.values import (
    Array,
    Dictionary,
    Function,
    Instance,
    Library,
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
from torchlint.training.keeping import keeps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.syntax.scopes import Binding
    from torchlint.training.effects import Effects

_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_NO_TENSORS = (Array, Number, Truth, Text, Nothing, Place)
_STOPS = DETACHED | READS | {"data", "shape", "device", "dtype"}
_GRADIENTS = frozenset({Effect.BACKWARD, Effect.GRAD})


@dataclass(slots=True, eq=False)
class Asked:
    """The expressions that gradients are asked of, by identity, and the runs of models in them."""

    evaluation: Evaluation
    effects: Effects
    nodes: dict[int, cst.CSTNode] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    graph: set[At] = field(default_factory=set)
    _named: dict[str, list[cst.CSTNode]] = field(default_factory=dict)
    _waiting: list[tuple[cst.CSTNode, int]] = field(default_factory=list)
    _stores: dict[str, list[tuple[cst.BaseExpression, cst.Attribute, int]]] | None = None

    def __post_init__(self) -> None:
        for unit, sites in sorted(self.effects.sites.items()):
            for site in sites:
                func = site.node.func
                name = last_name(func)
                if site.effects & _GRADIENTS or name in BACKWARDS:
                    self._root(site.node, unit.file)
        for own in self.evaluation.units.values():
            if self._is_loss(own):
                for node in _given_back(own):
                    self._add(node, own.at.file)
        while self._waiting:
            self._follow(*self._waiting.pop())

    def of(self, node: cst.CSTNode, file: int) -> bool:
        """Whether a gradient of an expression may be asked."""
        return id(node) in self.nodes or self.evaluation.at(node, file) in self.graph

    def reads(self, node: cst.BaseExpression) -> list[cst.CSTNode]:
        """Return the reads that gradients are asked of, of what ends in the same word."""
        return self._named.get(_word(node), [])

    def _root(self, call: cst.Call, file: int) -> None:
        parts = [arg.value for arg in call.args]
        if isinstance(call.func, cst.Attribute):
            parts.append(call.func.value)
        for part in parts:
            self._add(part, file)
            for one in self.evaluation.value(part):
                if isinstance(one, Tensor):
                    self.graph.update(one.graph)

    def _is_loss(self, unit: Unit) -> bool:
        """Whether a framework calls backward on what a function gives."""
        cls = self.evaluation.class_around(unit)
        if cls is None or not isinstance(unit.node, cst.FunctionDef):
            return False
        hook = self.evaluation.classes.hook(cls.at, unit.node.name.value)
        return hook is not None and hook.rate == "step"

    def _add(self, node: cst.CSTNode | None, file: int) -> None:
        if node is not None and id(node) not in self.nodes:
            self.nodes[id(node)], self.files[id(node)] = node, file
            word = _word(node)
            if word:
                self._named.setdefault(word, []).append(node)
            self._waiting.append((node, file))

    # -- one step back -----------------------------------------------------------------------

    def _follow(self, node: cst.CSTNode, file: int) -> None:
        value: Value = self.evaluation.value(node)
        if value and all(_is_no_tensor(one) for one in value):
            return
        self._kept_in(value)
        match node:
            case cst.Name():
                for binding in self._bindings(node, file):
                    self._bound(binding, file)
            case cst.Attribute(value=inner, attr=attr):
                if attr.value not in _STOPS:
                    self._add(inner, file)
                    self._stored(node)
            case cst.Call():
                self._called(node, file)
            case cst.Lambda() | cst.Comparison():
                pass
            case cst.IfExp(body=body, orelse=orelse):
                self._add(body, file)
                self._add(orelse, file)
            case cst.Subscript(value=inner):
                self._add(inner, file)
            case cst.NamedExpr(value=inner):
                self._add(inner, file)
            case _:
                for child in self.evaluation.index(file).children(node):
                    if isinstance(
                        child, (cst.BaseExpression, cst.BaseElement, cst.BaseDictElement)
                    ):
                        self._add(child, file)

    def _bindings(self, node: cst.Name, file: int) -> tuple[Binding, ...]:
        found = self.evaluation.reaching.get(id(node))
        if found:
            return found
        owner = self.evaluation.index(file).scope(node).owner(node.value)
        return tuple(owner.bindings.get(node.value, ())) if owner else ()

    def _bound(self, binding: Binding, file: int) -> None:
        value = binding.value
        match binding.kind, value:
            case Bind.ASSIGN | Bind.REST, cst.Tuple(elements=elements) if (
                binding.path and 0 <= binding.path[0] < len(elements)
            ):
                self._add(elements[binding.path[0]].value, file)
            case Bind.AUGMENT, cst.AugAssign():
                self._add(value.value, file)
                self._add(value.target, file)
            case Bind.PARAMETER, cst.Param():
                self._passed(value, file)
            case ((Bind.ASSIGN | Bind.REST | Bind.FOR | Bind.WITH), _):
                self._add(value, file)

    def _passed(self, param: cst.Param, file: int) -> None:
        """Go on with what callers pass; such a call is asked as well, through what it keeps."""
        index = self.evaluation.index(file)
        function = next(one for one in index.ancestors(param) if isinstance(one, _FUNCTIONS))
        unit = self.evaluation.units[self.evaluation.at(function, file)]
        for caller, call in unit.callers.values():
            if unit.is_module_method and keeps(self.evaluation, unit):
                self._add(call, caller.at.file)
            for node in passed_to(self.evaluation, unit, call, param.name.value):
                self._add(node, caller.at.file)

    def _called(self, call: cst.Call, file: int) -> None:
        func = call.func
        if last_name(func) in _STOPS:
            return
        value = self.evaluation.value(func)
        is_seen = bool(value)
        for one in value:
            match one:
                case Function(at=at) if unit := self.evaluation.units.get(at):
                    for node in _given_back(unit):
                        self._add(node, at.file)
                case Library(name=name) if name.rpartition(".")[2] in _STOPS or name.startswith(
                    ("builtins.float", "builtins.int", "builtins.len", "numpy.")
                ):
                    pass
                case _:
                    is_seen = False
        if not is_seen:
            for arg in call.args:
                self._add(arg.value, file)
            self._add(func.value if isinstance(func, cst.Attribute) else func, file)

    # -- what attributes and containers were given -------------------------------------------

    def _stored(self, node: cst.Attribute) -> None:
        owners = {one.cls for one in self.evaluation.value(node.value)
                  if isinstance(one, Instance)}  # fmt: skip
        for value, target, file in self.stores.get(node.attr.value, ()):
            others = {one.cls for one in self.evaluation.value(target.value)
                      if isinstance(one, Instance)}  # fmt: skip
            if not owners or not others or self._are_related(owners, others):
                self._add(value, file)

    def _are_related(self, some: set[At], others: set[At]) -> bool:
        lineage = self.evaluation.classes.lineage
        return any(
            {one.at for one in lineage(a)} & {one.at for one in lineage(b)}
            for a in some
            for b in others
        )

    @property
    def stores(self) -> dict[str, list[tuple[cst.BaseExpression, cst.Attribute, int]]]:
        """What is assigned to attributes, by their names."""
        if self._stores is None:
            self._stores = {}
            for file, module in enumerate(self.evaluation.files.modules):
                pairs = list(assignments(module.index.of(cst.Assign)))
                pairs += [(one.value, one.target) for one in module.index.of(cst.AugAssign)]
                pairs += [(one.value, one.target) for one in module.index.of(cst.AnnAssign)
                          if one.value is not None]  # fmt: skip
                for value, target in pairs:
                    if isinstance(target, cst.Attribute):
                        found = self._stores.setdefault(target.attr.value, [])
                        found.append((value, target, file))
        return self._stores

    def _kept_in(self, value: Value) -> None:
        """Go on with what containers were given later."""
        for one in value:
            if isinstance(one, (Sequence, Dictionary)) and one.made is not None:
                self._add(self.evaluation.node(one.made), one.made.file)
                cells = [self.evaluation.elements(one.made)]
                cells += self.evaluation.entries_later(one.made).values()
                for cell in cells:
                    for giver in cell.given:
                        if not isinstance(giver, str):
                            self._given(giver)

    def _given(self, giver: At) -> None:
        index = self.evaluation.index(giver.file)
        node = self.evaluation.node(giver)
        if isinstance(node, cst.Call):
            for arg in node.args:
                self._add(arg.value, giver.file)
            return
        for above in index.ancestors(node):
            if isinstance(above, (cst.Assign, cst.AugAssign)):
                self._add(above.value, giver.file)
                return
            if isinstance(above, cst.BaseStatement):
                return


def _word(node: cst.CSTNode) -> str:
    match node:
        case cst.Name(value=word) | cst.Attribute(attr=cst.Name(value=word)):
            return word
        case cst.Subscript(value=inner):
            return f"{_word(inner)}[]"
    return ""


def _is_no_tensor(one: object) -> bool:
    return isinstance(one, _NO_TENSORS) or (
        isinstance(one, Tensor) and one.dtype in ("bool", "int") and not one.graph
    )


def passed_to(
    evaluation: Evaluation, unit: Unit, call: cst.Call, name: str
) -> Iterator[cst.BaseExpression]:
    """Yield the expressions that a call passes for a parameter of a function."""
    assert not isinstance(unit.node, cst.Module)
    passed = [passed_with(evaluation, a, evaluation.value(a.value)) for a in call.args]
    names = [param.name.value for param in parameters(unit.node)]
    is_method = evaluation.class_around(unit) is not None and not _is_plain(evaluation, call, unit)
    found = bound(names[is_method:], passed)[0].get(name)
    if found is not None and found.node is not None:
        yield found.node
    elif found is not None or name not in names:
        yield from (arg.value for arg in call.args if arg.star or name not in names)


def _is_plain(evaluation: Evaluation, call: cst.Call, unit: Unit) -> bool:
    """Whether a method is called with its object as an argument."""
    func = evaluation.value(call.func)
    return any(
        isinstance(one, Function) and one.at == unit.at and one.owner is None for one in func
    )


def _given_back(unit: Unit) -> Iterator[cst.CSTNode]:
    """Yield what a function returns and yields."""
    if isinstance(unit.node, cst.Lambda):
        yield unit.node.body
        return
    for kind in (cst.Return, cst.Yield):
        for node in unit.module.index.below(unit.node, kind):
            value: cst.CSTNode | None = node.value  # type: ignore[attr-defined]
            value = value.item if isinstance(value, cst.From) else value
            if value is not None and _is_own(unit, node):
                yield value


def _is_own(unit: Unit, node: cst.CSTNode) -> bool:
    above = next(one for one in unit.module.index.ancestors(node) if isinstance(one, _FUNCTIONS))
    return above is unit.node


def assignments(
    statements: Iterable[cst.Assign],
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield values with the targets that they are assigned to, unpacked ones too."""
    for one in statements:
        for target in one.targets:
            yield from _paired(one.value, target.target)


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
