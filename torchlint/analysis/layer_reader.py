"""Runs the functions of a file in the abstract, to see what becomes of the outputs of layers."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.layer_run import Run
from torchlint.analysis.layer_uses import ABOUT_MODULES
from torchlint.analysis.layer_values import Item, Items, Layers, Output, Value, either
from torchlint.analysis.own_modules import OwnModules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

_ADDS = ("add_module", "register_module")
# What an attribute stands in where it may get a value.
_STORES = frozenset(
    {cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr,
     cst.Element, cst.StarredElement}
)  # fmt: skip
_FUEL = 60_000  # expressions that may be looked at in one file


class Reader:
    """What each layer's output goes into, over all functions of one module."""

    def __init__(self, program: Program, assumed: Mapping[int, bool] | None = None) -> None:
        """Nothing is computed before it is asked for.

        ``assumed`` tells of conditions, by the identity of their nodes, whether they hold.
        """
        self.program = program
        self.assumed = assumed or {}
        self._follow: dict[cst.Call, set[Item]] = defaultdict(set)
        self._families = _families(program)
        self._attributes: dict[tuple[int, str], Value] = {}  # of the pass before
        self._stored: dict[tuple[int, str], Value] = {}  # of this pass
        self._sites: dict[tuple[int, str], set[int]] = defaultdict(set)
        self._summaries: dict[int, Value] = {}
        self._fuel = _FUEL
        self.modules = OwnModules(program)

    def read(self) -> dict[cst.Call, set[Item]]:
        """Run what stores attributes first, and then everything, for what becomes of outputs."""
        for function in self._storing():
            self.summary(function)
        self._attributes = dict(self._stored)
        for key in self._assigned_elsewhere():
            self._attributes[key] = None
        self._follow.clear()
        self._summaries.clear()
        self._sites.clear()
        self.modules.clear()
        self._stored = {}
        if id(self.program.module) in self._builders:
            Run(self, self.program.module, None).run(self.program.module.body)
        for function in self.program.index.of(cst.FunctionDef):
            self.summary(function)
        self._reached_from_elsewhere()
        for key, value in self._attributes.items():
            unseen = isinstance(value, Layers) and value.chain and key not in self._sites
            if unseen or len(self._sites.get(key, ())) > 1:
                self.escape(value)
        for producer, consumers in self.modules.beyond(self._follow):
            self._follow[producer] |= consumers
        return self._follow if self._fuel > 0 else {}

    def _storing(self) -> Iterable[cst.FunctionDef]:
        """Find the functions that may store an attribute of ``self``."""
        program = self.program
        nodes = [
            node
            for node in program.index.of(cst.Attribute)
            if type(node.value) is cst.Name
            and (node.attr.value in _ADDS or type(program.parent(node)) in _STORES)
        ]
        storing = {id(program.function(node)) for node in nodes}
        return (one for one in program.index.of(cst.FunctionDef) if id(one) in storing)

    @cached_property
    def _builders(self) -> set[int]:
        """The functions, and the top level, that build layers themselves."""
        found: set[int] = set()
        for call in self.program.index.of(cst.Call):
            if self.program.qualified(call.func).startswith("torch.nn."):
                found.add(id(self.program.function(call) or self.program.module))
        return found

    # -- what several functions share --------------------------------------------------------

    def summary(self, function: cst.FunctionDef) -> Value:
        """Return the layers that a function returns."""
        key = id(function)
        if key not in self._summaries:
            self._summaries[key] = None  # as long as it runs, and where it calls itself
            owner = self.program.classes.around(function)
            if key not in self._builders and (owner is None or not owner.is_module):
                return None
            run = Run(self, function, owner)
            run.run(function.body.body)
            value = self.join(run.returned)
            if self._is_open(function):
                self.escape(value)
            self._summaries[key] = value
        return self._summaries[key]

    def _is_open(self, function: cst.FunctionDef) -> bool:
        """Whether other files can call a function and do as they like with what it returns."""
        at_top = self.program.index.parent(function) is self.program.module
        return at_top and not function.name.value.startswith("_")

    def family(self, owner: Class | None) -> int:
        """Give a class a number: those that inherit from one another share it, and attributes."""
        return 0 if owner is None else self._families[id(owner.node)]

    def attribute(self, owner: Class | None, name: str) -> Value:
        """Return what ``self.name`` holds, whichever method stored it."""
        return self._attributes.get((self.family(owner), name))

    def store(self, owner: Class | None, name: str, value: Value) -> None:
        """Keep what a method leaves in ``self.name``."""
        key = (self.family(owner), name)
        if owner is None:
            self.escape(value)
        elif key in self._stored:
            self._stored[key] = self.join([self._stored[key], value])
        else:
            self._stored[key] = value

    def called(self, owner: Class | None, name: str, call: cst.Call) -> None:
        """Note where ``self.name`` is called."""
        self._sites[self.family(owner), name].add(id(call))

    def spend(self) -> bool:
        """Use up a little fuel; False when it is gone."""
        self._fuel -= 1
        return self._fuel > 0

    # -- outputs -----------------------------------------------------------------------------

    def feed(self, producers: Items, consumers: Items) -> None:
        """Record that outputs of some layers go into others."""
        for producer in producers:
            if producer is not None:
                self._follow[producer] |= consumers

    def give(self, function: cst.CSTNode, output: Output) -> None:
        """Record that a function returns outputs: of a module, they go where it is called."""
        if not self.modules.give(function, output.producers):
            self.escape(output)

    def commit(self, layers: Layers) -> None:
        """Record that the members of a list run in order."""
        for one, other in layers.edges:
            if one is not None:
                self._follow[one].add(other)

    def escape(self, value: Value, *, opened: bool = False) -> None:
        """Record that nothing is known of what becomes of a value.

        Args:
            value: an output, a module, or a list.
            opened: what a module gives in between may be seen as well.

        """
        match value:
            case Output():
                self.feed(value.producers, frozenset({None}))
            case Layers():
                self.feed(value.last, frozenset({None}))
                if value.listed or opened:
                    self.feed(value.tails, frozenset({None}))
            case None:
                pass

    def join(self, values: Iterable[Value]) -> Value:
        """Return what is one of several values; what cannot be both escapes."""
        found = list(values)
        if not found:
            return None
        result = found[0]
        for value in found[1:]:
            result = self._join(result, value)
        return result

    def _join(self, one: Value, other: Value) -> Value:
        if one is other:
            return one
        match one, other:
            case Layers(), Layers() if one.listed == other.listed:
                return one if one == other else either(one, other)
            case Output(), Output():
                return Output(one.producers | other.producers)
            case (Output(), None) | (None, Output()):
                return one or other
            case _:
                self.escape(one)
                self.escape(other)
                return None

    # -- attributes seen from outside --------------------------------------------------------

    def _outside(self) -> Iterable[tuple[cst.Attribute, list[tuple[int, str]]]]:
        """Find reads and stores of the layers' attributes on something other than ``self``."""
        keys: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for key in self._stored:
            keys[key[1]].append(key)
        for node in self.program.index.of(cst.Attribute):
            own = isinstance(node.value, cst.Name) and node.value.value == "self"
            if node.attr.value in keys and not own:
                yield node, keys[node.attr.value]

    def _assigned_elsewhere(self) -> set[tuple[int, str]]:
        return {
            key
            for node, keys in self._outside()
            if isinstance(self.program.parent(node), (cst.AssignTarget, cst.Del))
            for key in keys
        }

    def _reached_from_elsewhere(self) -> None:
        """``model.features[:3]``, ``model.conv1(x)``: others use the layers too."""
        for node, keys in self._outside():
            above = self.program.parent(node)
            if isinstance(above, cst.Attribute) and above.attr.value in ABOUT_MODULES:
                continue
            called = isinstance(above, cst.Call) and above.func is node
            for key in keys:
                self.escape(self._attributes.get(key), opened=not called)


def _families(program: Program) -> dict[int, int]:
    """Give each class of a file a number, relatives the same."""
    family: dict[int, int] = {}
    for number, owner in enumerate(program.classes, start=1):
        kin = {id(one.node) for one in program.classes.lineage(owner)}
        known = {family[key] for key in kin if key in family}
        for key in [*kin, *(key for key, value in family.items() if value in known)]:
            family[key] = number
    return family
