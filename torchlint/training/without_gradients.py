"""Where gradients can be turned off for a call: in its function, loop or statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.values import UNKNOWN, Library
from torchlint.training.between import loops
from torchlint.training.effects import Effect, unit_around
from torchlint.training.unused_graphs import GOES_BACK, Why, is_unseen

if TYPE_CHECKING:
    from torchlint.semantics.cells import Unit
    from torchlint.training.unused_graphs import UnusedGraph, UnusedGraphs

Place: TypeAlias = cst.FunctionDef | cst.For | cst.While | cst.BaseSmallStatement

_PLAIN = ((Library("builtins.staticmethod"),), (Library("builtins.classmethod"),))
_STOPS = (cst.Yield, cst.Await)


@dataclass(frozen=True, slots=True, eq=False)
class WithoutGradients:
    """A call that is recorded for nothing, and what stands around it."""

    graphs: UnusedGraphs
    one: UnusedGraph

    @property
    def unit(self) -> Unit:
        """The scope that it stands in."""
        return unit_around(self.graphs.evaluation, self.one.node, self.one.file)

    def place(self, *, decorates: bool) -> Place | None:
        """Return the largest function, loop or statement around it that asks for no gradient."""
        one, unit = self.one, self.unit
        if isinstance(unit.node, cst.Lambda) or (one.why is Why.CALL and not one.sees):
            return None
        if isinstance(unit.node, cst.FunctionDef) and self._only_evaluates(unit.node) and decorates:
            return unit.node
        for loop in loops(self.graphs.evaluation, self.one.node, unit.node, self.one.file):
            if isinstance(loop, (cst.For, cst.While)) and self._asks_nothing(loop):
                return loop
        statement = unit.module.smallest_statement(self.one.node)
        if isinstance(statement, cst.BaseSmallStatement) and self._asks_nothing(statement):
            return statement
        return None

    def _only_evaluates(self, function: cst.FunctionDef) -> bool:
        values, index = self.graphs.evaluation.values, self.unit.module.index
        returned = self.unit.returned
        return (
            function.asynchronous is None
            and all(values.get(id(one.decorator)) in _PLAIN for one in function.decorators)
            and not any(self._is_unseen(one) for one in index.below(function, cst.Call))
            and not self.graphs.graph_of(returned.value)
            and self._asks_nothing(function)
        )

    def _is_unseen(self, call: cst.Call) -> bool:
        values = self.graphs.evaluation.values
        return any(map(is_unseen, values.get(id(call.func)) or (UNKNOWN,)))

    def _asks_nothing(self, place: cst.CSTNode) -> bool:
        """Whether no gradient is asked in or of a part of a scope, which runs at once."""
        graphs, index, effects = self.graphs, self.unit.module.index, self.graphs.asked.effects
        sites = [one for one in effects.sites[self.unit.at]
                 if one.node is not self.one.node and index.inside(one.node, place)]  # fmt: skip
        done = {effect for site in sites for each in effects.of_site(site) for effect in each}
        return (
            not any(True for kind in _STOPS for _ in index.below(place, kind))
            and not done & {*GOES_BACK, Effect.STEP}
            and not any(graphs.may_ask(site.node, self.one.file) for site in sites)
            and not any(
                id(node) in graphs.asked.nodes and graphs.graph(node)
                for kind in (cst.Name, cst.Attribute, cst.Call)
                for node in index.below(place, kind)
                if not index.inside(node, self.one.node)
            )
        )

    def leaves(self, place: cst.CSTNode) -> bool:
        """Whether something with a graph leaves a place."""
        graphs, index = self.graphs, self.unit.module.index
        runs = {at for call in index.below(place, cst.Call) for at in graphs.graph(call)}
        outside = [
            node
            for kind in (cst.Name, cst.Attribute, cst.Call)
            for node in index.below(self.unit.node, kind)
            if not index.inside(node, place)
        ]
        kept = [value for pairs in graphs.asked.stores.values() for value, _, _ in pairs]
        return any(graphs.graph(node) & runs for node in (*outside, *kept))
