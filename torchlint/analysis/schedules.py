"""Schedules of the learning rate: where they are moved on, and whether their optimizer has stepped.

What a scheduler is made with, and where its optimizer takes its steps, may stand in other files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis.derivation import sources
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.movers import is_moved_by
from torchlint.analysis.origins import origins
from torchlint.analysis.reach import passed
from torchlint.analysis.scaling import exclusive
from torchlint.analysis.usage import scales_loss
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.hoisting import Loop
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

Place: TypeAlias = "tuple[Program, cst.CSTNode]"
_Question: TypeAlias = "Callable[[Program, cst.Call, int], bool]"

SCHEDULERS = "torch.optim.lr_scheduler."
_DEPTH = 4  # calls between a loop and the step that it takes
_MOST = 50  # places that a value may come from
# Their subclasses may count as they like, or not at all.
_BASES = frozenset({"_LRScheduler", "LRScheduler", "ReduceLROnPlateau"})
# By which arguments they are told how many steps to take.
_COUNTED = {
    f"{SCHEDULERS}OneCycleLR": ("total_steps", "steps_per_epoch"),
    f"{SCHEDULERS}CyclicLR": ("step_size_up",),
}
# Of which the second learning rate is another than the first, which does not come again.
_CHANGING = frozenset(
    f"{SCHEDULERS}{name}" for name in ("ExponentialLR", "LinearLR", "OneCycleLR", "PolynomialLR")
)
_NO_OPTIMIZERS = re.compile(r"sched|lr|warm_?up|env|prof|bar|timer", re.IGNORECASE)
_OPTIMIZER = re.compile(r"optim|^opt|opt$", re.IGNORECASE)
# Functions that are not seen, and that take steps by their names.
_TRAINS = re.compile(
    r"(pre)?train(_(one_?)?(epoch|step|batch|iter|model|net)\w*)?|fit\w*|learn|optimi[sz]e\w*"
    r"|(run|do)_(\w+_)?(epoch|step|train)\w*|warm_?up"
)
_TRAINERS = re.compile(r"train|agent|runner|learner|solver|engine", re.IGNORECASE)
# What a condition asks that does not hold in the first turn.
_COUNTERS = re.compile(
    r"epoch|iter|step|warm|start|resum|first|count|batch|idx|(^|_)[eijkt]($|_)", re.IGNORECASE
)


def made_of(program: Program, node: cst.CSTNode, depth: int = 0) -> list[Place]:
    """Return the expressions that a value may be, each with its file, arguments in others too."""
    found: dict[int, Place] = {}
    seen: set[int] = set()
    todo: list[Place] = [(program, node)]
    while todo and len(seen) < _MOST:
        home, current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for one in origins(home, current):
            given = list(_given(home, one)) or list(_kept(home, one, depth))
            todo += given
            if not given and dotted(one) != "None":
                found[id(one)] = home, one
    return list(found.values())


def _given(program: Program, node: cst.CSTNode) -> Iterator[Place]:
    """Yield what calls in any file pass for a parameter."""
    bindings = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    for binding in bindings:
        if isinstance(binding.value, cst.Param):
            function = program.parent(program.parent(binding.value) or binding.value)
            if isinstance(function, cst.FunctionDef):
                yield from passed(program, function, binding.value)


def _kept(program: Program, node: cst.CSTNode, depth: int) -> Iterator[Place]:
    """Yield what an object keeps under a name: ``model.scheduler``, where its class is seen.

    Nothing where somebody else gives objects something of that name.
    """
    if not isinstance(node, cst.Attribute) or depth > _DEPTH:
        return
    name, owners = node.attr.value, list(_classes(program, node.value, depth + 1))
    for found in owners:
        if found is None or any(_is_given(home, name) for home in (program, found[0])):
            return
    for home, owner in filter(None, owners):
        for store in home.classes.stores(owner, name):
            if store.value is not None and not store.path:
                yield home, store.value


def _classes(
    program: Program, node: cst.CSTNode, depth: int
) -> Iterator[tuple[Program, Class] | None]:
    """Yield the classes that an object may be of, wherever it is moved; None for one not seen."""
    for home, made in made_of(program, node, depth):
        inner = _moved(home, made)
        if inner is not None and depth <= _DEPTH:
            yield from _classes(home, inner, depth + 1)
        else:
            name = home.qualified(made.func) if isinstance(made, cst.Call) else ""
            yield home.class_named(name) if name else None


def _moved(program: Program, made: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what a call only puts on a device: ``net`` in ``net.cuda()`` and ``to_gpu(net)``."""
    match made:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("cuda" | "to"))):
            return inner
        case cst.Call(args=[cst.Arg(value=inner), *_]) if is_moved_by(program, made, inner):
            return inner
        case _:
            return None


def _is_given(program: Program, name: str) -> bool:
    """``model.scheduler = ...``: an object gets something of a name from somebody else."""
    return any(
        isinstance(above := program.parent(one), cst.Attribute)
        and above.attr is one
        and dotted(above.value) != "self"
        and isinstance(program.parent(above), cst.AssignTarget)
        for one in program.index.named.get(name, ())
    )


def schedulers(program: Program, receiver: cst.BaseExpression) -> list[tuple[Program, cst.Call]]:
    """Return the calls that make a scheduler of torch; empty where it may be something else."""
    made = made_of(program, receiver)
    calls = [(home, node) for home, node in made if isinstance(node, cst.Call)]
    known = len(calls) == len(made) and all(_is_scheduler(home, call) for home, call in calls)
    return calls if known else []


def _is_scheduler(program: Program, call: cst.Call) -> bool:
    """Whether a call makes one that counts its steps, by torch's own rules.

    A class with a ``get_lr`` of its own sets its first rate as it is made, as torch's do.
    """
    name = program.qualified(call.func)
    if name.startswith("transformers."):
        last = name.rpartition(".")[2]
        return last.startswith("get_") and "schedule" in last
    if _is_of_torch(name):
        return True
    found = program.class_named(name) if name else None
    if found is None:
        return False
    lineage = found[0].classes.lineage(found[1])
    methods = {name: method for one in lineage for name, method in one.methods.items()}
    if "step" in methods:
        return False
    rates = methods.get("get_lr")
    if rates is None:
        return any(_is_of_torch(base) for one in lineage for base in one.bases)
    extends = any(base.startswith(SCHEDULERS) for one in lineage for base in one.bases)
    return extends and _asks_count(found[0], rates)


def _asks_count(program: Program, rates: cst.FunctionDef) -> bool:
    """Whether rates follow from the steps that torch counts, and are not 0 before the first.

    A warm-up from 0 (``rate * self.last_epoch / total``) is moved on first so that it learns.
    """
    counts = [
        node
        for node in program.index.below(rates, cst.Attribute)
        if dotted(node) == "self.last_epoch"
    ]
    return bool(counts) and not any(_is_factor(program, count) for count in counts)


def _is_factor(program: Program, node: cst.BaseExpression) -> bool:
    """Whether all of a value is multiplied by an expression."""
    above = program.parent(node)
    while isinstance(above, cst.BinaryOperation) and isinstance(
        above.operator, cst.Multiply | cst.Divide
    ):
        node, above = above, program.parent(above)
    return isinstance(above, cst.Return | cst.ListComp | cst.Assign | cst.Element)


def _is_of_torch(name: str) -> bool:
    return name.startswith(SCHEDULERS) and name.removeprefix(SCHEDULERS) not in _BASES


def moves(program: Program) -> Iterator[tuple[cst.Call, Schedule]]:
    """Yield the calls ``scheduler.step()`` of torch's schedulers that are lines of their own.

    ``step(epoch)`` sets the learning rate of that epoch, whatever came before.
    """
    for call, func in program.method_calls("step"):
        if call.args or not isinstance(program.parent(call), cst.Expr):
            continue
        kind = program.value(func.value).kind
        if kind not in (Kind.SCHEDULER, Kind.UNKNOWN, Kind.INSTANCE, Kind.NONE):
            continue
        made = schedulers(program, func.value)
        if made:
            yield call, Schedule(program, call, made)


@dataclass(frozen=True, slots=True)
class Early:
    """A scheduler is moved on before its optimizer steps: in each step, or in each epoch."""

    each_step: bool


@dataclass(eq=False)
class Schedule:
    """A place where a scheduler is moved on, and what makes the scheduler."""

    program: Program
    call: cst.Call
    made: list[tuple[Program, cst.Call]]
    _known: dict[tuple[str, int], bool] = field(default_factory=dict)

    @cached_property
    def _optimizers(self) -> list[Place]:
        given = [(home, _first_argument(call)) for home, call in self.made]
        return [(home, node) for home, node in given if node is not None]

    @cached_property
    def _makers(self) -> list[Place]:
        return [place for home, node in self._optimizers for place in made_of(home, node)]

    @cached_property
    def _names(self) -> set[str]:
        return {_last(node) for _, node in self._optimizers} - {""}

    def early(self) -> Early | None:
        """Return how the scheduler is moved on too early, where that is seen."""
        return self._early(self.program, self.call, None, 0)

    def _early(
        self, program: Program, node: cst.Call, found: Early | None, depth: int
    ) -> Early | None:
        """Look for the loop in which both stand: around the place, or around what calls it."""
        loop = next(loops_around(program, node), None)
        function = program.function(node)
        region = _turn(program, node)
        if region is None or depth > _DEPTH or self._steps_before(program, region, node):
            return None
        after = self._step_after(program, region, node)
        if not self._runs_first(program, node, region, after):
            return None
        if found is None and after is not None:
            found = Early(each_step=_is_in_turn(program, after, loop))
        if loop is not None:
            return None if self._has_stepped(program, loop, 0) else found
        assert function is not None
        sites = program.sites_everywhere(function)
        above = [self._early(home, site, found, depth + 1) for home, site in sites]
        return above[0] if above and None not in above else None

    def changes_at_once(self) -> bool:
        """Whether the first step certainly leaves the first learning rate, and for good."""
        return all(home.qualified(call.func) in _CHANGING for home, call in self.made)

    def is_alone(self) -> bool:
        """Whether no other call of the file moves the scheduler on, and no function gets it."""
        program, mine = self.program, {id(call) for _, call in self.made}
        others = [
            func.value for call, func in program.method_calls("step") if call is not self.call
        ]
        given = [arg.value for call in program.index.of(cst.Call) for arg in call.args]
        named = (node for node in [*others, *given] if isinstance(node, cst.Name | cst.Attribute))
        return not any(id(one) in mine for node in named for one in origins(program, node))

    # -- before and after ---------------------------------------------------------------------

    def _steps_before(self, program: Program, region: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether the optimizer may step in a region before a node."""
        order = program.index.order
        return any(
            order(call) < order(node) and self._may_step(program, call, 0)
            for call in _calls(program, region, node)
        )

    def _step_after(
        self, program: Program, region: cst.CSTNode, node: cst.CSTNode
    ) -> cst.Call | None:
        """Return the first call in a region after a node in which the optimizer steps."""
        end = program.index.end(node)
        for call in _calls(program, region, node):
            if program.index.order(call) > end and self._steps(program, call, 0):
                return call
        return None

    def _has_stepped(self, program: Program, node: cst.CSTNode, depth: int) -> bool:
        """Whether the optimizer may have stepped before a loop, in its function or around that."""
        function = program.function(node)
        if self._steps_before(program, function or program.module, node):
            return True
        if function is None or depth > _DEPTH:
            return False
        made = self._makers
        if made and all(
            home is program and program.index.inside(one, function) for home, one in made
        ):
            return False  # there was no such optimizer before
        sites = program.sites_everywhere(function)
        return any(self._has_stepped(home, site, depth + 1) for home, site in sites)

    def _runs_first(
        self, program: Program, node: cst.CSTNode, region: cst.CSTNode, after: cst.Call | None
    ) -> bool:
        """Whether a node runs in the first turn of a region, or together with the step after it."""
        child = node
        for above in program.index.ancestors(node):
            if above is region or (after is not None and program.index.inside(after, child)):
                return True
            if isinstance(above, cst.ExceptHandler | cst.Lambda):
                return False
            if isinstance(above, cst.If) and not _is_option(program, above.test, region):
                return False
            child = above
        return True

    # -- what takes a step --------------------------------------------------------------------

    def _steps(self, program: Program, call: cst.Call, depth: int) -> bool:
        """Whether a call is seen to step the optimizer."""
        receiver = _stepped(program, call)
        if receiver is not None and _is_optimizer(program, receiver):
            return self._is_same(program, receiver)
        return any(
            self._in_function(self._steps, home, function, depth)
            for home, function in _functions(program, call)
        )

    def _in_function(
        self, asked: _Question, program: Program, function: cst.FunctionDef, depth: int
    ) -> bool:
        """Whether a question is answered yes for a call in a function."""
        key = asked.__name__, id(function)
        if key not in self._known and depth < _DEPTH:
            self._known[key] = False  # functions that call one another
            calls = program.index.below(function.body, cst.Call)
            self._known[key] = any(asked(program, call, depth + 1) for call in calls)
        return self._known.get(key, False)

    def _may_step(self, program: Program, call: cst.Call, depth: int) -> bool:
        """Whether a call may step the optimizer: nothing says that it does not."""
        receiver = _stepped(program, call)
        functions = _functions(program, call)
        if functions:
            return any(self._in_function(self._may_step, *one, depth) for one in functions)
        if receiver is not None:
            known = program.value(receiver).kind is Kind.SCHEDULER
            named = _NO_OPTIMIZERS.search(_last(receiver))
            return not (known or named or self._is_other(program, receiver))
        return scales_loss(call) or _trains_by_name(call)

    def _is_same(self, program: Program, receiver: cst.BaseExpression) -> bool:
        """Whether an optimizer is the one that the schedule is for; any, where that is unknown."""
        if not self._names and not self._makers:
            return True
        made = {id(node) for _, node in made_of(program, receiver)}
        if made & {id(node) for _, node in self._makers}:
            return True
        return _last(receiver) in self._names and not self._is_other(program, receiver)

    def _is_other(self, program: Program, receiver: cst.BaseExpression) -> bool:
        """Whether an optimizer is certainly another than that of the schedule."""
        made = made_of(program, receiver)
        known = made and self._makers and all(map(_makes_optimizer, [*made, *self._makers]))
        mine = {id(node) for _, node in self._makers}
        return bool(known) and mine.isdisjoint(id(node) for _, node in made)


def counts_batches(program: Program, made: cst.Call) -> bool:
    """Whether a scheduler is made for the batches of a loader: ``steps_per_epoch=len(loader)``."""
    name = program.qualified(made.func)
    given = (program.argument(made, param, name) for param in _COUNTED.get(name, ()))
    found = sources(program, [node for one in given for node in one.values])
    return any(
        dotted(node.func) == "len"
        and len(node.args) == 1
        and program.value(node.args[0].value).kind is Kind.LOADER
        for one in found.expressions.values()
        for node in program.index.below(one, cst.Call)
    )


def _first_argument(call: cst.Call) -> cst.BaseExpression | None:
    for place, arg in enumerate(call.args):
        if arg.star:
            return None
        if (arg.keyword is None and place == 0) or (
            arg.keyword is not None and arg.keyword.value == "optimizer"
        ):
            return arg.value
    return None


def _last(node: cst.CSTNode) -> str:
    return dotted(node).rpartition(".")[2]


def _calls(program: Program, region: cst.CSTNode, node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the calls of a region that run in the function of a node, and not instead of it."""
    function = program.function(node)
    for call in program.index.below(region, cst.Call):
        if (
            call is not node
            and program.function(call) is function
            and not exclusive(program, call, node)
        ):
            yield call


def _stepped(program: Program, call: cst.Call) -> cst.BaseExpression | None:
    """Return what a call ``x.step()`` or ``scaler.step(x)`` steps."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "step":
        return None
    scales = program.value(func.value).kind is Kind.SCALER or "scaler" in _last(func.value)
    return call.args[0].value if scales and call.args else func.value


def _is_in_turn(program: Program, step: cst.Call, loop: Loop | None) -> bool:
    """Whether a loop itself steps, and not one inside it."""
    return _stepped(program, step) is not None and next(loops_around(program, step), None) is loop


def _is_optimizer(program: Program, node: cst.BaseExpression) -> bool:
    if program.value(node).kind is Kind.OPTIMIZER:
        return True
    name = _last(node)
    return _OPTIMIZER.search(name) is not None and not _NO_OPTIMIZERS.search(name)


def _makes_optimizer(place: Place) -> bool:
    home, node = place
    return isinstance(node, cst.Call) and home.value(node).kind is Kind.OPTIMIZER


def _functions(program: Program, call: cst.Call) -> list[tuple[Program, cst.FunctionDef]]:
    own = [(program, function) for function in program.calls.targets(call)]
    return own + [(one.program, one.function) for one in program.calls.far(call)]


def _trains_by_name(call: cst.Call) -> bool:
    """Whether a function that is not seen takes steps by its name; ``model.train()`` does not."""
    name = _last(call.func)
    if name == "train" and isinstance(call.func, cst.Attribute):
        return _TRAINERS.search(_last(call.func.value)) is not None
    return _TRAINS.fullmatch(name) is not None


def _is_option(
    program: Program, test: cst.BaseExpression, region: cst.CSTNode, depth: int = 0
) -> bool:
    """Whether a condition is one of options, which is the same in all turns of a region."""
    names = list(program.index.below(test, cst.Name))
    return not any(_COUNTERS.search(name.value) for name in names) and not any(
        program.index.inside(binding.node, region) and not _is_fixed(program, name, binding, depth)
        for name in names
        for binding in program.flow.reaching(name)
    )


def _is_fixed(program: Program, name: cst.Name, binding: Binding, depth: int) -> bool:
    """Whether a parameter is the same in each call: an option, or what an object never changes."""
    param = binding.value
    function = program.function(name)
    if not isinstance(param, cst.Param) or function is None or depth > _DEPTH:
        return False
    if name.value == "self":
        return _is_never_set(program, name)
    given = list(passed(program, function, param))
    return bool(given) and all(
        _is_option(home, node, _turn(home, node) or home.module, depth + 1) for home, node in given
    )


def _is_never_set(program: Program, name: cst.Name) -> bool:
    """``self.args.decay``: what an object is made with, and nobody sets later."""
    above, owner = program.parent(name), program.classes.around(name)
    if not isinstance(above, cst.Attribute) or above.value is not name or owner is None:
        return False
    kept = above.attr.value
    stores = program.classes.stores(owner, kept)
    stores += [one for heir in program.classes.heirs(owner) for one in heir.stores.get(kept, ())]
    made = bool(stores) and all(store.method.name.value == "__init__" for store in stores)
    return made and not _is_given(program, kept)


def _turn(program: Program, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop around a node, or the function where there is none."""
    loop = next(loops_around(program, node), None)
    return loop.body if loop is not None else program.function(node)
