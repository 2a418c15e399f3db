"""Optimizers, schedulers and scalers: what they hold, where and as what they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics.arguments import given_to
from torchlint.semantics.tables.torch_classes import kind_of
from torchlint.semantics.values import Dictionary, Object, Parameters, Sequence, Tensor
from torchlint.training.steps import Role, same

if TYPE_CHECKING:
    from torchlint.semantics.arguments import Argument
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.steps import Member, Region

PLACES = {"optimizer": ("params", "lr"), "scheduler": ("optimizer",)}


def made(evaluation: Evaluation, one: Object) -> dict[str, Argument]:
    """Return the arguments that an object of a library was made with."""
    if one.call is None or one.call not in evaluation.makings:
        return {}
    _, call, name = evaluation.makings[one.call]
    return given_to(evaluation, call, PLACES.get(kind_of(name), ()))[0]


def models_of(evaluation: Evaluation, owner: Value) -> frozenset[At] | None:
    """Return the calls that made the models an optimizer is for, None where they are not seen."""
    found: set[At] = set()
    for one in owner:
        is_made = isinstance(one, Object) and kind_of(one.kind) == "optimizer"
        given = made(evaluation, one).get("params") if is_made else None  # type: ignore[arg-type]
        held = _parameters(given.value) if given else None
        if not held:
            return None
        found |= held
    return frozenset(found) or None


def _parameters(value: Value) -> set[At] | None:
    """Return the models of parameters, of lists of them and of groups; None where not seen."""
    found: set[At] = set()
    for one in value:
        match one:
            case Parameters(models=models) if models:
                held: list[set[At] | None] = [set(models)]
            case Sequence(elements=elements, element=element):
                held = [_parameters(part) for part in (*(elements or ()), element) if part]
            case Dictionary(entries=entries):
                held = [_parameters(dict(entries).get("params", ())) or None]
            case _:
                return None
        if not held or None in held:
            return None
        found.update(*(each for each in held if each))
    return found


def trains(region: Region, backward: Member, step: Member) -> bool:
    """Whether a backward pass gives gradients to what an optimizer steps, as far as is seen."""
    evaluation = region.evaluation
    models = models_of(evaluation, step.owner)
    graph = {call for one in backward.owner if isinstance(one, Tensor) for call in one.graph}
    run = {
        getattr(each, "call", None)
        for at in graph
        for one in evaluation.value(getattr(evaluation.node(at), "func", None))
        for each in (evaluation.inside(one) if isinstance(one, Object) else (one,))
    }
    return bool(models and models & run) or is_only(region, step)


def clears(region: Region, zero: Member, step: Member) -> bool:
    """Whether a ``zero_grad()`` drops the gradients that an optimizer steps by."""
    if same(zero, step):
        return True
    models = models_of(region.evaluation, step.owner)
    if models is not None:
        return any(getattr(one, "call", None) in models for one in zero.owner)
    is_run = any(one.name == zero.name for one in region.of(Role.FORWARD))
    return is_run and is_only(region, step)


def is_only(region: Region, step: Member) -> bool:
    """Whether no other optimizer steps in a region at other times."""
    mine = [one.test for one in step.conditions]
    return all(
        same(one, step) or [each.test for each in one.conditions] == mine
        for one in region.of(Role.STEP)
    )
