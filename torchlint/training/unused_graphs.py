"""Runs of models whose graph nothing uses: no backward goes back through what they give.

A run is a call outside of the methods of modules.  Its result may be read, compared or detached;
where it is handed to code that is not seen, or returned to it, that may ask for gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.semantics.names import is_of_library
from torchlint.semantics.sets import flat
from torchlint.semantics.tables.tensors import KNOWN, MASKS, NUMBERS, READS, SUMS, VIEWS, names
from torchlint.semantics.values import (
    UNKNOWN,
    At,
    Class,
    Dictionary,
    Instance,
    Library,
    Method,
    Object,
    Sequence,
    Tensor,
    Unknown,
)
from torchlint.syntax.calls import last_name
from torchlint.training.asked import ASSIGNS, GOES_BACK, assignments
from torchlint.training.between import loops
from torchlint.training.effects import Effect, is_unseen, unit_around
from torchlint.training.model_calls import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value
    from torchlint.training.asked import Asked
    from torchlint.training.model_calls import ModelCalls

Place: TypeAlias = cst.FunctionDef | cst.For | cst.While | cst.BaseSmallStatement

_PLAIN = ((Library("builtins.staticmethod"),), (Library("builtins.classmethod"),))
MODELS = ("transformers.", "diffusers.")  # libraries whose models return objects of theirs
_HOOKS = names("""register_forward_hook register_forward_pre_hook register_module_forward_hook
    register_module_forward_pre_hook""")
_NODES = (cst.Name, cst.Attribute, cst.Call)


@dataclass(frozen=True, slots=True, eq=False)
class UnusedGraph:
    """A run of a model that is recorded for nothing.

    ``sees`` is False where its result goes to code that is not seen, ``knows`` where the model is
    something by a convention only.
    """

    node: cst.Call
    file: int
    recording: Recording
    sees: bool
    knows: bool


@dataclass(slots=True, eq=False)
class UnusedGraphs:
    """The runs of models in connected files whose graph nothing uses."""

    evaluation: Evaluation
    asked: Asked
    models: ModelCalls
    found: list[UnusedGraph] = field(default_factory=list)
    _known: dict[int, set[At]] = field(default_factory=dict)  # by values: equal ones are identical

    def __post_init__(self) -> None:
        files = self.evaluation.files
        runs = [
            (call, file, at)
            for call, file in files.of(cst.Call)
            if (graph := self.graph(call)) and (at := self.evaluation.at(call, file)) in graph
        ]
        if not runs:
            return
        # `.numpy()` refuses what is recorded
        refused = {at for one, _ in files.attributes("numpy") for at in self.graph(one.value)}
        given_away = {at for node in self._handed_over() for at in self.graph(node)}
        for call, file, at in runs:
            func = self.evaluation.value(call.func)
            if at in refused:
                continue
            sees, recording = at not in given_away, self.models.recording(at)
            if (
                recording not in (Recording.OFF, Recording.UNKNOWN)
                and not self.asked.of(call, file)
                and self.models.records(at)
                and (sees or (self.asked.effects.train and self._is_evaluated(call, file)))
            ):
                knows = all(hasattr(one, "call") or hasattr(one, "at") for one in func)
                self.found.append(UnusedGraph(call, file, recording, sees, knows))

    def graph(self, node: cst.CSTNode) -> set[At]:
        """Return the runs of models that autograd would go back through from an expression."""
        return self.graph_of(self.evaluation.value(node))

    def graph_of(self, value: Value) -> set[At]:
        """Return the runs of models behind the tensors that a value may be or hold."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self._behind(value)
        return known

    def _behind(self, value: Value) -> set[At]:
        found, waiting, seen = set[At](), list(flat(value)), set[At]()
        for one in waiting:
            if isinstance(one, Tensor):
                found |= set(one.graph)
            made = one.made if isinstance(one, (Sequence, Dictionary)) else None
            if made is not None and made not in seen:  # what was put in later
                seen.add(made)
                cells = self.evaluation.later(made).values()
                waiting += [each for cell in cells for each in flat(cell.value)]
        return found

    def is_unknown(self, call: cst.Call) -> bool:
        """Whether what is called is not known."""
        return any(map(_is_unknown, self.evaluation.value(call.func) or (UNKNOWN,)))

    # -- what goes to code that is not seen ----------------------------------------------------

    def _handed_over(self) -> Iterator[cst.BaseExpression]:
        """Yield what is passed or returned to code that is not seen, or kept for it."""
        files, units = self.evaluation.files, self.evaluation.units
        hooks = any(word in one.index.named for one in files.modules for word in _HOOKS)
        for call, _ in files.of(cst.Call):
            if hooks:
                yield call  # the hooks may keep what it computes
            if self.is_unknown(call) or any(map(_keeps, self.evaluation.value(call.func))):
                yield from (arg.value for arg in call.args)
        for node, file in files.of(cst.Return, cst.Yield):
            value = getattr(node, "value", None)
            given = getattr(value, "item", value)
            if given is not None and not unit_around(self.evaluation, node, file).callers:
                yield given
        for one, file in files.of(cst.Lambda):
            if not units[self.evaluation.at(one, file)].callers:
                yield one.body
        pairs = (pair for one, _ in files.of(*ASSIGNS) for pair in assignments(one))
        yield from (value for value, target in pairs if self._is_for_others(target))

    def _is_for_others(self, target: cst.BaseExpression) -> bool:
        """Whether code that is not seen may read what is assigned."""
        return isinstance(target, (cst.Attribute, cst.Subscript)) and any(
            isinstance(one, Unknown)
            or (isinstance(one, Instance) and self.evaluation.classes.is_open(one.cls))
            for one in self.evaluation.value(target.value)
        )

    # -- whether it is an evaluation -----------------------------------------------------------

    def _is_evaluated(self, call: cst.Call, file: int) -> bool:
        """Whether a model was last put into evaluation before the call, in its function."""
        index, unit = self.evaluation.index(file), unit_around(self.evaluation, call, file)
        told = [
            name
            for word in ("eval", "train")
            for name in index.named.get(word, ())
            if index.order(name) < index.order(call)
            and unit_around(self.evaluation, name, file) is unit
        ]
        return bool(told) and max(told, key=index.order).value == "eval"


def _is_unknown(one: Alternative) -> bool:
    return isinstance(one, Unknown) or (isinstance(one, Method) and _is_unknown(one.owner))


def _keeps(one: Alternative) -> bool:
    """Whether what is called may keep what it is given, as objects do that a model returns."""
    if isinstance(one, Object):
        return is_unseen((one,))
    if isinstance(one, Library):
        return one.name.startswith(MODELS) or not is_of_library(one.name)
    return isinstance(one, Class)


# -- where gradients can be turned off -----------------------------------------------------------


def place_without(graphs: UnusedGraphs, one: UnusedGraph, *, decorates: bool) -> Place | None:
    """Return the largest function, loop or statement around a run that asks for no gradient."""
    unit = unit_around(graphs.evaluation, one.node, one.file)
    statement = unit.module.smallest_statement(one.node)
    around = list(loops(graphs.evaluation, one.node, unit.node, one.file))
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
        and not any(map(graphs.is_unknown, unit.module.index.below(unit.node, cst.Call)))
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
        graphs.is_unknown(call)
        and last_name(call.func) not in KNOWN | READS | MASKS | NUMBERS | SUMS | VIEWS
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
