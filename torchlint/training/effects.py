"""What running a function does to training: a backward, an optimizer's step, a model's forward.

An effect is done by a function itself or by what it calls, and each is known with whether it lies
in a loop of that function (or of what it calls) or not.  Found as the least fixpoint over the call
graph.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import is_known
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Guess, Instance, Library, Method, Object, Tensor, Unknown
from torchlint.syntax.calls import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.cells import Unit
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value

# Frameworks' own ways to go backwards: the loss is an argument.
BACKWARDS = frozenset({"backward", "manual_backward"})


class Effect(enum.Enum):
    """What a call does that says how often code around it runs."""

    BACKWARD = enum.auto()
    STEP = enum.auto()  # of an optimizer
    FORWARD = enum.auto()  # a run of a model outside of modules' own methods
    ZERO_GRAD = enum.auto()
    GRAD = enum.auto()  # `torch.autograd.grad`


_TRAINS = frozenset({Effect.BACKWARD, Effect.STEP})


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call, the loops around it in its function from the inside out, and what it may run."""

    node: cst.Call
    loops: tuple[cst.CSTNode, ...]
    effects: frozenset[Effect]
    targets: tuple[At, ...]


@dataclass(slots=True, eq=False)
class Effects:
    """The effects of the functions of connected files, and their calls."""

    evaluation: Evaluation
    sites: dict[At, list[CallSite]] = field(default_factory=dict)
    direct: dict[At, frozenset[Effect]] = field(default_factory=dict)  # not in a loop
    inner: dict[At, frozenset[Effect]] = field(default_factory=dict)  # in loops
    _known: dict[int, tuple[frozenset[Effect], bool]] = field(default_factory=dict)  # by values
    train: bool = False  # whether any call is a backward pass

    def __post_init__(self) -> None:
        run: dict[int, list[At]] = {}
        for at, unit in self.evaluation.units.items():
            self.sites[at] = []
            self.direct[at] = self.inner[at] = frozenset()
            for _, call in unit.callers.values():
                run.setdefault(id(call), []).append(at)
        for call, file in self.evaluation.files.of(cst.Call):
            scope, around = self.evaluation.index(file).around(call)
            site = CallSite(call, around[::-1], self._done(call), tuple(run.get(id(call), ())))
            self.sites[self.evaluation.at(scope, file)].append(site)
        self._spread()
        for at, sites in self.sites.items():  # where nothing is seen to go back
            if Effect.BACKWARD not in self.direct[at] | self.inner[at]:
                sites[:] = map(self._trained, sites)
        self._spread()
        found = [site for sites in self.sites.values() for site in sites]
        self.train = any(Effect.BACKWARD in site.effects for site in found)

    def _trained(self, site: CallSite) -> CallSite:
        """Return a call as one that trains, if code that is not seen gets all that it takes."""
        given = [one for arg in site.node.args for one in self.evaluation.value(arg.value)]
        trains = (
            any(isinstance(one, Tensor) and one.graph for one in given)
            and any(self.kind(one) == "optimizer" for one in given)
            and is_unseen(self.evaluation.value(site.node.func))
        )
        return replace(site, effects=site.effects | _TRAINS) if trains else site

    def _done(self, call: cst.Call) -> frozenset[Effect]:
        """Return what a call does by itself."""
        value = self.evaluation.value(call.func)
        found = self._known.get(id(value))
        if found is None:
            own = frozenset(effect for one in value for effect in self._of(one))
            found = self._known[id(value)] = own, bool(own) or is_known(value)
        effects, is_all = found
        return effects if is_all else frozenset(self._by_name(call))

    def _of(self, one: Alternative) -> Iterator[Effect]:
        """Yield what calling an alternative does by itself."""
        match one:
            case Method(owner=Tensor(), name="backward") | Library(name="torch.autograd.backward"):
                yield Effect.BACKWARD
            case Method(owner=Method(owner=Tensor()), name="backward"):
                yield Effect.BACKWARD  # `output.loss`: what a model gives may be anything
            case Method(owner=Object(kind=kind), name=name) if name in BACKWARDS:
                if not kind_of(kind):  # `accelerator.backward(loss)`
                    yield Effect.BACKWARD
            case Library(name="torch.autograd.grad"):
                yield Effect.GRAD
            case Method(owner=owner, name="step") if self.kind(owner) in ("optimizer", "scaler"):
                yield Effect.STEP
            case Method(owner=owner, name="zero_grad"):
                yield Effect.ZERO_GRAD
            case Instance() | Object() | Guess() if self.kind(one) in ("module", "model"):
                yield Effect.FORWARD

    def _by_name(self, call: cst.Call) -> Iterator[Effect]:
        """Yield what a method does of whose owner nothing is known."""
        name = last_name(call.func)
        given = self.evaluation.value(call.args[0].value) if call.args else ()
        if name in BACKWARDS:
            yield Effect.BACKWARD
        if name == "zero_grad":
            yield Effect.ZERO_GRAD
        if name == "step" and any(self.kind(one) == "optimizer" for one in given):
            yield Effect.STEP  # by a scaler

    def kind(self, one: Alternative) -> str:
        """Return what kind of thing something is: an "optimizer", a "module" ..., or ""."""
        match one:
            case Object(kind=name):
                return kind_of(name)
            case Instance(cls=cls):
                return self.evaluation.classes.kind(cls)
            case Guess(what=what):
                return what
        return ""

    def _spread(self) -> None:
        """Add to what functions do what those do that they call, until nothing is new."""
        callers: dict[At, set[At]] = {}
        for caller, sites in self.sites.items():
            for site in sites:
                for target in site.targets:
                    callers.setdefault(target, set()).add(caller)
        waiting = sorted(self.sites)
        while waiting:
            unit = waiting.pop()
            direct, inner = self._sum(unit)
            if (direct, inner) != (self.direct.get(unit), self.inner.get(unit)):
                self.direct[unit], self.inner[unit] = direct, inner
                waiting += sorted(callers.get(unit, ()))

    def _sum(self, unit: At) -> tuple[frozenset[Effect], frozenset[Effect]]:
        direct: set[Effect] = set()
        inner: set[Effect] = set()
        is_module_method = self.evaluation.units[unit].is_module_method
        for site in self.sites[unit]:
            at_once, looped = self.of_site(site)
            if is_module_method:  # the layers of a model are no models
                at_once, looped = at_once - {Effect.FORWARD}, looped - {Effect.FORWARD}
            inner |= looped
            if site.loops:
                inner |= at_once
            else:
                direct |= at_once
        return frozenset(direct), frozenset(inner)

    def of_site(self, site: CallSite) -> tuple[frozenset[Effect], frozenset[Effect]]:
        """Return what a call does at once, and what in loops of what it calls."""
        at_once, looped = set(site.effects), set[Effect]()
        for target in site.targets:
            at_once |= self.direct.get(target, frozenset())
            looped |= self.inner.get(target, frozenset())
        return frozenset(at_once), frozenset(looped)


def is_unseen(value: Value) -> bool:
    """Whether what is called may be code that is not seen, of libraries that no table knows too."""
    return not value or any(map(_is_unseen, value))


def _is_unseen(one: Alternative) -> bool:
    match one:
        case Library(name=name) | Object(kind=name):
            return not name.startswith(("torch.", "builtins.")) and not kind_of(name)
    return isinstance(one, Unknown)


def unit_around(evaluation: Evaluation, node: cst.CSTNode, file: int) -> Unit:
    """Return the scope that a node is evaluated in: defaults and decorators are outside of it."""
    scope, _ = evaluation.index(file).around(node)
    return evaluation.units[evaluation.at(scope, file)]


def leading_to(
    evaluation: Evaluation, node: cst.CSTNode, file: int
) -> Iterator[tuple[Unit, cst.CSTNode]]:
    """Yield a node and the calls that lead to it, each with the scope that it is in."""
    found: list[tuple[Unit, cst.CSTNode]] = [(unit_around(evaluation, node, file), node)]
    seen = {id(node)}
    for unit, here in found:
        yield unit, here
        new = [(caller, call) for caller, call in unit.callers.values() if id(call) not in seen]
        seen.update(id(call) for _, call in new)
        found += new
