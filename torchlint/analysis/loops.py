"""What runs in every training step, what in evaluation, and what only now and then.

A training loop is one whose own body, or a function of this file that it calls, runs a backward
pass or an optimizer step.  What such a loop calls, and what ``forward`` and ``training_step``
hold, runs in every step too, unless a periodic condition guards it.  So do the functions that an
engine of Ignite runs for each batch.
"""

from __future__ import annotations

import enum
import itertools
import re
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.clocks import reads_clock
from torchlint.analysis.conditions import counts_off, is_zero
from torchlint.analysis.constants import goes_through_constants
from torchlint.analysis.debugging import in_test
from torchlint.analysis.decisions import truth
from torchlint.analysis.defaults import holds_by_default
from torchlint.analysis.importing import programs_of_importers, texts_of_importers
from torchlint.analysis.input_gradients import reads_input_gradient
from torchlint.analysis.model_runs import GIVES_PARTS, runs_model
from torchlint.analysis.modes import evaluation_switches, puts_into_evaluation
from torchlint.analysis.no_data import lacks_data
from torchlint.analysis.options import OPTION_ROOTS
from torchlint.analysis.ranks import is_of_first, picks_process, trains_alone
from torchlint.analysis.rare import ends_episode, is_rare, makes_entry
from torchlint.analysis.unasked import is_unasked
from torchlint.analysis.usage import scales_loss
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.targets import Target
    from torchlint.syntax.scopes import Binding

Loop: TypeAlias = cst.For | cst.While


class Role(enum.Enum):
    """How often something runs."""

    TRAIN = enum.auto()  # in every training step
    FORWARD = enum.auto()  # in every forward pass of a module
    EVAL = enum.auto()  # in every step of an evaluation
    EPOCH = enum.auto()  # between training loops
    OTHER = enum.auto()  # not known, or once


@dataclass(frozen=True, slots=True)
class Context:
    """How often a node runs.

    ``guarded``: only under a condition that holds now and then (every n steps, on one rank, when
    an option asks for it).  ``loop`` is the loop or function that makes it run per step.
    """

    role: Role
    guarded: bool = False
    loop: cst.CSTNode | None = None

    @property
    def per_step(self) -> bool:
        """Runs in each and every training step."""
        return self.role is Role.TRAIN and not self.guarded


_NOWHERE = Context(Role.OTHER)
_REMEMBERS = frozenset({"functools.lru_cache", "functools.cache", "functools.cached_property"})
# Nodes between which and what stands in them nothing is decided.
_PLAIN = frozenset({
    cst.Arg, cst.Assign, cst.Attribute, cst.Call, cst.Expr, cst.FormattedString,
    cst.FormattedStringExpression, cst.Index, cst.SimpleStatementLine, cst.Subscript,
    cst.SubscriptElement,
})  # fmt: skip
_GUARDING = frozenset({
    cst.Assert, cst.BooleanOperation, cst.ExceptHandler, cst.ExceptStarHandler, cst.If, cst.IfExp,
    cst.IndentedBlock, cst.Lambda,
})  # fmt: skip
_TRAINING = (Role.TRAIN, Role.FORWARD)
_RANK = {Role.TRAIN: 0, Role.EVAL: 2, Role.EPOCH: 3, Role.FORWARD: 4, Role.OTHER: 5}

_ORDERS = (cst.GreaterThan, cst.GreaterThanEqual, cst.LessThan, cst.LessThanEqual)
_GUARD_WORDS = re.compile(
    r"log|print|debug|verbose|profil|rank|main_process|master|interval|freq|every|display|best|"
    r"visual|plot|tensorboard|wandb|writer|summary|report|save|time|last_|dry_run|eval|test|valid|"
    r"is_(primary|chief|root|leader|coordinator)|(global|local)_zero|first_(worker|process)",
    re.IGNORECASE,
)
_EVAL_NAME = re.compile(r"eval|valid|test|infer|predict|sample|generate|visuali[sz]e|demo|export",
                        re.IGNORECASE)  # fmt: skip
_WHOLE_NAME = re.compile(
    r"(?!.*(batch|step|sample|example))(.*_)?(eval(uate|uation)?|valid(ate|ation)?|test)(_|$)",
    re.IGNORECASE,
)
# Of several loaders one is taken out before its batches are.
_LOADERS = re.compile(r"(?<![*\w])[\w.]*loaders(?:_\w*)?(?![\w\[.])", re.IGNORECASE)
_STRIDED = 3  # arguments of `range(0, n, size)`
_GENERATES = re.compile(r"generate|decode", re.IGNORECASE)
_TRAIN_NAME = re.compile(r"train|fit|optimi[sz]e", re.IGNORECASE)
_NO_GRAD = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad",
     "torch.autograd.inference_mode", "torch.autograd.grad_mode.no_grad"}
)  # fmt: skip
_TRAIN_HOOKS = frozenset({"training_step", "train_step", "optimizer_step"})
_EVAL_HOOKS = frozenset({"validation_step", "test_step", "predict_step", "eval_step"})
_UPDATES = re.compile(r"optimi[sz]er|torch\.optim|\.step\(|\bSGD\b|\bAdam", re.IGNORECASE)
_EVALUATES = re.compile(r"val|valid|validat(e|ion)|test|eval|evaluat(e|ion)|dev", re.IGNORECASE)
_TRAINS = re.compile(r"train|training", re.IGNORECASE)
_SWITCH = re.compile(r"(is_?|do_?)?train(ing)?(_?mode|_?phase)?", re.IGNORECASE)
_SCHEDULES = ("sched", "lr", "env", "warmup")  # have steps that update no parameter
_OF_INPUT = re.compile(r"\boptim\.\w+\(\[\w+\]")
_STEPS = ("backward", ".step(", "zero_grad", "scaler")  # without these a file steps nothing
_PROCESSES = re.compile(r"distributed|world_size|(^|_)ddp(_|$)|multi_?gpu", re.IGNORECASE)
_STEPPED = re.compile(r"opt|scaler", re.IGNORECASE)
_DECIDING = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)
_COUNTER = re.compile(
    r"(^|_)(step|iter|iteration|itr|epoch|i|it|batch_(idx|index|num))(_|$)|steps?$", re.IGNORECASE
)
_TELLS = re.compile(r"^print$|\.(item|info|write|set_postfix|set_description|add_scalar)$")
_WRITER = re.compile(r"(^|[._])(\w*writer|tb|tensorboard)$", re.IGNORECASE)
_ENDS = (cst.Break, cst.Return, cst.Raise)
_DRAWS = re.compile(
    r"((np|numpy)\.)?random\.(random|rand|uniform|random_sample)$|random$|torch\.rand$"
)
_WANTED = re.compile(  # what is asked for before `return`: the rest of the function is for it
    r"log|print|debug|verbose|profil|rank|main_process|master|interval|visual|plot|tensorboard|"
    r"wandb|writer|summary|report|save",
    re.IGNORECASE,
)
_GROWS = frozenset({"append", "extend", "add", "update", "insert", "appendleft"})
_EMPTIES = frozenset({"clear", "pop", "popleft", "popitem", "remove"})


class Event(enum.Flag):
    """What a loop or function does directly."""

    NOTHING = 0
    BACKWARD = enum.auto()
    STEP = enum.auto()
    ZERO = enum.auto()
    PASS = enum.auto()  # of a training loop: it goes through more than a range of numbers


_UPDATE = Event.BACKWARD | Event.STEP


class Loops:
    """The training structure of one module."""

    def __init__(self, program: Program) -> None:
        """Nothing is computed before it is asked for."""
        self._program = program
        self._contexts: dict[int, Context] = {}
        self._called: dict[int, Context] = {}
        self._passing: dict[int, Context] = {}
        self._explaining: dict[int, bool] = {}
        self._whole: dict[int, bool] = {}
        self._asking: set[int] = set()
        self._collecting = False
        self._skips: dict[int, int] = {}  # block -> where a periodic ``continue`` stands

    # -- roles of loops ----------------------------------------------------------------------

    @cached_property
    def _events(self) -> dict[int, Event]:
        """What each loop and function does, outside the loops and functions inside it."""
        events: dict[int, Event] = {}
        pending: list[tuple[cst.Call, Event]] = []
        for call in self._program.index.of(cst.Call):
            event = self._event(call)
            if event:
                pending.append((call, event))
        pending += self._events_elsewhere()
        seen: set[tuple[int, Event]] = set()
        while pending:
            call, event = pending.pop()
            home = self._home(call)
            events[id(home)] = events.get(id(home), Event.NOTHING) | event
            if isinstance(home, cst.FunctionDef) and (id(home), event) not in seen:
                # a function that steps outside any loop of its own: its calls are steps
                seen.add((id(home), event))
                sites = self._program.calls.sites(home)
                if any(True for _ in self._backwards(home)):
                    sites = [site for site in sites if not self._returns_before(site)]
                pending += [(site, event) for site in sites]
                pending += [(site, event) for site in self._closure_sites(home)]
        return events

    def _events_elsewhere(self) -> Iterator[tuple[cst.Call, Event]]:
        """Yield the calls of functions of other files that do something outside their loops."""
        project = self._program.project
        if project is None:
            return
        self._collecting = True
        for call, target in self._leaving:
            event = target.program.loops.done_by(target.function)
            if event and not (Event.BACKWARD in event and self._returns_before(call)):
                yield call, event
        self._collecting = False

    def _returns_before(self, call: cst.Call) -> bool:
        """Whether a call of what goes back stands where nothing can: it returns before that."""
        function = self._program.function(call)
        off = function is not None and any(
            self.is_no_grad(item.decorator) for item in function.decorators
        )
        return off or self.is_without_gradients(call)

    @cached_property
    def _leaving(self) -> list[tuple[cst.Call, Target]]:
        """The calls of functions of other files in which something may be stepped."""
        program = self._program
        if program.project is None or program.path is None:
            return []
        calls: list[cst.Call] = []
        for name in program.project.imports.defined_near(str(program.path), _STEPS):
            for call in program.calls.named(name):
                calls += [call, *program.calls.of_result(call)]
        calls += self._left_to_heirs
        return [
            (call, target)
            for call in dict.fromkeys(calls)
            for target in program.calls.far(call)
            if any(word in target.program.text for word in _STEPS)
        ]

    @cached_property
    def _left_to_heirs(self) -> list[cst.Call]:
        """The calls of methods in the place of which heirs elsewhere have their own."""
        program = self._program
        names = {name for owner in program.classes for name in owner.methods}
        calls = (call for name in sorted(names) for call, _ in program.method_calls(name))
        return [call for call in calls if program.calls.overrides(call)]

    def done_by(self, function: cst.FunctionDef) -> Event:
        """Return what a function of this file does outside of loops of its own."""
        if self._collecting:
            return Event.NOTHING  # files that import one another
        return self._events.get(id(function), Event.NOTHING)

    def _event(self, call: cst.Call) -> Event:
        func = call.func
        if type(func) is cst.Name:
            return Event.BACKWARD | Event.STEP if scales_loss(call) else Event.NOTHING
        if type(func) is not cst.Attribute:
            return Event.NOTHING
        match func.attr.value:
            case "backward" | "manual_backward" if not self.only_looks(call):
                return Event.BACKWARD
            case "step" if self._steps(func.value):
                return Event.STEP
            case "zero_grad" if self._clears(call, func.value):
                return Event.ZERO
            case _:
                return Event.NOTHING

    def _clears(self, call: cst.Call, receiver: cst.BaseExpression) -> bool:
        """Whether ``receiver.zero_grad()`` drops the gradients of the training step before."""
        return (
            not self.only_looks(call)
            and not self.is_without_gradients(call)
            and not self._is_new(call, receiver)
        )

    def _is_new(self, call: cst.Call, receiver: cst.BaseExpression) -> bool:
        """Whether the turn or function around a call has made what it is called on itself.

        Then that turn is no step, but may hold a whole training with an optimizer of its own.
        """
        if type(receiver) is not cst.Name:
            return False
        home = self._home(call)
        found = self._program.flow.reaching(receiver)
        return bool(found) and all(
            one.kind is Bind.ASSIGN
            and isinstance(one.value, cst.Call)
            and bool(one.value.args)  # the parameters; without any it may only be looked up
            and self._program.index.inside(one.value, home)
            for one in found
        )

    @cached_property
    def only_asks(self) -> bool:
        """Whether the file asks a model for gradients that it does not train with: saliency.

        Or an attack, whose optimizer holds the input and is never stepped.
        """
        text = self._program.text
        if ".eval(" not in text or ".train(" in text:
            return False
        attacks = ".step(" not in text and ".parameters(" not in text and _OF_INPUT.search(text)
        return bool(attacks) or not _UPDATES.search(text)

    def only_looks(self, node: cst.CSTNode) -> bool:
        """Whether what asks for gradients only looks at them: its file or function trains none."""
        if self.only_asks:
            return True
        function = self._program.function(node)
        return function is not None and (
            self._explains(function)
            or (
                reads_input_gradient(self._program, self._home(node))
                and self._takes_no_step(function)
            )
        )

    def _explains(self, function: cst.FunctionDef) -> bool:
        """Whether a function of a file that trains asks a model for gradients, under ``.eval()``.

        It drops those of that model first, and takes no step, and neither does what calls it: a
        heat map, or which weights matter.
        """
        key = id(function)
        if key not in self._explaining:
            switched = self._receivers(function, "eval")
            self._explaining[key] = (
                not self.only_asks
                and not switched.isdisjoint(self._receivers(function, "zero_grad"))
                and self._takes_no_step(function)
            )
        return self._explaining[key]

    def _takes_no_step(self, function: cst.FunctionDef) -> bool:
        """Whether neither a function nor what calls it, which is seen, changes any parameter."""
        return (
            not self._trains(function)
            and not self._closure_sites(function)
            and not any(
                other.loops.takes_step(other.function(site) or other.module)
                for other, site in self._program.sites_everywhere(function)
            )
        )

    def _receivers(self, function: cst.FunctionDef, method: str) -> set[str]:
        """Return the names of what a function calls a method of, without arguments."""
        program = self._program
        return {
            dotted(func.value)
            for call, func in program.method_calls(method)
            if not call.args and program.function(call) is function
        } - {""}

    def _trains(self, function: cst.FunctionDef) -> bool:
        """Whether a function speaks of an optimizer, or sets a model to training mode."""
        calls = self._program.index.below(function, cst.Call)
        switched = any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "train"
            and not any(_is_kept_mode(arg.value) for arg in call.args)
            for call in calls
        )
        updates = _UPDATES.search(self._program.code(function)) is not None
        return updates or switched or self.takes_step(function)

    def takes_step(self, place: cst.CSTNode) -> bool:
        """Whether a function takes steps, or calls one of its file that does outside any loop."""
        program = self._program
        for call, func in program.method_calls("step"):
            if self._is_schedule(func.value):
                continue
            home = self._home(call)
            if (program.function(call) or program.module) is place or (
                isinstance(home, cst.FunctionDef)
                and any(
                    (program.function(site) or program.module) is place
                    for site in program.calls.sites(home)
                )
            ):
                return True
        return False

    def _is_schedule(self, receiver: cst.BaseExpression) -> bool:
        name = dotted(receiver).rpartition(".")[2].lower()
        kind = self._program.values.of(receiver).kind
        return kind is Kind.SCHEDULER or any(word in name for word in _SCHEDULES)

    def _steps(self, receiver: cst.BaseExpression) -> bool:
        """Whether ``receiver.step()`` is an optimizer's (or gradient scaler's) step."""
        kind = self._program.values.of(receiver).kind
        if kind in (Kind.OPTIMIZER, Kind.SCALER):
            return True
        if kind is not Kind.UNKNOWN and kind is not Kind.INSTANCE:
            return False
        name = dotted(receiver).rpartition(".")[2].lower()
        if any(word in name for word in _SCHEDULES):
            return False
        return "optim" in name or name.startswith("opt") or name.endswith("opt") or "scaler" in name

    def _home(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost loop body or function a node runs in."""
        child = node
        for above in self._program.index.ancestors(node):
            if isinstance(above, cst.FunctionDef) or _repeats(above, child):
                return above
            child = above
        return self._program.module

    def _closure_sites(self, function: cst.FunctionDef) -> list[cst.Call]:
        """``optimizer.step(closure)`` runs the closure."""
        name = function.name.value
        return [
            call
            for call in self._program.index.of(cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and any(isinstance(a.value, cst.Name) and a.value.value == name for a in call.args)
        ]

    @cached_property
    def _roles(self) -> dict[int, Role]:
        loops: list[Loop] = [*self._program.index.of(cst.For), *self._program.index.of(cst.While)]
        loops.sort(key=self._program.index.order, reverse=True)  # inner loops first
        roles: dict[int, Role] = {}
        inner: dict[int, Event] = {}  # what training loops inside (or called from) a loop do
        for loop in loops:
            below = self._inner_events(loop, inner)
            own = self._events.get(id(loop), Event.NOTHING)
            if self._is_train(loop, own, below):
                roles[id(loop)] = Role.TRAIN
            elif below:
                roles[id(loop)] = Role.EPOCH
            elif self._is_eval(loop):
                around = self._goes_around_evaluation(loop, roles)
                roles[id(loop)] = Role.OTHER if around else Role.EVAL
            else:
                roles[id(loop)] = Role.OTHER
            inner[id(loop)] = below
            if roles[id(loop)] is Role.TRAIN:
                inner[id(loop)] |= own | _pass_of(loop)
        return roles

    def _goes_around_evaluation(self, loop: Loop, roles: dict[int, Role]) -> bool:
        """``for fold in folds: for x in loaders[fold]: ...``: what follows is done once a fold.

        So it is in ``for loader in loaders: evaluate(loader)``.
        """
        if self.takes_batches(loop):
            return False
        if isinstance(loop, cst.For) and _LOADERS.search(self._program.code(loop.iter)) is not None:
            return True
        return any(
            roles.get(id(nested)) is Role.EVAL and self.takes_batches(nested)
            for nested in self._program.index.below(loop.body, cst.For)
        )

    def takes_batches(self, loop: Loop) -> bool:
        """Whether a loop goes through a loader, by what is known of it or by its name."""
        if isinstance(loop, cst.While):
            return False
        known = self._program.value(loop.iter).kind is Kind.LOADER
        return known or "loader" in _LOADERS.sub("", self._program.code(loop.iter)).lower()

    def _is_train(self, loop: Loop, own: Event, below: Event) -> bool:
        if Event.BACKWARD in own:
            return True
        if Event.STEP in own and (Event.STEP not in below or _holds_turns(loop, below)):
            return True
        # an evaluation may get its losses from a method that clears the gradients for training
        return Event.ZERO in own and not below and not self._is_eval(loop)

    def _inner_events(self, loop: Loop, inner: dict[int, Event]) -> Event:
        found = Event.NOTHING
        index = self._program.index
        for kind in (cst.For, cst.While):
            for nested in index.below(loop.body, kind):
                found |= inner.get(id(nested), Event.NOTHING)
        for call in index.below(loop.body, cst.Call):
            for target in self._program.calls.targets(call):
                found |= self._loops_of(target)
        for call, other in self._leaving:
            if index.inside(call, loop.body):
                found |= other.program.loops.loops_of(other.function)
        return found

    def _loops_of(self, function: cst.FunctionDef, depth: int = 0) -> Event:
        """Return what the training loops inside a function, or inside what it calls, do."""
        index = self._program.index
        found = Event.NOTHING
        for kind in (cst.For, cst.While):
            for loop in index.below(function, kind):
                done = self._events.get(id(loop), Event.NOTHING)
                found |= done | _pass_of(loop) if done & _UPDATE else done
        if depth < 4 and not found:
            for call in index.below(function, cst.Call):
                for target in self._program.calls.targets(call):
                    if target is not function:
                        found |= self._loops_of(target, depth + 1)
            for call, other in self._leaving:
                if index.inside(call, function):
                    found |= other.program.loops.loops_of(other.function, depth + 1)
        return found & (_UPDATE | Event.PASS)

    def loops_of(self, function: cst.FunctionDef, depth: int = 0) -> Event:
        """Return what the training loops inside a function do, asked from another file."""
        return Event.NOTHING if self._collecting else self._loops_of(function, depth)

    def _is_eval(self, loop: Loop) -> bool:
        if isinstance(loop, cst.For) and _over_parameters(loop.iter):
            return False
        for above in self._program.index.ancestors(loop):
            if isinstance(above, cst.With) and self.turns_gradients_off(above):
                return True
            if isinstance(above, cst.FunctionDef):
                evaluates = self.evaluates(above) or self._runs_without_gradients(loop)
                return evaluates and not self._is_of_optimizer(above)
            if Event.BACKWARD in self._events.get(id(above), Event.NOTHING):
                return False  # inside a training loop, whose own context decides
        return self._runs_without_gradients(loop)

    def _runs_without_gradients(self, loop: Loop) -> bool:
        """``for x in loader: ...; with torch.no_grad(): y = model(x)``, beside a training."""
        return self._passes(loop) and any(
            self.turns_gradients_off(block) and runs_model(self._program, block.body)
            for block in self._program.index.below(loop.body, cst.With)
        )

    def is_without_gradients(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in a ``with`` block of its function that turns gradients off."""
        for above in self._program.index.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                return False
            if isinstance(above, cst.With) and self.turns_gradients_off(above):
                return True
        return False

    def _is_of_optimizer(self, function: cst.FunctionDef) -> bool:
        """Whether a function is a method of an optimizer, which steps without gradients."""
        owner = self._program.classes.around(function)
        return owner is not None and any(
            dotted(base.value).endswith("Optimizer") for base in owner.node.bases
        )

    def turns_gradients_off(self, node: cst.With) -> bool:
        """Whether a ``with`` block runs without gradients."""
        return any(self.is_no_grad(item.item) for item in node.items)

    def is_no_grad(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is ``torch.no_grad()`` or one of its kin."""
        func = node.func if isinstance(node, cst.Call) else node
        name = self._program.names.qualified(func)
        if name == "torch.set_grad_enabled" and isinstance(node, cst.Call) and node.args:
            value = node.args[0].value
            return isinstance(value, cst.Name) and value.value == "False"
        return name in _NO_GRAD

    def evaluates(self, function: cst.FunctionDef) -> bool:
        """Whether a function only evaluates: by decorator, by name, or by ``.eval()``."""
        if any(self.is_no_grad(item.decorator) for item in function.decorators):
            return True
        calls = list(self._program.index.below(function, cst.Call))
        methods = {
            call.func.attr.value
            for call in calls
            if isinstance(call.func, cst.Attribute) and not call.args
        }
        name = function.name.value
        trains = _TRAIN_NAME.search(name) is not None
        named = _EVAL_NAME.search(name) is not None and not trains
        if "backward" in methods:
            looks = named and all(map(self.only_looks, self._backwards(function)))
            return looks or self._explains(function)
        if named:
            return True
        if trains or methods & {"zero_grad", "step"}:
            return False
        return any(puts_into_evaluation(call) for call in calls) and not any(
            self._program.qualified(call.func).startswith("torch.optim.") for call in calls
        )

    def role(self, loop: Loop) -> Role:
        """Return what a loop is for."""
        return self._roles[id(loop)]

    def has_steps(self, loop: Loop) -> bool:
        """Whether a loop trains or evaluates, or goes around one that trains."""
        return self._roles[id(loop)] is not Role.OTHER

    def steps(self, loop: Loop) -> bool:
        """Whether a loop itself takes an optimizer step, outside of loops inside it."""
        return Event.STEP in self._events.get(id(loop), Event.NOTHING)

    def updates(self, place: cst.CSTNode, start: int = 0) -> bool:
        """Whether what stands at or below a place, from an order on, goes back or takes a step."""
        index, calls = self._program.index, self._program.calls
        for call in index.below(place, cst.Call):
            if index.order(call) < start:
                continue
            done = (self.done_by(target) for target in calls.targets(call))
            if any(event & _UPDATE for event in (self._event(call), *done)):
                return True
        return any(
            index.inside(call, place)
            and index.order(call) >= start
            and other.program.loops.done_by(other.function) & _UPDATE
            for call, other in self._leaving
        )

    @cached_property
    def training(self) -> list[Loop]:
        """The training loops, in no particular order."""
        loops: list[Loop] = [*self._program.index.of(cst.For), *self._program.index.of(cst.While)]
        return [loop for loop in loops if self._roles[id(loop)] is Role.TRAIN]

    @cached_property
    def trains(self) -> bool:
        """Whether this file trains, or one that imports it takes steps, or calls what does."""
        texts = texts_of_importers(self._program)
        if self.training or self._has_step or any("backward" in text for text in texts):
            return True
        importers = list(programs_of_importers(self._program))
        if any(other.loops.leads for other in importers):
            return True
        return any(_is_part(self._program, other) for other in importers)

    @cached_property
    def _has_step(self) -> bool:
        """Whether a function of the file is a whole training step, for others to call."""
        return any(
            Event.BACKWARD in self.done_by(function)
            and self._of_function(function).role is Role.TRAIN
            for function in self._program.index.of(cst.FunctionDef)
        )

    @cached_property
    def leads(self) -> bool:
        """Whether a loop of the file trains, or calls what does, be it in another file."""
        return any(role in (Role.TRAIN, Role.EPOCH) for role in self._roles.values())

    @cached_property
    def starts(self) -> bool:
        """Whether the file calls a whole training of another file: ``trainer.fit(model)``."""
        return any(
            _UPDATE in other.program.loops.loops_of(other.function)
            for call, other in self._leaving
            if not in_test(self._program, call)
        )

    # -- how often a node runs ---------------------------------------------------------------

    def context(self, node: cst.CSTNode) -> Context:
        """Tell how often a node runs."""
        known, index = self._contexts, self._program.index
        way: list[tuple[cst.CSTNode, cst.CSTNode | None]] = []
        child: cst.CSTNode | None = node
        while child is not None and id(child) not in known:
            above = index.parent(child)
            way.append((child, above))
            child = above
        found = _NOWHERE if child is None else known[id(child)]
        for child, above in reversed(way):
            if above is not None:
                found = self._entered(above, child, found)
            if not self._asking:  # inside a circle of calls the answer is not complete
                known[id(child)] = found
        return found

    def _entered(self, above: cst.CSTNode, child: cst.CSTNode, around: Context) -> Context:
        """How often a node runs, by how often the node above it does."""
        if type(above) in _PLAIN:  # most nodes: that many cases cost a while
            return around
        match above:
            case cst.For() | cst.While() if _repeats(above, child):
                role = self._roles[id(above)]
                if role is Role.EVAL:
                    if (around.guarded and self._shows(above, around)) or self._only_computes(
                        above
                    ):
                        return around
                    return self._evaluation(above)
                return around if role is Role.OTHER else Context(role, loop=above)
            case cst.FunctionDef() if child is above.body:
                return self._of_function(above)
            case cst.If() if around.role in _TRAINING and self._is_for_evaluation(above, child):
                return replace(around, role=Role.EVAL)
            case cst.If() if around.role is Role.TRAIN and self._is_kind_of_step(above):
                return around
            case cst.If(body=body) if child is body and self._is_one_of_kinds(above):
                return around
            case _ if not around.guarded and self._guards(above, child):
                return replace(around, guarded=True)
            case _:
                return around

    def _shows(self, loop: Loop, around: Context) -> bool:
        """Whether a loop that is run now and then shows something, and is no evaluation.

        In a forward pass, or in the step itself, where it goes through no data.
        """
        if around.role is Role.FORWARD:
            return True
        function = self._program.function
        return (
            around.role is Role.TRAIN
            and around.loop is not None
            and function(loop) is function(around.loop)
            and not self._passes(loop)
        )

    def _is_for_evaluation(self, branch: cst.If, child: cst.CSTNode) -> bool:
        """Whether a branch is for the passes of an evaluation, and does not go back."""
        return _is_of_evaluation(branch, child) and not any(
            used.attr.value == "backward"
            for used in self._program.index.below(child, cst.Attribute)
        )

    def _evaluation(self, loop: Loop) -> Context:
        """Return a loop without gradients: evaluation, or a metric of every training step."""
        function = self._program.function(loop)
        if function is not None and not (
            self._is_evaluation(function) or (self._switches(function) and self._passes(loop))
        ):
            caller = self._of_function(function)
            if caller.role is Role.TRAIN:
                return caller
        return Context(Role.EVAL, loop=loop)

    def _only_computes(self, loop: Loop) -> bool:
        """Whether a loop runs no model and takes no batches: over settings, turns or results."""
        program = self._program
        if isinstance(loop, cst.For):
            if goes_through_constants(program, loop):
                return True
            if self.takes_batches(loop):
                return False
        return not runs_model(program, loop.body)

    def _is_evaluation(self, function: cst.FunctionDef) -> bool:
        """Whether a function is an evaluation by its name, or part of such a one."""
        if _named_eval(function):
            return True
        callers = [other.function(call) for other, call in self._program.sites_everywhere(function)]
        return bool(callers) and all(one is not None and _named_eval(one) for one in callers)

    def _of_function(self, function: cst.FunctionDef) -> Context:
        key = id(function)
        found = self._called.get(key) or self._passing.get(key)
        if found is not None:
            return found
        if key in self._asking:
            return _NOWHERE
        self._asking.add(key)
        try:
            found = self._function_context(function)
        finally:
            self._asking.discard(key)
        if self._asking:
            self._passing[key] = found  # a circle of calls may be open
        else:
            self._called[key] = found
            self._passing.clear()
        return found

    def _function_context(self, function: cst.FunctionDef) -> Context:
        name = function.name.value
        if self._is_remembered(function):
            return _NOWHERE
        events = self._events.get(id(function), Event.NOTHING)
        sites = self._program.calls.sites(function)
        updates = Event.BACKWARD in events and bool(events & (Event.STEP | Event.ZERO))
        once = updates and (self._only_once(function, sites) or self.is_whole(function))
        if name in _TRAIN_HOOKS or (updates and not once):
            return Context(Role.TRAIN, loop=function)
        if name in _EVAL_HOOKS:
            return Context(Role.EVAL, loop=function)
        owner = self._program.classes.around(function)
        if owner is not None and owner.is_module and name == "forward":
            return Context(Role.FORWARD, loop=function)
        if (found := self._of_engine(function)) is not None:
            return found
        contexts = [self.context(site) for site in sites]
        contexts += self._contexts_elsewhere(function)
        if not contexts:
            return _NOWHERE
        contexts += [self.context(branch) for branch in self._choices(sites)]
        best = min(contexts, key=lambda c: (_RANK[c.role], c.guarded))
        if best.role is Role.TRAIN and self._trains_in_siblings(function):
            return Context(Role.EVAL, loop=function) if self.evaluates(function) else _NOWHERE
        if best.role is Role.OTHER and self.evaluates(function):
            return _NOWHERE
        if best.role is Role.EVAL and self._holds_evaluation(function):
            return _NOWHERE
        return best

    def _is_remembered(self, function: cst.FunctionDef) -> bool:
        """``@lru_cache(maxsize=8)``: later calls take what the first one gave."""
        marks = (item.decorator for item in function.decorators)
        plain = (mark.func if isinstance(mark, cst.Call) else mark for mark in marks)
        return any(self._program.qualified(mark) in _REMEMBERS for mark in plain)

    def _choices(self, sites: list[cst.Call]) -> Iterator[cst.If]:
        """Yield the branches of which each arm calls a function: one of the calls always runs."""
        for site in sites if len(sites) > 1 else ():
            for above in self._program.index.ancestors(site):
                if isinstance(above, cst.FunctionDef | cst.Lambda | cst.For | cst.While):
                    break
                if isinstance(above, cst.If) and dotted(site.func) in self._called_in_each(above):
                    yield above

    def _of_engine(self, function: cst.FunctionDef) -> Context | None:
        """How often an engine of Ignite runs a function: for each batch, or as a handler."""
        engines = self._program.engines
        if engines.of_process(function) is Role.EVAL:
            return Context(Role.EVAL, loop=function)
        role, skips = engines.of_handler(function)
        return None if role is Role.OTHER else Context(role, skips, function)

    def _trains_in_siblings(self, function: cst.FunctionDef) -> bool:
        """Whether a method is one of those in the place of which other heirs do the training.

        One loop of their base runs all of them, and with this one it trains nothing.
        """
        program = self._program
        owner = program.classes.around(function)
        if owner is None or self.done_by(function) & _UPDATE:
            return False
        return any(
            one.program.loops.done_by(one.function) & _UPDATE
            for other, site in program.sites_everywhere(function)
            for one in other.calls.overrides(site)
        )

    def _holds_evaluation(self, function: cst.FunctionDef) -> bool:
        """Whether a function is a whole evaluation: its loop takes the steps, not its caller's."""
        index, name = self._program.index, function.name.value
        generates = _GENERATES.search(name) is not None
        if not (generates or _WHOLE_NAME.match(name) or self._switches(function)):
            return False
        loops = [*index.below(function, cst.For), *index.below(function, cst.While)]
        return any(
            self._roles[id(loop)] is Role.EVAL
            and (generates or self._passes(loop) or self._splits(function, loop))
            and runs_model(self._program, loop.body)
            for loop in loops
        )

    def _splits(self, function: cst.FunctionDef, loop: cst.BaseCompoundStatement) -> bool:
        """Whether a loop goes through the parts of what the function takes from a loader itself.

        ``for i in range(0, len, size)``, of ``batch = next(iter(loader))``.
        """
        iterated = loop.iter if isinstance(loop, cst.For) else None
        strided = (
            isinstance(iterated, cst.Call)
            and len(iterated.args) == _STRIDED
            and isinstance(iterated.func, cst.Name)
            and iterated.func.value == "range"
        )
        return strided and any(
            isinstance(call.func, cst.Name) and call.func.value == "next"
            for call in self._program.index.below(function, cst.Call)
        )

    def _switches(self, function: cst.FunctionDef) -> bool:
        """Whether a function puts a model into evaluation itself."""
        return any(
            self._program.function(call) is function for call in evaluation_switches(self._program)
        )

    def _passes(self, loop: cst.BaseCompoundStatement) -> bool:
        """Whether a loop goes through data, and not through the turns of one batch."""
        if not isinstance(loop, cst.For):
            return False
        iterated = self._program.code(loop.iter)
        loader = self._program.value(loop.iter).kind is Kind.LOADER
        return loader or any(word in iterated for word in ("load", "data", "batches", "len("))

    def _contexts_elsewhere(self, function: cst.FunctionDef) -> list[Context]:
        """How often the calls of a function in other files of the project run, but for tests."""
        project = self._program.project
        if project is None:
            return []
        tested = in_test(self._program, function)
        callers = [
            (other, call)
            for other, call in project.callers(self._program, function)
            if tested or not in_test(other, call)
        ]
        found = [other.loops.context(call) for other, call in callers]
        return [replace(context, loop=function) for context in found]

    def _only_once(self, function: cst.FunctionDef, sites: list[cst.Call]) -> bool:
        """Whether a function is called, and only from the module's own level, outside any loop."""
        project = self._program.project
        return (
            bool(sites)
            and all(
                self._program.function(site) is None and self._home(site) is self._program.module
                for site in sites
            )
            and not (project is not None and project.callers(self._program, function))
        )

    def is_whole(self, function: cst.FunctionDef) -> bool:
        """Whether a function makes what it steps: a whole fit, in a single call of LBFGS.

        Or calls functions that do, and steps nothing else outside of its loops.
        """
        key = id(function)
        if key not in self._whole:
            self._whole[key] = False  # functions that call one another
            self._whole[key] = Event.STEP in self.done_by(function) and self._fits(function)
        return self._whole[key]

    def _fits(self, function: cst.FunctionDef) -> bool:
        program = self._program
        own = [
            (call, func.value)
            for call, func in program.method_calls("step")
            if self._home(call) is function and self._steps(func.value)
        ]
        called = [
            (program.loops, target)
            for call in program.index.below(function, cst.Call)
            if self._home(call) is function
            for target in program.calls.targets(call)
        ]
        called += [
            (other.program.loops, other.function)
            for call, other in self._leaving
            if self._home(call) is function
        ]
        return all(self._is_new(*step) for step in own) and all(
            loops.is_whole(target)
            for loops, target in called
            if Event.STEP in loops.done_by(target)
        )

    def _guards(self, above: cst.CSTNode, child: cst.CSTNode) -> bool:
        if type(above) not in _GUARDING:  # most nodes: that many cases cost a while
            return False
        match above:
            case cst.IndentedBlock():
                return self._skipped_before(above, child)
            case cst.If() if child is above.body:
                guards = self._guards_body(above) or _is_switch(above.test)
                once = _leaves(above.body) or self._is_default(above.test) or self._starts(above)
                rare = guards or once or self._fills(above) or self._is_flag(above.test)
                rare = rare or is_rare(self._program, above) or self._drops_outlier(above)
                rare = rare or (ends_episode(above.test) and not self.updates(above.body))
                return rare or is_unasked(self._program, above, holds=True)
            case cst.If(test=test) if child is above.orelse and self._draws(test):
                return True
            case cst.If(test=test) if child is above.orelse and _is_switch(test):
                return True
            case cst.If() if child is above.orelse and not isinstance(child, cst.If):
                rare = _leaves(child.body) or self._is_negative_guard(above.test)
                rare = rare or lacks_data(self._program, above, child)
                rare = rare or makes_entry(self._program, above, child.body)
                rare = rare or self._judges_loss(above)
                return rare or is_unasked(self._program, above, holds=False)
            case cst.IfExp() if child is above.body:
                return self.is_guard(above.test)
            case cst.BooleanOperation(operator=cst.And()) if child is above.right:
                return self.is_guard(above.left)
            case cst.ExceptHandler() | cst.ExceptStarHandler():
                return True
            case cst.Assert():
                return child is above.msg
            case cst.Lambda():
                return self._is_default_factory(above)
            case _:
                return False

    def _is_default_factory(self, function: cst.Lambda) -> bool:
        """``defaultdict(lambda: ...)``: called for a key that is not there yet."""
        given = self._program.parent(function)
        call = self._program.parent(given) if isinstance(given, cst.Arg) else None
        return (
            isinstance(call, cst.Call)
            and self._program.qualified(call.func) == "collections.defaultdict"
        )

    def _guards_body(self, branch: cst.If) -> bool:
        """Whether a block runs now and then, and is no part of every step of some trainings."""
        return self.is_guard(branch.test) and not (
            self._is_part_of_step(branch)
            or self._takes_step(branch)
            or self._ends_else(branch)
            or (_has_writer(branch.test) and self._writes_numbers(branch.body))
        )

    def _writes_numbers(self, body: cst.BaseSuite) -> bool:
        """``writer.add_scalar("loss", loss.item(), step)``, and nothing larger beside it."""
        calls = self._program.index.below(body, cst.Call)
        writes = any(dotted(call.func).endswith(".add_scalar") for call in calls)
        lines = (cst.SimpleStatementLine, cst.BaseSmallStatement)
        return writes and all(isinstance(line, lines) for line in body.body)

    def _ends_else(self, branch: cst.If) -> bool:
        """``if time.time() < end: step() else: sys.exit()``: all turns but the last do that."""
        other = branch.orelse
        return (
            isinstance(other, cst.Else)
            and (_last(other.body, (cst.Break, cst.Raise)) or ends_script(other.body))
            and reads_clock(self._program, branch.test)
        )

    def _takes_step(self, branch: cst.If) -> bool:
        """``if (i + 1) % k == 0: optimizer.step()`` with the gradients that k turns have added.

        A pass back in the block itself is an extra of every k steps.
        """
        index = self._program.index
        steps = [
            call
            for call in index.below(branch.body, cst.Call)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and _STEPPED.search(dotted(call.func.value))
        ]
        if not steps or any(True for _ in self._backwards(branch.body)):
            return False
        loop = next(
            (a for a in index.ancestors(branch) if isinstance(a, cst.For | cst.While)), None
        )
        return loop is not None and any(
            index.order(one) < index.order(branch) for one in self._backwards(loop.body)
        )

    def _backwards(self, place: cst.CSTNode) -> Iterator[cst.Attribute]:
        for node in self._program.index.below(place, cst.Attribute):
            if node.attr.value == "backward":
                yield node

    def _judges_loss(self, branch: cst.If) -> bool:
        """``if loss < limit: loss.backward() ... else:``: what few losses, too large, lead to."""
        index = self._program.index
        if any(True for _ in self._backwards(branch.orelse or branch)):
            return False
        asked = {name.value for name in index.below(branch.test, cst.Name)} - {"self"}
        return any(
            name.value in asked
            for one in self._backwards(branch.body)
            for name in index.below(self._program.parent(one) or one, cst.Name)
        )

    def _drops_outlier(self, branch: cst.If) -> bool:
        """``if loss.item() > limit: print(...); continue``: what few losses, too large, lead to."""
        match branch.test:
            case cst.Comparison(left=left, comparisons=[one]):
                pass
            case _:
                return False
        reads = any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value == "item"
            for call in self._program.index.below(left, cst.Call)
        )
        above = isinstance(one.operator, cst.GreaterThan | cst.GreaterThanEqual)
        drops = _last(branch.body, (cst.Continue,))
        return reads and above and drops and not any(True for _ in self._backwards(branch.body))

    def _is_part_of_step(self, branch: cst.If) -> bool:
        """Whether an option says how to train, and not when to look at it.

        Whether by many processes (``args.distributed``), with what number for a function of torch
        below, ``clip_grad_norm_(parameters, args.clip)``, or with what weight a term of the loss.
        """
        option = _asked_option(branch.test)
        if option is None or _GUARD_WORDS.search(dotted(option)):
            return False
        if self._makes_loss(branch.body) and self._weighs(branch.body, option):
            return True
        return _PROCESSES.search(option.attr.value) is not None or any(
            self._program.qualified(call.func).startswith("torch.")
            and any(self._program.same(arg.value, option) for arg in call.args)
            for call in self._program.index.below(branch.body, cst.Call)
        )

    def adds_term(self, call: cst.Call) -> bool:
        """Whether a call is part of one more term of the loss, for which an option asks.

        ``if args.perceptual: ...``: where it is asked for, each step computes it.
        """
        line = self._program.statement(call)
        block = self._program.parent(line)
        branch = None if block is None else self._program.parent(block)
        if not isinstance(branch, cst.If) or not isinstance(block, cst.IndentedBlock):
            return False
        option = _asked_option(branch.test)
        if option is None or _GUARD_WORDS.search(dotted(option)) or not self._makes_loss(block):
            return False
        always = any(one is call for one in self._calls_always(line))
        skipped = self._skipped_before(block, line)
        return always and not skipped and self.context(branch).per_step

    def _weighs(self, place: cst.CSTNode, option: cst.Attribute) -> bool:
        """Whether a place multiplies by an option: ``loss = loss + args.decay * norm``."""
        return any(
            isinstance(node.operator, cst.Multiply)
            and any(self._program.same(side, option) for side in (node.left, node.right))
            for node in self._program.index.below(place, cst.BinaryOperation)
        )

    def _is_kind_of_step(self, branch: cst.If) -> bool:
        """``if args.amp: ... else: ...`` with a loss in each: some trainings always take one.

        Or with what cuts off the gradients of each, or with a read of the same from the GPU, or a
        line for a log.
        """
        option, other = _chosen_option(branch.test), branch.orelse
        if option is None or other is None or _GUARD_WORDS.search(self._program.code(branch.test)):
            return False
        both = self._makes_loss(branch.body) and self._makes_loss(other)
        both = both or (self._clips(branch.body) and self._clips(other))
        both = both or any(map(_TELLS.search, self._called_in_each(branch)))
        return both and not _leaves(branch.body)

    def _is_one_of_kinds(self, branch: cst.If) -> bool:
        """``elif args.method == "mmd": loss += ...``, where others make theirs by other methods.

        Whoever chooses a method computes its term of the loss, or its value of a name that others
        give theirs, in each step.
        """
        option = self._option_of_kind(branch.test)
        if option is None:
            return False
        first, above = branch, self._program.parent(branch)
        while isinstance(above, cst.If) and above.orelse is first:
            first, above = above, self._program.parent(above)
        others: list[cst.BaseSuite] = []
        arm: cst.CSTNode | None = first
        while isinstance(arm, cst.If):
            asked = self._option_of_kind(arm.test)
            if arm is not branch and asked is not None and self._program.same(asked, option):
                others.append(arm.body)
            arm = arm.orelse
        loss, names = self._makes_loss(branch.body), self._given(branch.body)
        return any((loss and self._makes_loss(one)) or names & self._given(one) for one in others)

    def _option_of_kind(self, test: cst.BaseExpression) -> cst.Attribute | None:
        """``args.kind`` where it is asked for a kind, or for its beginning; not whether to log.

        ``args.kind == "a"``, ``args.stage == 2``, ``args.kind in ("a", "b")``,
        ``args.kind.startswith("a")``; also by a name, of ``kind = args.kind``.
        """
        asked: cst.CSTNode
        match test:
            case cst.Comparison(
                left=cst.Name() | cst.Attribute() | cst.Subscript() as asked,
                comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.In(), comparator=one)],
            ) if _is_of_kinds(one):
                asked = asked.value if isinstance(asked, cst.Subscript) else asked
            case cst.Call(
                func=cst.Attribute(value=asked, attr=cst.Name("startswith" | "endswith"))
            ):
                pass
            case _:
                return None
        asked = self._named(asked)
        option = _asked_option(asked) if isinstance(asked, cst.Attribute) else None
        return None if option is None or _GUARD_WORDS.search(dotted(option)) else option

    def _given(self, body: cst.BaseSuite) -> set[str]:
        """Return the names that a block gives a value."""
        targets = self._program.index.below(body, cst.AssignTarget)
        return {dotted(one.target) for one in targets} - {""}

    def _called_in_each(self, branch: cst.If) -> set[str]:
        """Return the names of what each arm of a choice, down to its ``else``, always calls."""
        match branch.orelse:
            case cst.If() as other:
                return self._called_always(branch.body) & self._called_in_each(other)
            case cst.Else(body=body):
                return self._called_always(branch.body) & self._called_always(body)
            case _:
                return set()

    def _called_always(self, block: cst.BaseSuite) -> set[str]:
        """Return the names of what a block calls whenever it runs."""
        found: set[str] = set()
        for line in block.body:
            match line:
                case cst.If():
                    found |= self._called_in_each(line)
                case cst.With(body=body):
                    found |= self._called_always(body)
                case cst.SimpleStatementLine() | cst.BaseSmallStatement():
                    found |= {dotted(call.func) for call in self._calls_always(line)}
                case _:
                    pass
        return found - {""}

    def _calls_always(self, line: cst.CSTNode) -> Iterator[cst.Call]:
        """Yield the calls of a statement that no part of it decides about or puts off."""
        for call in self._program.index.below(line, cst.Call):
            above = self._program.index.ancestors(call)
            inner = itertools.takewhile(lambda one: one is not line, above)
            if not any(isinstance(one, _DECIDING) for one in inner):
                yield call

    def _clips(self, place: cst.CSTNode) -> bool:
        """Whether a place cuts off gradients."""
        return any(
            self._program.qualified(call.func) in torch_api.CLIPS
            for call in self._program.index.below(place, cst.Call)
        )

    def _makes_loss(self, place: cst.CSTNode) -> bool:
        """Whether a place goes back, or gives a name that goes back its value."""
        index, terms = self._program.index, self._program.terms_of_losses
        bound = (index.bound(name) for name in index.below(place, cst.Name))
        return any(True for _ in self._backwards(place)) or any(id(one) in terms for one in bound)

    def _is_flag(self, test: cst.BaseExpression) -> bool:
        """``if not found:`` of what a loop before it may have set: it holds now and then."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name() as name):
                pass
            case cst.Name() as name:
                pass
            case _:
                return False
        values = [binding.value for binding in self._program.flow.reaching(name)]
        found = {value.value for value in values if isinstance(value, cst.Name)}
        if found != {"True", "False"} or not all(isinstance(one, cst.Name) for one in values):
            return False
        return not self._is_given_to_model(name) or any(self._is_counted_off(v) for v in values)

    def _is_counted_off(self, value: cst.CSTNode | None) -> bool:
        """Whether a flag gets a value every n steps."""
        return value is not None and any(
            isinstance(above, cst.If) and counts_off(self._program, above.test)
            for above in self._program.index.ancestors(value)
        )

    def _is_given_to_model(self, flag: cst.Name) -> bool:
        """Whether a flag says how to train, and not when to look: the model gets it as well."""
        return any(
            isinstance(arg.value, cst.Name)
            and arg.value.value == flag.value
            and self._program.value(call.func).kind is Kind.MODULE
            for call in self._program.index.of(cst.Call)
            for arg in call.args
        )

    def _is_default(self, test: cst.BaseExpression) -> bool:
        """``if length is None:`` of a parameter that some calls pass, and others may not."""
        match test:
            case cst.Comparison(
                left=cst.Name() as name,
                comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
            ):
                bindings = self._program.flow.reaching(name)
            case _:
                return False
        match [binding.value for binding in bindings]:
            case [cst.Param(default=cst.Name("None")) as param]:
                function = self._program.function(param)
            case _:
                return False
        program = self._program
        return function is not None and any(
            program.calls.passed(function, param, site) is not None
            for _, site in program.sites_everywhere(function)
        )

    def _starts(self, branch: cst.If) -> bool:
        """``if found is None: found = ...`` of what stays so: the first turn alone."""
        match branch.test:
            case cst.Comparison(
                left=cst.Name() | cst.Attribute() as kept,
                comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
            ) if dotted(kept) in self._given(branch.body):
                pass
            case _:
                return False
        if isinstance(kept, cst.Attribute):
            return dotted(kept).startswith("self.")
        loop = next(
            (
                a
                for a in self._program.index.ancestors(branch)
                if isinstance(a, cst.For | cst.While)
            ),
            None,
        )
        bindings = self._program.flow.reaching(kept)
        return loop is not None and all(
            binding.kind is not Bind.PARAMETER
            and not (_is_none(binding) and self._program.index.inside(binding.node, loop))
            for binding in bindings
        )

    def _fills(self, branch: cst.If) -> bool:
        """``if not found: found.append(...)`` of what stays filled: the first turn alone."""
        kept = _empty(branch.test)
        if kept is None or not any(_fills(line, kept) for line in branch.body.body):
            return False
        program = self._program
        for call, func in program.method_calls(*_EMPTIES):
            if dotted(func.value) == kept and program.function(call) is program.function(branch):
                return False
        if kept.startswith("self."):
            return True
        above = program.index.ancestors(branch)
        loop = next((one for one in above if isinstance(one, cst.For | cst.While)), None)
        names = program.index.below(branch.test, cst.Name)
        name = next((one for one in names if one.value == kept), None)
        if loop is None or name is None:
            return False
        return all(
            binding.kind is not Bind.PARAMETER
            and (
                not program.index.inside(binding.node, loop)
                or program.index.inside(binding.node, branch.body)
            )
            for binding in program.flow.reaching(name)
        )

    def _is_negative_guard(self, test: cst.BaseExpression) -> bool:
        return (
            isinstance(test, cst.Comparison)
            and any(isinstance(item.operator, cst.NotEqual) for item in test.comparisons)
            and self.is_guard(test)
        )

    def _skipped_before(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """``if step % n: continue`` guards what follows."""
        first = self._skips.get(id(block))
        if first is None:
            order = self._program.index.order
            places = (order(one) for one in block.body if self._skips_rest(one))
            first = self._skips[id(block)] = next(places, sys.maxsize)
        return first < self._program.index.order(child)

    def _skips_rest(self, statement: cst.CSTNode) -> bool:
        if not isinstance(statement, cst.If) or statement.orelse is not None:
            return False
        if _last(statement.body, (cst.Continue,)):
            # `if i == 0: continue` leaves out one turn: the others are the rule
            rare = self.is_guard(statement.test, few=False) or self._waits(statement.test)
            return rare and not (self._is_other_step(statement) or self._precedes_step(statement))
        block = self._program.parent(statement)
        return (
            block is not None
            and isinstance(self._program.parent(block), cst.FunctionDef)
            and _last(statement.body, (cst.Return,))
            and (self._mostly(statement.test) or self._waits(statement.test))
        )

    def _is_other_step(self, branch: cst.If) -> bool:
        """``if done < args.warmup: loss.backward(); optimizer.step(); continue``.

        The turns before a limit, or all of them, take a step of another kind: what follows is the
        whole step of the rest.  Counted off or drawn, it is that of some turns.
        """
        index, block = self._program.index, self._program.parent(branch)
        test = branch.test
        if (
            counts_off(self._program, test)
            or self._draws(test)
            or self._waits(test)
            or block is None
        ):
            return False
        both = any(True for _ in self._backwards(branch.body))
        return both and any(
            index.order(one) > index.order(branch) and not index.inside(one, branch)
            for one in self._backwards(block)
        )

    def _precedes_step(self, branch: cst.If) -> bool:
        """``if loss == 0 or isnan(loss): continue``: the turns that go on take the whole step.

        Whatever the others are left out for: a batch without a target, steps that a resumed run
        has done.  Not if it is counted off or drawn, which some turns of many are.
        """
        block, test = self._program.parent(branch), branch.test
        if (
            block is None
            or counts_off(self._program, test)
            or self._draws(test)
            or self._waits(test)
        ):
            return False
        passes = [self._program.index.order(one) for one in self._backwards(block)]
        return bool(passes) and min(passes) > self._program.index.order(branch.body.body[-1])

    def _waits(self, test: cst.BaseExpression) -> bool:
        """``step - last < 100``, ``done or step != first``: true in nearly all of the turns."""
        match test:
            case cst.BooleanOperation(operator=cst.Or()):
                return self._waits(test.left) or self._waits(test.right)
            case cst.Comparison(
                left=cst.BinaryOperation(operator=cst.Subtract(), left=left),
                comparisons=[cst.ComparisonTarget(operator=cst.LessThan() | cst.LessThanEqual())],
            ):
                return _counts_turns(left)
            case cst.Comparison(
                left=left, comparisons=[cst.ComparisonTarget(operator=cst.NotEqual())]
            ):
                return _counts_turns(left)
            case _:
                return False

    def _mostly(self, test: cst.BaseExpression) -> bool:
        """``step % n``, ``not args.log``, ``writer is None``: what comes after `return` is rare."""
        match test:
            case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
                return self._mostly(left) or self._mostly(right)
            case cst.BinaryOperation(operator=cst.Modulo()):
                return True
            case cst.Comparison(
                left=cst.BinaryOperation(operator=cst.Modulo()),
                comparisons=[cst.ComparisonTarget(operator=cst.NotEqual())],
            ):
                return True
            case (
                cst.UnaryOperation(operator=cst.Not(), expression=asked)
                | cst.Comparison(
                    left=asked,
                    comparisons=[
                        cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))
                    ],
                )
            ):
                return picks_process(self._program, asked) or any(
                    _WANTED.search(name.value) or name.value in OPTION_ROOTS
                    for name in self._program.index.below(asked, cst.Name)
                )
            case _:
                return False

    def is_guard(self, test: cst.BaseExpression, *, few: bool = True) -> bool:
        """Whether a condition holds only now and then: every n steps, or on request.

        On the first rank of many, in each step, is often: the others wait for that one.  ``few``:
        so does one that holds for a value of many, or in the first turns.
        """
        index, named = self._program.index, self._named(test)
        if trains_alone(test) or is_of_first(named) or holds_by_default(self._program, test):
            return False
        if counts_off(self._program, test) or self._counts_off_by_names(named):
            return True
        sides = _sides(named)
        if any(map(is_of_first, sides)):
            return any(self.is_guard(side, few=few) for side in sides)
        if isinstance(test, cst.Call) and dotted(test.func) == "isinstance":
            return True  # not whatever comes is of that type
        for name in index.below(test, cst.Name):
            if _GUARD_WORDS.search(name.value) or name.value in OPTION_ROOTS:
                return True
        drawn = any(map(self._draws, sides or (test,)))
        return drawn or (few and self._counts(test)) or picks_process(self._program, test)

    def _counts_off_by_names(self, test: cst.CSTNode) -> bool:
        """``early or late``, of ``early = step % 9 == 0 and step < 99; late = step % 99 == 0``."""
        match test:
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                found = [self._counts_off_by_names(side) for side in (left, right)]
                return any(found) if isinstance(operator, cst.And) else all(found)
            case cst.Name():
                made = self._named(test)
                return isinstance(made, cst.BaseExpression) and counts_off(self._program, made)
            case _:
                return False

    def _draws(self, test: cst.CSTNode) -> bool:
        """``random.random() < rate``, be it by a name: some of the turns, in either branch."""
        if "rand" not in self._program.text:
            return False
        test = self._named(test)
        return isinstance(test, cst.Comparison) and any(
            _is_draw(side) for side in (test.left, *(one.comparator for one in test.comparisons))
        )

    def _named(self, test: cst.CSTNode) -> cst.CSTNode:
        """Return the expression that a name stands for, where it is one."""
        bindings = self._program.flow.reaching(test) if isinstance(test, cst.Name) else ()
        made = bindings[0] if len(bindings) == 1 else None
        found = made is not None and made.is_plain
        return made.value if made is not None and made.value is not None and found else test

    def _counts(self, test: cst.BaseExpression) -> bool:
        """``i == 0``, ``step == len(loader) - 1``, ``i < 4``, ``i in shown``: one step of many."""
        for node in self._program.index.below(test, cst.Comparison):
            for item in node.comparisons:
                if isinstance(item.operator, cst.In) and _counts_turns(node.left):
                    return True
                if (
                    isinstance(item.operator, cst.Equal)
                    and isinstance(item.comparator, (cst.Integer, cst.BinaryOperation))
                    and isinstance(node.left, (cst.Name, cst.BinaryOperation))
                    and not is_zero(node.left)
                ):
                    return True
                below = isinstance(item.operator, cst.LessThan | cst.LessThanEqual)
                if below and isinstance(item.comparator, cst.Integer) and self._numbers(node.left):
                    return True
        return False

    def _numbers(self, node: cst.BaseExpression) -> bool:
        """Whether a name is the number of a turn: of ``enumerate`` or of ``range``."""
        for binding in self._program.flow.reaching(node) if isinstance(node, cst.Name) else ():
            match binding.value:
                case cst.Call(func=cst.Name(value="enumerate" | "range" as counts)):
                    whole = binding.path == () if counts == "range" else binding.path == (0,)
                    return binding.kind is Bind.FOR and whole
                case _:
                    pass
        return False


def _has_writer(test: cst.BaseExpression) -> bool:
    """``writer is not None``: there is one for a whole training, which is then told, or none."""
    match test:
        case cst.Comparison(
            left=asked, comparisons=[cst.ComparisonTarget(cst.IsNot(), cst.Name("None"))]
        ):
            return _WRITER.search(dotted(asked)) is not None
        case _:
            return _WRITER.search(dotted(test)) is not None


def _asked_option(test: cst.BaseExpression) -> cst.Attribute | None:
    """``args.clip`` in ``if args.clip:``, ``args.clip is not None`` and ``args.clip > 0``.

    And in ``args.clip != 0.0``, ``self.args.clip``, ``args.train.clip``.
    """
    match test:
        case cst.Comparison(
            left=asked,
            comparisons=[
                cst.ComparisonTarget(operator=cst.IsNot(), comparator=cst.Name("None"))
                | cst.ComparisonTarget(
                    operator=cst.GreaterThan(), comparator=cst.Integer("0" | "1")
                )
                | cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.NotEqual(),
                    comparator=cst.Integer("0") | cst.Float("0.0" | "0."),
                )
            ],
        ):
            pass
        case _:
            asked = test
    root, _, option = dotted(asked).removeprefix("self.").partition(".")
    return asked if isinstance(asked, cst.Attribute) and option and root in OPTION_ROOTS else None


def _chosen_option(test: cst.BaseExpression) -> cst.Attribute | None:
    """``args.clip`` as above, and ``args.kind`` in ``args.kind == "a"`` and ``... != "a"``.

    Also ``args.first`` in ``epoch > args.first``, on which the steps of whole epochs depend.
    """
    match test:
        case cst.Comparison(
            left=cst.Name(value=count),
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=asked)],
        ) if isinstance(operator, _ORDERS) and "epoch" in count:
            return _asked_option(asked)
        case cst.Comparison(
            left=asked,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Equal() | cst.NotEqual(), comparator=cst.SimpleString()
                )
            ],
        ):
            return _asked_option(asked)
        case _:
            return _asked_option(test)


def _is_of_kinds(node: cst.BaseExpression) -> bool:
    """``"a"``, ``2``, ``("a", "b")``."""
    match node:
        case cst.Set() | cst.Tuple() | cst.List():
            return all(_is_of_kinds(one.value) for one in node.elements)
        case _:
            return isinstance(node, cst.SimpleString | cst.Integer)


def _counts_turns(node: cst.BaseExpression) -> bool:
    """``step``, ``self.iteration``: what has another value in each turn."""
    return _COUNTER.search(dotted(node).rpartition(".")[2]) is not None


def _is_none(binding: Binding) -> bool:
    return isinstance(binding.value, cst.Name) and binding.value.value == "None"


def _sides(test: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """Return both sides of ``a and b``; nothing of another condition."""
    match test:
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return left, right
        case _:
            return ()


def _is_draw(node: cst.BaseExpression) -> bool:
    """``random.random()``, ``torch.rand([]).item()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=drawn, attr=cst.Name(value="item")), args=[]):
            return _is_draw(drawn)
        case cst.Call(func=func):
            return _DRAWS.fullmatch(dotted(func)) is not None
        case _:
            return False


def _is_of_evaluation(branch: cst.If, child: cst.CSTNode) -> bool:
    """``if phase == "valid":``, ``if not self.training:``: what is no training, of what does both.

    Also ``if stage != Stage.TRAIN:``, and the ``else`` of the opposite: of ``if train:``.
    """
    alone = child is branch.body or isinstance(child, cst.Else)
    return alone and truth(branch.test, _asks_to_train) is (child is not branch.body)


def _asks_to_train(test: cst.BaseExpression) -> bool | None:
    """What a condition without ``and`` and ``or`` comes to in training; None where that is open."""
    match test:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return True if _SWITCH.fullmatch(name) else None
        case cst.Comparison(
            left=cst.Attribute() as asked,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Is() | cst.Equal(), comparator=cst.Name("True" | "False" as to)
                )
            ],
        ):
            trains = _asks_to_train(asked)
            return None if trains is None else trains is (to == "True")
        case cst.Comparison(
            left=cst.Name() | cst.Attribute(),
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Equal() | cst.NotEqual() as operator,
                    comparator=cst.SimpleString() | cst.Attribute() as to,
                )
            ],
        ):
            phase, equal = _phase(to), isinstance(operator, cst.Equal)
            if _TRAINS.fullmatch(phase):
                return equal
            return not equal if _EVALUATES.fullmatch(phase) else None
        case _:
            return None


def _phase(named: cst.SimpleString | cst.Attribute) -> str:
    """Return the text of ``"train"``, the name of the constant ``Stage.TRAIN``."""
    if isinstance(named, cst.SimpleString):
        return str(named.evaluated_value)
    return named.attr.value if named.attr.value.isupper() else ""


def _is_kept_mode(node: cst.BaseExpression) -> bool:
    """``mode``, of ``model.train(mode)``: what it was before."""
    return isinstance(node, cst.Name) and node.value != "True"


def _empty(test: cst.BaseExpression) -> str | None:
    """Return the name in ``not found`` and ``len(found) == 0``."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=kept):
            pass
        case cst.Comparison(
            left=cst.Call(func=cst.Name("len"), args=[cst.Arg(value=kept)]),
            comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Integer("0"))],
        ):
            pass
        case _:
            return None
    return dotted(kept) or None


def _fills(line: cst.CSTNode, kept: str) -> bool:
    """Whether a line of a block gives a name its value, or puts something in it."""
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.Call(func=cst.Attribute(value=filled, attr=attr)))]
        ):
            return attr.value in _GROWS and dotted(filled) == kept
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[only], value=value)]):
            target = only.target
            set_to = target.value if isinstance(target, cst.Subscript) else target
            return dotted(set_to) == kept and not _is_empty(value)
        case _:
            return False


def _is_empty(value: cst.BaseExpression) -> bool:
    match value:
        case cst.Name(value="None" | "False") | cst.Integer(value="0"):
            return True
        case cst.List(elements=[]) | cst.Tuple(elements=[]) | cst.Dict(elements=[]):
            return True
        case _:
            return False


def _named_eval(function: cst.FunctionDef) -> bool:
    return _EVAL_NAME.search(function.name.value) is not None


def _is_switch(test: cst.BaseExpression) -> bool:
    """``if self.onnx:``: what an instance was made for; training itself is no such choice."""
    match test:
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            return not any(word in name for word in ("train", "cuda", "gpu", "device"))
        case _:
            return False


def _pass_of(loop: cst.BaseCompoundStatement) -> Event:
    """Return the mark of a loop that may go through data: ``range(3)`` gives turns with a batch."""
    return Event.NOTHING if _is_count(loop) else Event.PASS


def _is_count(loop: cst.BaseCompoundStatement) -> bool:
    match loop:
        case cst.For(iter=cst.Call(func=cst.Name("range"), args=args)):
            return not any(isinstance(arg.value, cst.Call) for arg in args)
        case _:
            return False


def _holds_turns(loop: Loop, below: Event) -> bool:
    """Whether a loop through data takes a step of its own beside loops that count turns.

    Those are several steps, or parts of one, of the same batch.
    """
    return isinstance(loop, cst.For) and not _is_count(loop) and Event.PASS not in below


def _is_part(program: Program, other: Program) -> bool:
    """Whether the modules of a file are parts of those of another, which a third one trains."""
    texts = (program.text, other.text)
    return all("def forward(" in text for text in texts) and any(
        "backward" in text for text in texts_of_importers(other)
    )


def _over_parameters(iterated: cst.BaseExpression) -> bool:
    """``for name, value in model.named_parameters()``: no turn of it is a step."""
    match iterated:
        case cst.Call(func=cst.Name(value="list" | "enumerate" | "zip"), args=[arg, *_]):
            return _over_parameters(arg.value)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="items"), value=inner)):
            return isinstance(inner, cst.Call) and _over_parameters(inner)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in GIVES_PARTS
        case _:
            return False


def _repeats(above: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Whether a node below a loop runs in each of its turns."""
    if isinstance(above, cst.While):
        return child is not above.orelse
    return isinstance(above, cst.For) and child is above.body


def _leaves(body: cst.BaseSuite) -> bool:
    """Whether a block ends the loop: what it holds runs at most once."""
    return _last(body, _ENDS) or ends_script(body)


def ends_script(body: cst.BaseSuite) -> bool:
    """Whether a block ends with a call that ends the script."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
        return dotted(last.value.func) in ("sys.exit", "exit", "quit", "os._exit")
    return False


def _last(body: cst.BaseSuite, kinds: tuple[type[cst.CSTNode], ...]) -> bool:
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, kinds)
