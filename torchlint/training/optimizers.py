"""Optimizers, schedulers and scalers: what they hold, where and as what they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.arguments import bound, passed_with
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import (
    Dictionary,
    Guess,
    Object,
    Parameters,
    Sequence,
    Tensor,
)
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.steps import Member, Region


def made(evaluation: Evaluation, one: Object) -> dict[str, Argument]:
    """Return the arguments that an object of a library was made with."""
    if one.call is None or one.call not in evaluation.makings:
        return {}
    _, call, name = evaluation.makings[one.call]
    given = [passed_with(evaluation, arg, evaluation.value(arg.value)) for arg in call.args]
    first = {"optimizer": ("params", "lr"), "scheduler": ("optimizer",)}.get(kind_of(name), ())
    if name.endswith("GradScaler"):
        first = ("device",) if name == "torch.amp.GradScaler" else ()
    return bound(first, given)[0]


def models_of(evaluation: Evaluation, owner: Value) -> frozenset[At] | None:
    """Return the calls that made the models an optimizer is for, None where they are not seen."""
    found: set[At] = set()
    for one in owner:
        if not isinstance(one, Object) or kind_of(one.kind) != "optimizer":
            return None
        given = made(evaluation, one).get("params")
        held = _parameters(given.value) if given else None
        if not held:
            return None
        found |= held
    return frozenset(found) if found else None


def _parameters(value: Value) -> set[At] | None:
    """Return the models of parameters, of lists of them and of groups; None where not seen."""
    found: set[At] = set()
    for one in value:
        match one:
            case Parameters(models=models) if models:
                found |= set(models)
            case Sequence(elements=elements, element=element):
                held = [_parameters(part) for part in (*(elements or ()), element) if part]
                if not held or None in held:
                    return None
                found.update(*(one for one in held if one))
            case Dictionary(entries=entries):
                inner = _parameters(dict(entries).get("params", ()))
                if not inner:
                    return None
                found |= inner
            case _:
                return None
    return found


def trains(region: Region, backward: Member, step: Member) -> bool | None:
    """Whether a backward pass gives gradients to what an optimizer steps, None if not seen."""
    evaluation = region.evaluation
    models = models_of(evaluation, step.owner)
    graph = {call for one in backward.owner if isinstance(one, Tensor) for call in one.graph}
    if models is None or not graph:
        return None
    made_by: set[At] = set()
    for at in graph:
        func = getattr(evaluation.node(at), "func", None)
        value = evaluation.value(func)
        for one in value:
            inner = evaluation.inside(one) if isinstance(one, Object) else (one,)
            calls = [getattr(each, "call", None) for each in inner]
            if any(call is None for call in calls) or isinstance(one, Guess):
                return None
            made_by |= {call for call in calls if call is not None}
    return bool(made_by & models) or None


def clears(region: Region, zero: Member, step: Member) -> bool:
    """Whether a ``zero_grad()`` drops the gradients that an optimizer steps by."""
    if same(zero, step):
        return True
    models = models_of(region.evaluation, step.owner)
    if models is not None:
        return any(getattr(one, "call", None) in models for one in zero.owner)
    is_run = any(one.name == zero.name for one in region.of(Role.FORWARD))
    return is_run and is_only(region, step)


def clips(region: Region, clip: Member, step: Member) -> bool:
    """Whether a clipping is of the gradients that an optimizer steps by, as far as is seen."""
    models = models_of(region.evaluation, step.owner)
    first = clip.node.args[0].value if clip.node.args else None
    value = region.evaluation.value(first) if first is not None else ()
    held = _parameters(value)
    return is_only(region, step) if models is None or held is None else bool(held & models)


def is_only(region: Region, step: Member) -> bool:
    """Whether no other optimizer steps in a region."""
    return all(same(one, step) for one in region.of(Role.STEP))
