"""What holds inside of a function or a ``with``: its parameters, and which modes are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.classes import role
from torchlint.semantics.definitions import parameters
from torchlint.semantics.guesses import guessed
from torchlint.semantics.run import AUTOCAST, GRAD, MODES
from torchlint.semantics.sets import is_known
from torchlint.semantics.values import (
    NEVER,
    At,
    Class,
    Device,
    Dictionary,
    Function,
    Instance,
    Library,
    Object,
    Sequence,
    Tensor,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.tables.frameworks import Hook
    from torchlint.semantics.values import Value

_SWITCHES = {"torch.no_grad": False, "torch.inference_mode": False, "torch.enable_grad": True}
AUTOCASTS = frozenset(
    {"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"}
)


def enter(run: Run) -> None:
    """Bind the parameters of a function to what its callers pass, and set its modes."""
    node = run.unit.node
    assert not isinstance(node, cst.Module)
    hook = _hook(run)
    is_method = run.evaluation.class_around(run.unit) is not None
    for place, param in enumerate(parameters(node)):
        is_batch = hook is not None and hook.batch >= 0 and place == hook.batch + is_method
        run.bind(param, _parameter(run, param, is_first=place == 0, is_batch=is_batch))
    for star in (node.params.star_arg, node.params.star_kwarg):
        if isinstance(star, cst.Param):
            run.bind(star, _rest(run, star))
    for mode in MODES:
        value = run.read(run.unit.modes[mode])
        if value:
            run.env[mode] = value, ()
    if hook is not None and not hook.has_gradients:
        run.env[GRAD] = run.one(Truth(False)), ()
    if isinstance(node, cst.FunctionDef):
        for decorator in node.decorators:
            for mode, value in modes(run, run.evaluation.value(decorator.decorator)).items():
                run.env[mode] = value, ()


def _hook(run: Run) -> Hook | None:
    """Return what a framework calls the function for, where it is a method that one calls."""
    cls = run.evaluation.class_around(run.unit)
    if cls is None or not isinstance(run.unit.node, cst.FunctionDef):
        return None
    return run.evaluation.classes.hook(cls.at, run.unit.node.name.value)


def _parameter(run: Run, param: cst.Param, *, is_first: bool, is_batch: bool) -> Value:
    if is_first and (own := _self(run)):
        return own
    sets = run.sets
    value = run.read(run.unit.parameters[param.name.value])
    if is_known(value):
        return value
    if is_batch and not value:  # which a framework has moved to where it trains
        return run.one(Tensor(Device.CUDA, sure=False))
    if value:  # some caller passes something unknown
        guess = guessed(run, param)
        known = sets.of(one for one in value if not isinstance(one, Unknown))
        return sets.union(known, guess)
    default = run.evaluation.value(param.default)
    return sets.union(guessed(run, param), default)


def _self(run: Run) -> Value:
    """Return what ``self`` is in a method: the instances that are seen to be made."""
    cls = run.evaluation.class_around(run.unit)
    if cls is None or not isinstance(run.unit.node, cst.FunctionDef):
        return NEVER
    kind = role(run.unit.node)
    if kind == "static":
        return NEVER
    if kind == "class":
        return run.one(Class(cls.at))
    return run.evaluation.instances(run, cls) or run.one(Instance(cls.at, None))


def _rest(run: Run, star: cst.Param) -> Value:
    value = run.read(run.unit.parameters[star.name.value])
    if value:
        return value
    made = run.at(star)
    if star.star == "**":
        return run.one(Dictionary((), run.sets.unknown, made))
    return run.one(Sequence("tuple", None, run.sets.unknown, None))


def entered(run: Run, value: Value) -> Value:
    """Return what ``with ... as x`` gives ``x``."""
    enter = run.evaluation.call_method
    return run.sets.each(value, lambda one: enter(run, one, "__enter__", run.one(one)))


def _may_switch(run: Run, one: Unknown | Function) -> bool:
    """Whether a context or decorator may turn gradients on or off: one that is seen names that."""
    if isinstance(one, Unknown):
        return True
    evaluation = run.evaluation
    index, node = evaluation.index(one.at.file), evaluation.node(one.at)
    named = (*index.below(node, cst.Attribute), *index.below(node, cst.Name))
    names = {getattr(each, "name", "") for inner in named for each in evaluation.value(inner)}
    return not names.isdisjoint({*_SWITCHES, "torch.set_grad_enabled"})


def modes(run: Run, value: Value) -> dict[str, Value]:
    """Return what holds inside of a ``with`` by its context manager, or by a decorator."""
    found: dict[str, Value] = {}
    for one in value:
        match one:
            case Object(kind=name) | Library(name=name) if name in _SWITCHES:
                found[GRAD] = run.one(Truth(_SWITCHES[name]))
            case Object(kind="torch.set_grad_enabled", call=At() as call):
                found[GRAD] = run.evaluation.enabled.get(call, run.one(Truth()))
            case Object(kind=kind) if kind in AUTOCASTS:
                found[AUTOCAST] = value
            case Unknown() | Function() if GRAD not in found and _may_switch(run, one):
                now = run.mode(GRAD) or run.one(Truth(True))
                found[GRAD] = run.sets.union(now, run.one(Truth()))
    return found
