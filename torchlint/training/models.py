"""Uses: where what a call makes may be met again, and what is done with it there.

One index of all connected files: from the call that makes a model, a layer or a list to the
expressions that may hold it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.torch_classes import CONTAINERS, WRAPPERS, kind_of
from torchlint.semantics.values import Instance, Library, Object, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.syntax.module import Module
    from torchlint.syntax.scopes import Binding
    from torchlint.training.effects import Effects

_HOLD = (
    *(cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.NamedExpr),
    *(cst.List, cst.ListComp, cst.BinaryOperation),
)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """An expression that may hold something, and the node around it."""

    node: cst.CSTNode
    parent: cst.CSTNode
    file: int


@dataclass(frozen=True, slots=True, eq=False)
class MethodCall:
    """A call of a method."""

    name: str
    node: cst.Call
    file: int


@dataclass(eq=False)
class Uses:
    """All uses of what is made in connected files."""

    evaluation: Evaluation
    effects: Effects
    _found: dict[At, list[Use]] = field(default_factory=dict)
    _reads: dict[str, defaultdict[int, list[cst.Name]]] = field(default_factory=dict)
    _methods: dict[At, list[MethodCall]] = field(default_factory=dict)
    _holders: dict[At, list[At]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = self.evaluation.values
        makers = {
            id(value): made
            for value in self.evaluation.different
            if (made := dict.fromkeys(filter(None, map(made_by, value))))
        }
        for file, module in enumerate(self.evaluation.files.modules):
            found = (node for kind in _HOLD for node in module.index.of(kind))
            nodes = [node for node in found if id(values.get(id(node))) in makers]
            for node in sorted(nodes, key=module.index.order):
                use = Use(node, _above(module, node), file)
                for at in makers[id(values[id(node)])]:
                    self._found.setdefault(at, []).append(use)

    def of(self, made: At) -> list[Use]:
        """Return the expressions that may hold what a call makes, that call included."""
        return self._found.get(made, [])

    def module(self, file: int) -> Module:
        """Return a file."""
        return self.evaluation.module(file)

    def value(self, node: cst.BaseExpression) -> Value:
        """Return what an expression may be."""
        return self.evaluation.value(node)

    def reads(self, binding: Binding) -> list[cst.Name]:
        """Return the names that may have their value from a binding, in functions inside too."""
        word = binding.name
        if word not in self._reads:
            found = self._reads[word] = defaultdict(list)
            for module in self.evaluation.files.modules:
                for name in module.index.named.get(word, ()):
                    bindings: Iterable[Binding] = self.evaluation.bindings(name)
                    if not bindings and id(name) in self.evaluation.values:
                        owner = module.index.scope(name).owner(word)
                        bindings = owner.bindings[word] if owner is not None else ()
                    for one in bindings:
                        found[id(one)].append(name)
        return self._reads[word][id(binding)]

    def methods(self, made: At) -> list[MethodCall]:
        """Return the methods that are called on something."""
        if made not in self._methods:
            self._methods[made] = list(self._called_on(made))
        return self._methods[made]

    def _called_on(self, made: At) -> Iterator[MethodCall]:
        for use in self.of(made):
            if isinstance(use.parent, cst.Attribute) and use.parent.value is use.node:
                call = self.module(use.file).parent(use.parent)
                if isinstance(call, cst.Call) and call.func is use.parent:
                    yield MethodCall(use.parent.attr.value, call, use.file)

    def is_run(self, use: Use) -> bool:
        """Whether something is called there."""
        return isinstance(use.parent, cst.Call) and use.parent.func is use.node

    @cached_property
    def _kept_in(self) -> dict[At, list[At]]:
        """The models that keep something in an attribute, by what made it."""
        found: dict[At, list[At]] = {}
        for (owner, _), cell in self.evaluation.attributes.items():
            if self.evaluation.classes.kind(owner) in ("module", "model"):
                for made in filter(None, map(made_by, cell.value)):
                    found.setdefault(made, []).append(owner)
        return found

    def holders(self, made: At) -> list[At]:
        """Return what holds something: models that keep it, containers and wrappers around it.

        A class stands for itself where nobody is seen to make one.
        """
        if made not in self._holders:
            found: list[At] = []
            for cls in self._kept_in.get(made, ()):
                found += self.instances(cls) or [cls]
            found += filter(None, map(self.container, self.of(made)))
            self._holders[made] = list(dict.fromkeys(one for one in found if one != made))
        return self._holders[made]

    def instances(self, cls: At) -> list[At]:
        """Return the calls that make instances of a class, and of those that extend it."""
        evaluation = self.evaluation
        own = evaluation.classes.of(cls)
        kinds = [one for one in (own, *evaluation.heirs(cls)) if one is not None]
        return sorted(
            {at for one in kinds for each in one.instances.value if (at := made_by(each))}
        )

    def container(self, use: Use) -> At | None:
        """Return the list, container or wrapper that something is put into where it is used."""
        module = self.module(use.file)
        outer = module.parent(use.parent)
        match use.parent, outer:
            case cst.Element() | cst.StarredElement(), cst.List():
                return self.evaluation.at(outer, use.file)
            case cst.AugAssign(target=target), _ if target is not use.node:
                return next((at for one in self.value(target) if (at := made_by(one))), None)
            case cst.Element(), cst.Tuple():
                return self.container(Use(outer, _above(module, outer), use.file))
            case cst.Arg(), cst.Call(func=func) as call:
                for one in self.value(func):
                    match one:
                        case Library(name=name) if name in CONTAINERS or name in WRAPPERS:
                            return self.evaluation.at(call, use.file)
                        case Library(name="collections.OrderedDict"):
                            return self.container(Use(call, _above(module, call), use.file))
                    owner = getattr(one, "owner", None)
                    if isinstance(owner, (Object, Sequence)) and (made := made_by(owner)):
                        return made
        return None

    def around(self, made: At) -> list[At]:
        """Return something and all that holds it, by way of others too."""
        found = [made]
        for one in found:
            found += [each for each in self.holders(one) if each not in found]
        return found


def made_by(one: Alternative) -> At | None:
    """Return the call or display that made something."""
    match one:
        case Object(kind=kind, call=call) if kind_of(kind) or kind in CONTAINERS:
            return call
        case Instance(call=call):
            return call
        case Sequence(made=made):
            return made
    return None


def _above(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    above = module.parent(node)
    assert above is not None
    return above
