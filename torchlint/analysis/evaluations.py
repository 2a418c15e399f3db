"""Evaluations that need no gradients, though autograd records them.

The evidence is ``model.eval()``, or ``model.train(False)``, and after it a loop that calls the
model, in which nothing, and nothing that it calls, asks for a gradient; or a function named for
evaluation, called in a loop.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchlint.analysis import torch_api
from torchlint.analysis.arguments import literal
from torchlint.analysis.asked import differentiates, may_differentiate
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.loops import Role
from torchlint.analysis.modes import (
    evaluation_switches,
    is_named,
    loop_through_models,
    only_in_training,
    puts_into_evaluation,
    switched,
)
from torchlint.analysis.reach import callee, callers, class_of, passed
from torchlint.analysis.read_only import only_read
from torchlint.analysis.recording import Recording
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind, Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program

Loop: TypeAlias = cst.For | cst.While
Switch: TypeAlias = tuple[cst.Call, str]  # `.eval()`, and what it is called on
Place: TypeAlias = Loop | cst.FunctionDef | cst.SimpleStatementLine


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A place that runs a model in evaluation mode: a loop, a whole function, or one statement.

    ``forward`` is the first call of the model there, ``function`` the one around it; ``repeated``
    tells whether it is seen to run more than once.
    """

    forward: cst.Call
    place: Place
    function: cst.FunctionDef | None
    recording: Recording
    repeated: bool = True

    @property
    def named(self) -> bool:
        """Whether the function is named for evaluation."""
        return self.function is not None and _NAMED.search(self.function.name.value) is not None


# Libraries that ask a model for gradients by themselves.
_ASK = frozenset(
    """captum torchattacks foolbox advertorch cleverhans art autoattack pytorch_grad_cam higher
    learn2learn functorch backpack laplace shap torchopt""".split()
)
# Parts of these that ask for none: data, and plain models.
_QUIET = ("learn2learn.data.", "learn2learn.text.", "learn2learn.vision.")
# Functions that take a module and ask it for nothing.
_HARMLESS = frozenset(
    "len print isinstance hasattr getattr id type callable iter next enumerate zip".split()
)
_NAMED = re.compile(
    r"eval|valid|test|infer|predict|sample|generate|visuali[sz]e|demo", re.IGNORECASE
)
# What speaks of gradients that are asked for out of sight.
_DOUBTS = re.compile(
    r"adv(?!anc)|attack|perturb|pgd|fgsm|saliency|grad_?cam|attribution|explain|langevin|sgld|"
    r"influence|robust|adapt(?!ive)",
    re.IGNORECASE,
)
# Calls that train, out of sight.
_TRAINS = re.compile(r"(train|fit|optimi[sz]e|learn|update_(param|net|weight|model|policy))(_|$)")
_EVALUATES = re.compile(r"\.(eval\(\)|train\(False\))")
_WRAPS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})
_PARAMETERS = ("parameters", "named_parameters")
_PARAMETER = "torch.nn.Parameter"
_DEPTH = 3  # functions that hand on the model that they are given
_NO_TRAINING = (Role.EVAL, Role.OTHER)


def evaluations(program: Program) -> Iterator[Evaluation]:
    """Find the recorded evaluations of a file in their order; of nested ones the outer."""
    switches = _switches(program)
    if asks_for_gradients(program):
        return
    found: dict[int, Evaluation] = {}
    for switch, name in switches:
        home = program.function(switch) or program.module
        if not any(not _is_under_no_grad(program, c) for c in _forwards(program, home, name)):
            continue  # the usual case, and cheap to see
        for place in _places(program, switch, name):
            one = None if id(place) in found else _evaluation(program, place, switch, name)
            if one is not None:
                found[id(place)] = one
    for switch, name in switches:
        for function, own in _handed(program, switch, name):
            if id(function) not in found and (one := _helper(program, function, own)) is not None:
                found[id(function)] = one
    for function, own in (*_lent(program, switches), *_lent_by_others(program)):
        if id(function) not in found and (one := _helper(program, function, own)) is not None:
            found[id(function)] = one
    around: cst.CSTNode | None = None
    for one in sorted(found.values(), key=lambda one: program.index.order(one.place)):
        if around is None or not program.index.inside(one.place, around):
            around = one.place
            yield one


def _switches(program: Program) -> list[Switch]:
    """Return the calls of ``.eval()``, each with the names of the models that it is called on."""
    return [
        (switch, name)
        for switch in evaluation_switches(program)
        for name in switched(program, switch)
    ]


def asks_for_gradients(program: Program) -> bool:
    """Whether a file imports what attacks or explains models by their gradients."""
    return any(
        (name.partition(".")[0] in _ASK and not _is_quiet(program, name))
        or name.startswith("torch.func")
        for name in program.names.imported()
    )


def _is_quiet(program: Program, name: str) -> bool:
    """Whether an import is of a part that asks for nothing, or all that is used of it is."""
    if "." in name:
        return f"{name}.".startswith(_QUIET)
    used = (program.qualified(one) for one in program.index.of(cst.Attribute))
    of_it = [f"{one}." for one in used if one.startswith(f"{name}.")]
    return bool(of_it) and all(one.startswith(_QUIET) for one in of_it)


def _evaluation(program: Program, place: Place, switch: cst.Call, name: str) -> Evaluation | None:
    """Return what a place evaluates, if it does and is recorded for nothing."""
    forwards = [call for call in _forwards(program, place, name) if _recorded(program, call, name)]
    if isinstance(place, cst.FunctionDef):
        forwards = [
            call for call in forwards if program.index.order(call) > program.index.order(switch)
        ]
    repeated = not isinstance(place, cst.SimpleStatementLine) or _runs_often(program, place)
    return _found(program, place, forwards, name, repeated=repeated)


def _found(
    program: Program, place: Place, forwards: list[cst.Call], name: str, *, repeated: bool
) -> Evaluation | None:
    """Return the evaluation of a place by the calls of a model there, if nobody asks for more."""
    function = place if isinstance(place, cst.FunctionDef) else program.function(place)
    if not forwards or (function is not None and _is_special(program, function)):
        return None
    seen = {id(call.func) for call in forwards}  # what they run is looked into
    if any(_is_doubt(one) and id(one) not in seen for one in program.index.below(place, cst.Name)):
        return None
    if differentiates(program, place) or given_away(program, place, name):
        return None
    if records_nothing(program, forwards[0]) or may_differentiate(program, forwards[0]):
        return None
    return Evaluation(forwards[0], place, function, program.recordings.at(forwards[0]), repeated)


def _is_doubt(name: cst.Name) -> bool:
    return _DOUBTS.search(name.value) is not None


def _handed(program: Program, switch: cst.Call, name: str) -> Iterator[tuple[cst.FunctionDef, str]]:
    """Yield the functions that get a model after ``model.eval()``, each with its name for it.

    All that calls such a function must ask for no gradients: else it may be a part of a step.
    """
    home = program.function(switch)
    if home is None or not name or _trains(program, home, name):
        return
    for call in program.index.below(home, cst.Call):
        function = program.calls.target(call) if isinstance(call.func, cst.Name) else None
        if (
            function is None
            or program.index.order(call) < program.index.order(switch)
            or not any(is_named(program, arg.value, name) for arg in call.args)
            or any(_asks_beside(*site) for site in callers(program, function))
        ):
            continue
        if own := _name_in(program, function, call, name):
            yield function, own


def _asks_beside(program: Program, site: cst.Call) -> bool:
    """Whether the function around a call, or the script, asks for gradients itself."""
    around = program.function(site)
    return around is None or differentiates(program, around)


def _lent(program: Program, switches: list[Switch]) -> Iterator[tuple[cst.FunctionDef, str]]:
    """Yield functions that every caller gives a model in evaluation mode, with their name for it.

    ``net.eval(); self.validate(net); net.train()``, and what ``validate`` hands it on to: that may
    stand in the middle of a training, which the functions have no part in.
    """
    calls = _calls_while_switched(program, switches)
    known = {id(call) for call, _ in calls}
    for call, name in calls:  # they become more
        function = program.calls.target(call)
        own = "" if function is None else _name_in(program, function, call, name)
        if (
            function is None
            or not own
            or not all(id(site) in known for _, site in callers(program, function))
            or _switches_back(program, function, own)
        ):
            continue
        yield function, own
        more = [one for one in _given_to(program, function, own) if id(one) not in known]
        known |= {id(one) for one in more}
        calls += [(one, own) for one in more]


def _lent_by_others(program: Program) -> Iterator[tuple[cst.FunctionDef, str]]:
    """Yield functions that only other files call, each time with a model in evaluation mode."""
    if not any(_EVALUATES.search(text) for text in texts_of_importers(program)):
        return
    for param in {id(one): one for one in _called_params(program)}.values():
        function = program.function(param)
        if function is None or _switches_back(program, function.body, param.name.value):
            continue
        sites = list(callers(program, function))
        if sites and all(_is_lent(*site, program, function, param) for site in sites):
            yield function, param.name.value


def _called_params(program: Program) -> Iterator[cst.Param]:
    """Yield the parameters that functions of a module call: ``net(x)``."""
    for call in program.index.of(cst.Call):
        if not isinstance(call.func, cst.Name):
            continue
        match program.flow.reaching(call.func):
            case (Binding(kind=Bind.PARAMETER, value=cst.Param() as param),):
                yield param
            case _:
                pass


def _is_lent(
    home: Program, site: cst.Call, program: Program, function: cst.FunctionDef, param: cst.Param
) -> bool:
    """Whether a call in another file gives a function a model that is in evaluation mode."""
    if home is program:
        return False
    passed_on = program.calls.passed(function, param, site)
    given = "" if passed_on is None else dotted(passed_on)
    switches = _switches(home)
    calls = _calls_while_switched(home, switches)
    for lent, own in _lent(home, switches):
        calls += [(one, own) for one in _given_to(home, lent, own)]
    return given != "" and any(call is site and name == given for call, name in calls)


def _calls_while_switched(program: Program, switches: list[Switch]) -> list[tuple[cst.Call, str]]:
    return [pair for switch in switches for pair in _while_switched(program, *switch)]


def _while_switched(
    program: Program, switch: cst.Call, name: str
) -> Iterator[tuple[cst.Call, str]]:
    """Yield calls after ``model.eval()``, in its block, that get the model, until it trains.

    None where gradients are asked for in between: ``eval()`` may be about its normalization.
    """
    line = loop_through_models(program, switch) or program.statement(switch)
    block = program.parent(line)
    if not isinstance(block, cst.Module | cst.IndentedBlock):
        return
    after = itertools.takewhile(
        lambda one: not _switches_back(program, one, name), _later(block, line)
    )
    statements = list(after)
    if not any(differentiates(program, one) for one in statements):
        for statement in statements:
            yield from ((call, name) for call in _given_to(program, statement, name))


def _given_to(program: Program, place: cst.CSTNode, name: str) -> Iterator[cst.Call]:
    """Yield the calls at or below a place that get a model."""
    for call in program.index.below(place, cst.Call) if name else ():
        if any(is_named(program, arg.value, name) for arg in call.args):
            yield call


def _name_in(program: Program, function: cst.FunctionDef, call: cst.Call, name: str) -> str:
    """Return the name of the parameter that gets a model in a call, or ""."""
    for param in function.params.params:
        given = program.calls.passed(function, param, call)
        if given is not None and is_named(program, given, name):
            return param.name.value
    return ""


def _helper(program: Program, function: cst.FunctionDef, name: str) -> Evaluation | None:
    """Return what a function that is handed a model evaluates with it, by whatever method."""
    forwards = [
        call
        for call in program.index.below(function, cst.Call)
        if _runs(program, call, name)
        and _recorded(program, call, name)
        and not records_nothing(program, call)
    ]
    repeated = _is_repeated(program, function) or any(
        True for call in forwards for _ in loops_around(program, call)
    )
    return _found(program, function, forwards, name, repeated=repeated)


def _runs(program: Program, call: cst.Call, name: str) -> bool:
    """``model(x)``, and ``model.encode(x)`` by a method that its class has."""
    func = call.func
    if dotted(func) in (name, f"{name}.forward"):
        return True
    return (
        isinstance(func, cst.Attribute)
        and dotted(func.value) == name
        and program.value(func.value).kind is Kind.MODULE
        and callee(program, call) is not None
    )


# -- where the loops are ------------------------------------------------------------------------


def _places(program: Program, switch: cst.Call, name: str) -> Iterator[Place]:
    """Yield the outermost loops that run after ``model.eval()``, or the function, if it has none.

    Also single statements whose output is only read: of a data set that is one batch.
    What comes after ``model.train()`` is no evaluation, nor what is under an ``if`` beside it.
    After the last epoch the model is as the epoch has left it.
    """
    child: cst.CSTNode = switch
    loops = 0
    for above in program.index.ancestors(switch):
        match above:
            case cst.Module() | cst.IndentedBlock():
                for statement in _later(above, child):
                    for loop in _outermost(program, statement):
                        loops += any(True for _ in _forwards(program, loop, name))
                        yield loop
                    yield from _single(program, statement, name)
                    if _switches_back(program, statement, name):
                        return
            case cst.For() if above is loop_through_models(program, switch):
                pass
            case cst.For() | cst.While():
                role = program.loops.role(above)
                if role in _NO_TRAINING and not _trains(program, above, name):
                    yield above
                if role is not Role.EPOCH:
                    return
            case cst.FunctionDef():
                if not loops and _NAMED.search(above.name.value) and _is_repeated(program, above):
                    yield above
                return
            case cst.SimpleStatementLine() | cst.Expr() | cst.Assign() | cst.With():
                pass
            case cst.Tuple() | cst.Element():  # `net.eval(), other.eval()`
                pass
            case _:
                return
        child = above


def _is_repeated(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a function is called in a loop."""
    return any(
        isinstance(above, cst.For | cst.While)
        for other, site in callers(program, function)
        for above in other.index.ancestors(site)
    )


def _later(block: cst.Module | cst.IndentedBlock, child: cst.CSTNode) -> list[cst.CSTNode]:
    at = next(place for place, one in enumerate(block.body) if one is child)
    return list(block.body[at + 1 :])


def _outermost(program: Program, statement: cst.CSTNode) -> Iterator[Loop]:
    """Yield the outermost loops of a statement that hold no training."""
    index = program.index
    loops: list[Loop] = [*index.below(statement, cst.For), *index.below(statement, cst.While)]
    loops.sort(key=index.order)
    last: Loop | None = None
    for loop in loops:
        inside = last is not None and index.inside(loop, last)
        if (
            not inside
            and program.loops.role(loop) in _NO_TRAINING
            and program.function(loop) is program.function(statement)
        ):
            last = loop
            yield loop


def _single(
    program: Program, statement: cst.CSTNode, name: str
) -> Iterator[cst.SimpleStatementLine]:
    """Yield the lines that call the model outside of loops, and of whose output all is read."""
    if not program.loops.trains or _trains(program, statement, name):
        return
    function = program.function(statement)
    for call in _forwards(program, statement, name):
        line = program.statement(call)
        if (
            isinstance(line, cst.SimpleStatementLine)
            and program.function(call) is function
            and not any(
                program.index.inside(loop, statement) for loop in loops_around(program, call)
            )
            and only_read(program, call)
        ):
            yield line


def _runs_often(program: Program, place: cst.CSTNode) -> bool:
    """Whether a loop is around a place, or around a call of its function."""
    function = program.function(place)
    inside = any(True for _ in loops_around(program, place))
    return inside or (function is not None and _is_repeated(program, function))


def _switches_back(program: Program, statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement puts the model back into training mode, or another one in its place."""
    return _trains(program, statement, name) or any(
        dotted(target.target) == name and not _is_still(program, one.value, name)
        for one in program.index.below(statement, cst.Assign)
        for target in one.targets
    )


def _is_still(program: Program, node: cst.BaseExpression, name: str) -> bool:
    """``model = model.cuda()``, ``model = nn.DataParallel(model)``: it is as it was."""
    match node:
        case cst.Call(func=cst.Attribute(value=model, attr=cst.Name(method))) if (
            dotted(model) == name
        ):
            return method in torch_api.MODULE_SELF
        case cst.Call(func=func, args=[cst.Arg(value=model), *_]):
            return program.qualified(func) in _WRAPS and dotted(model) == name
        case _:
            return False


def _trains(program: Program, place: cst.CSTNode, name: str) -> bool:
    """Whether a model is put into training mode."""
    for call in program.index.below(place, cst.Call):
        func = call.func
        if (
            isinstance(func, cst.Attribute)
            and func.attr.value == "train"
            and not puts_into_evaluation(call)
            and is_named(program, func.value, name)
        ):
            return True
    return False


# -- what they do -------------------------------------------------------------------------------


def _forwards(program: Program, place: cst.CSTNode, name: str) -> Iterator[cst.Call]:
    """Yield the calls of a model at or below a place, and of what only runs it, as training does.

    Those of other functions are reported in the functions.
    """
    for call in program.index.below(place, cst.Call) if name else ():
        direct = dotted(call.func) in (f"{name}.forward", f"{name}.module")
        if direct or is_named(program, call.func, name) or _is_shared_run(program, call, name):
            yield call


def _is_shared_run(program: Program, call: cst.Call, name: str) -> bool:
    """Whether a call is of a function that runs the model, for training steps as well.

    It is handed the model, or is a method of the object that has it: ``self.loss_of(batch)``.
    """
    of_self = isinstance(call.func, cst.Attribute) and dotted(call.func.value) == "self"
    handed = any(dotted(one.value) == name for one in call.args)
    if not (of_self and (handed or name.startswith("self."))) and not (
        handed and isinstance(call.func, cst.Name)
    ):
        return False
    found = callee(program, call)
    if found is None:
        return False
    home, function = found
    own = _name_in(home, function, call, name) if handed else name
    return (
        own != ""
        and any(other.context(site).role is Role.TRAIN for other, site in callers(home, function))
        and _only_runs(home, function, own)
    )


def _only_runs(home: Program, function: cst.FunctionDef, name: str) -> bool:
    """Whether a function runs a model that it is handed with recording, and does no more to it."""
    forwards = [one for one in home.index.below(function, cst.Call) if _runs(home, one, name)]
    return (
        any(_recorded(home, one, name) and not records_nothing(home, one) for one in forwards)
        and not _is_special(home, function)
        and not any(_is_doubt(one) for one in home.index.below(function.body, cst.Name))
        and not given_away(home, function.body, name)
    )


def _is_under_no_grad(program: Program, call: cst.Call) -> bool:
    """Whether gradients are turned off around a call, or for the function that it stands in."""
    loops = program.loops
    for above in program.index.ancestors(call):
        if isinstance(above, cst.With) and loops.turns_gradients_off(above):
            return True
        if isinstance(above, cst.FunctionDef):
            return any(loops.is_no_grad(item.decorator) for item in above.decorators)
    return False


def _recorded(program: Program, call: cst.Call, name: str) -> bool:
    """Whether a call of a model is recorded while that is evaluated."""
    recorded = program.recordings.at(call) in (Recording.ON, Recording.ASSUMED, Recording.SOME)
    return recorded and not only_in_training(program, call, name)


def _is_special(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a function is a generator or a coroutine: its body runs in bits of other code."""
    return function.asynchronous is not None or program.yields(function)


def records_nothing(program: Program, forward: cst.Call) -> bool:
    """Whether a model has nothing to record: it is frozen, or turns gradients off by itself."""
    given = [(program, forward.func), *_passed(program, forward.func)]
    held = forward.func.value if isinstance(forward.func, cst.Attribute) else forward.func
    named = [*given, (program, held)]  # `model.encode(x)`
    if any(dotted(node) in set(_frozen(other)) for other, node in named):
        return True
    found = callee(program, forward)
    if found is None:
        return any(
            _freezes_itself(other, node) or _is_frozen_part(other, node) for other, node in given
        )
    other, method = found
    owner = other.classes.around(method)
    if owner is not None and _is_frozen_inside(other, owner):
        return True
    first = next(iter(method.body.body), None)
    return any(other.loops.is_no_grad(item.decorator) for item in method.decorators) or (
        isinstance(first, cst.With) and other.loops.turns_gradients_off(first)
    )


def _freezes_itself(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a model is of a class whose own code may freeze it."""
    value = program.value(node)
    found = class_of(program, value) if value.kind is Kind.MODULE else None
    return found is not None and _is_frozen_inside(*found)


def _is_frozen_part(program: Program, node: cst.BaseExpression) -> bool:
    """Whether a call runs a part of a model that the model's own class freezes."""
    if not isinstance(node, cst.Attribute):
        return False
    whole = program.value(node.value)
    found = class_of(program, whole) if whole.kind is Kind.MODULE else None
    return found is not None and f"self.{node.attr.value}" in set(_frozen(found[0]))


def _is_frozen_inside(program: Program, owner: Class) -> bool:
    below = program.index.below(owner.node, cst.Name)
    freezing = [name for name in below if _may_freeze(program, name)]
    return bool(freezing) and not _are_some_of_its_own(program, owner.node, freezing)


def _may_freeze(program: Program, name: cst.Name) -> bool:
    """Whether a name says of something that it requires no gradient, or may do so."""
    if name.value not in ("requires_grad", "requires_grad_"):
        return False
    match program.parent(name):
        case cst.Arg(value=value):  # `requires_grad=True`
            return literal(value) != "True"
        case cst.Attribute() as told:
            above = program.parent(told)
        case _:
            return True
    match above:
        case cst.AssignTarget():  # `x.requires_grad = True`
            statement = program.parent(above)
            return not isinstance(statement, cst.Assign) or literal(statement.value) != "True"
        case cst.Call(args=args):  # `x.requires_grad_()`
            return any(literal(arg.value) != "True" for arg in args)
        case _:
            return True


def _are_some_of_its_own(program: Program, owner: cst.ClassDef, names: list[cst.Name]) -> bool:
    """Whether all that names freeze are parameters that a class makes so, beside others.

    ``nn.Parameter(torch.zeros(4), requires_grad=False)`` for a running mean.
    """
    made = [one for one in program.calls_of(_PARAMETER) if program.index.inside(one, owner)]
    told = {id(program.parent(program.parent(name) or name)) for name in names}
    others = [one for one in made if id(one) not in told]
    return len(made) - len(others) == len(told) and any(len(one.args) == 1 for one in others)


def _passed(
    program: Program, node: cst.BaseExpression, depth: int = 0
) -> Iterator[tuple[Program, cst.BaseExpression]]:
    """Yield what the calls of a function pass for a name, if that is one of its parameters.

    Also what the functions around those calls are passed for it.
    """
    function = program.function(node)
    bindings = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    for binding in bindings:
        if function is not None and isinstance(binding.value, cst.Param):
            for other, given in passed(program, function, binding.value):
                yield other, given
                if depth < _DEPTH:
                    yield from _passed(other, given, depth + 1)


def _frozen(program: Program) -> Iterator[str]:
    """Yield the models whose parameters are told not to require gradients."""
    for call, func in program.method_calls("requires_grad_"):
        if call.args and literal(call.args[0].value) == "False":
            yield dotted(func.value)
    for loop in program.index.of(cst.For):
        iterated = loop.iter.func if isinstance(loop.iter, cst.Call) else loop.iter
        if isinstance(iterated, cst.Attribute) and iterated.attr.value in _PARAMETERS:
            names = program.index.below(loop.body, cst.Name)
            if any(name.value.startswith("requires_grad") for name in names):
                yield dotted(iterated.value)


def given_away(program: Program, place: cst.CSTNode, name: str) -> bool:
    """Whether the model goes to something that is not seen, and may ask it for gradients."""
    index = program.index
    for call in index.below(place, cst.Call):
        if callee(program, call) is not None:
            continue
        if _TRAINS.match(dotted(call.func).rpartition(".")[2]):
            return True
        given = any(is_named(program, arg.value, name) for arg in call.args)
        if given and not (isinstance(call.func, cst.Name) and call.func.value in _HARMLESS):
            return True
    return _holder_is_used(program, place, name)


def _holder_is_used(program: Program, place: cst.CSTNode, name: str) -> bool:
    """Whether a place uses an object that was made of the model: ``attack = PGD(model)``."""
    for call in program.index.of(cst.Call):
        if not any(dotted(arg.value) == name for arg in call.args):
            continue
        statement = program.parent(call)
        if isinstance(statement, cst.Assign) and not _keeps_modules(program, call):
            made = {dotted(target.target) for target in statement.targets} - {"", name}
            uses = program.index.below(place, cst.Call)
            if any(dotted(use.func) in made or _root(use.func) in made for use in uses):
                return True
    return False


def _keeps_modules(program: Program, call: cst.Call) -> bool:
    """Whether a call gives what is known not to ask for gradients: a module, a number."""
    if program.qualified(call.func).startswith("torch.") or callee(program, call) is not None:
        return True
    return program.value(call).known


def _root(node: cst.BaseExpression) -> str:
    return dotted(node.value) if isinstance(node, cst.Attribute) else ""
