"""Where gradients can be turned off for a call: in its function, loop or statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.tables.tensors import KNOWN
from torchlint.semantics.values import Library
from torchlint.syntax.calls import last_name
from torchlint.training.asked import GOES_BACK
from torchlint.training.between import loops
from torchlint.training.effects import Effect, unit_around
from torchlint.training.same_bits import METHODS

if TYPE_CHECKING:
    from torchlint.semantics.cells import Unit
    from torchlint.training.unused_graphs import UnusedGraph, UnusedGraphs

Place: TypeAlias = cst.FunctionDef | cst.For | cst.While | cst.BaseSmallStatement

_PLAIN = ((Library("builtins.staticmethod"),), (Library("builtins.classmethod"),))
_NODES = (cst.Name, cst.Attribute, cst.Call)


def place_without(graphs: UnusedGraphs, one: UnusedGraph, *, decorates: bool) -> Place | None:
    """Return the largest function, loop or statement around a run that asks for no gradient."""
    unit = unit_around(graphs.evaluation, one.node, one.file)
    statement = unit.module.smallest_statement(one.node)
    around = loops(graphs.evaluation, one.node, unit.node, one.file)
    if isinstance(unit.node, cst.FunctionDef) and decorates and _is_plain(graphs, unit):
        around.insert(0, unit.node)
    for place in (*around, statement):
        if isinstance(place, (cst.FunctionDef, cst.For, cst.While, cst.BaseSmallStatement)) and (
            _asks_nothing(graphs, one, unit, place)
        ):
            return place
    return None


def _is_plain(graphs: UnusedGraphs, unit: Unit) -> bool:
    """Whether a function is not decorated, and neither runs nor gives back what is not seen."""
    assert isinstance(unit.node, cst.FunctionDef)
    return (
        unit.node.asynchronous is None
        and all(graphs.evaluation.value(one.decorator) in _PLAIN for one in unit.node.decorators)
        and not any(map(graphs.is_unseen, unit.module.index.below(unit.node, cst.Call)))
        and not graphs.graph_of(unit.returned.value)
    )


def _asks_nothing(graphs: UnusedGraphs, one: UnusedGraph, unit: Unit, place: cst.CSTNode) -> bool:
    """Whether no gradient is asked in or of a part of a scope, as far as all of it is seen."""
    index, effects = unit.module.index, graphs.asked.effects
    sites = [
        site
        for site in effects.sites[unit.at]
        if site.node is not one.node and index.inside(site.node, place)
    ]
    done = {effect for site in sites for each in effects.of_site(site) for effect in each}
    return (
        not any(True for kind in (cst.Yield, cst.Await) for _ in index.below(place, kind))
        and not done & {*GOES_BACK, Effect.STEP}
        and not any(_may_ask(graphs, site.node) for site in sites)
        and not any(
            id(node) in graphs.asked.nodes and graphs.graph(node)
            for kind in _NODES
            for node in index.below(place, kind)
            if not index.inside(node, one.node)
        )
    )


def _may_ask(graphs: UnusedGraphs, call: cst.Call) -> bool:
    """Whether code that is not seen may ask a gradient of its own: it is given no result."""
    return (
        graphs.is_unseen(call)
        and last_name(call.func) not in KNOWN | METHODS
        and not any(graphs.graph(arg.value) for arg in call.args)
    )


def leaves(graphs: UnusedGraphs, one: UnusedGraph, place: cst.CSTNode) -> bool:
    """Whether something with a graph leaves a place."""
    unit = unit_around(graphs.evaluation, one.node, one.file)
    index = unit.module.index
    runs = {at for call in index.below(place, cst.Call) for at in graphs.graph(call)}
    outside = [
        node
        for kind in _NODES
        for node in index.below(unit.node, kind)
        if not index.inside(node, place)
    ]
    kept = [value for pairs in graphs.asked.stores.values() for value, _, _ in pairs]
    return any(graphs.graph(node) & runs for node in (*outside, *kept))
