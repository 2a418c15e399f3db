"""Distributed samplers: which loaders draw from them, and whether anything tells them the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import (
    Class,
    Function,
    Instance,
    Library,
    Method,
    Object,
    Truth,
    Unknown,
)
from torchlint.syntax.chains import dotted
from torchlint.training.frequency import Rate
from torchlint.training.hoisting import is_unchanged
from torchlint.training.loader_uses import loaders_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At, Value
    from torchlint.training.loaders import Loader
    from torchlint.training.passes import Around
    from torchlint.training.script import Connected, Script

DISTRIBUTED = "torch.utils.data.DistributedSampler"
PARAMETERS = ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")
TELLS = "set_epoch"
KNOWN = ("builtins.", "torch.", "itertools.", "tqdm", "print")


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """A call that makes a sampler, and a loader that draws from it."""

    node: cst.Call
    at: At
    loader: Loader
    shuffles: bool | None


def samplers_of(evaluation: Evaluation, loader: Loader) -> Iterator[Sampler]:
    """Yield the distributed samplers that a loader may draw from, through batch samplers too."""
    values = [loader.value("sampler")]
    for one in loader.value("batch_sampler"):
        if isinstance(one, (Object, Instance)) and one.call is not None:
            made = evaluation.node(one.call)
            args = made.args if isinstance(made, cst.Call) else ()
            values += [evaluation.value(arg.value) for arg in args]
    for one in dict.fromkeys(each for value in values for each in value):
        if isinstance(one, Object) and one.kind == DISTRIBUTED and one.call is not None:
            node = evaluation.node(one.call)
            assert isinstance(node, cst.Call)
            if evaluation.values.get(id(node.func)) == (Library(DISTRIBUTED),):
                yield Sampler(node, one.call, loader, _shuffles(evaluation, node))


def _shuffles(evaluation: Evaluation, node: cst.Call) -> bool | None:
    """Whether a sampler draws in another order than that of the dataset; None where unknown."""
    given, is_whole = given_to(evaluation, node, PARAMETERS)
    if "shuffle" not in given:
        return True if is_whole else None
    match given["shuffle"].value:
        case (Truth(value=known, option=None),):
            return known
    return None


def may_be_told(evaluation: Evaluation, sampler: Sampler, epochs: frozenset[int]) -> bool:
    """Whether anything may tell a sampler the epoch.

    Code that is not seen may where it gets the sampler, or the loader and the number of the epoch,
    which the names are that ``epochs`` has by identity.
    """
    for module in evaluation.files.modules:
        index = module.index
        for name in (*index.named.get(TELLS, ()), *index.named.get("epoch", ())):
            above = index.parent(name)
            if not isinstance(above, cst.Attribute) or above.attr is not name:
                continue
            value = evaluation.value(above.value)
            may_be = not value or any(_may_be(one, sampler) for one in value)
            if may_be and (
                name.value == TELLS or isinstance(index.parent(above), cst.AssignTarget)
            ):
                return True
        for call in index.of(cst.Call):
            called = evaluation.value(call.func)
            if any(isinstance(one, Method) and one.name == TELLS and _is(one.owner, sampler)
                   for one in called):  # fmt: skip
                return True
            if not all(map(_is_seen, called)) or not called:
                values = [evaluation.value(arg.value) for arg in call.args]
                if any(_is(one, sampler) for value in values for one in value):
                    return True
                counts = any(id(arg.value) in epochs for arg in call.args)
                if counts and any(sampler.loader.at in loaders_in(value) for value in values):
                    return True
    return False


def _is(one: object, sampler: Sampler) -> bool:
    return isinstance(one, Object) and one.call == sampler.at


def _may_be(one: Alternative, sampler: Sampler) -> bool:
    """Whether something may be the sampler: an attribute of an object of a library may."""
    is_held = isinstance(one, Method) and isinstance(one.owner, Object)
    return is_held or isinstance(one, Unknown) or _is(one, sampler)


def _is_seen(one: Alternative) -> bool:
    """Whether it is seen what calling something does: code of the project, of Python or torch."""
    match one:
        case Library(name=name) | Method(owner=Library(name=name)):
            return name.startswith(KNOWN)
    return isinstance(one, (Function, Class, Instance, Method))


def trains(connected: Connected, loader: Loader) -> bool | None:
    """Whether training steps take the batches of a loader; None where it is not certain."""
    often = [connected.frequencies.of(one.node, one.file) for one in loader.turns]
    steps = [one for one in often if one.rate is Rate.STEP]
    return None if steps and not any(one.certain for one in steps) else bool(steps)


def epochs(connected: Connected, sampler: Sampler) -> list[Around]:
    """Return the loops whose turns go through what a sampler draws, for training."""
    passes = connected.passes
    made = {id(one.loop) for one in passes.around(sampler.node, sampler.at.file, None)}
    if trains(connected, sampler.loader) is False:
        return []
    found: dict[int, Around] = {}
    for one, around in passes.repeating(sampler.loader):
        rate = connected.frequencies.rate_of(connected.evaluation.at(around.loop, around.file))
        if id(around.loop) not in made and rate is not Rate.STEP:
            found.setdefault(id(one.node), around)
    return list({id(one.loop): one for one in found.values()}.values())


def numbers(connected: Connected, loops: list[Around]) -> frozenset[int]:
    """Return the places, by identity, where the number of an epoch is read."""
    found: set[int] = set()
    for one in loops:
        target = getattr(one.loop, "target", None)
        index = connected.files.modules[one.file].index
        if isinstance(target, cst.Name):
            names = index.below(one.loop, cst.Name)
            found |= {id(name) for name in names if name.value == target.value}
    return frozenset(found)


def values_of(script: Script, target: cst.Name | cst.Attribute) -> Value:
    """Return what a name or attribute of an object may be, by all that it is given."""
    evaluation = script.connected.evaluation
    if isinstance(target, cst.Name):
        owner = script.module.index.scope(target).owner(target.value)
        bound = owner.bindings[target.value] if owner else ()
        given = [one.value if one.is_plain else None for one in bound]
        return evaluation.sets.all(
            script.value(one) if isinstance(one, cst.BaseExpression) else evaluation.sets.unknown
            for one in given
        )
    cls = script.module.index.nearest(target, cst.ClassDef)
    home = evaluation.classes.of(evaluation.at(cls, script.file)) if cls else None
    return evaluation.attribute(home.at, target.attr.value).value if home else ()


def is_there(script: Script, target: cst.Name | cst.Attribute, loop: cst.For) -> bool:
    """Whether a name or an attribute of ``self`` is in a loop what it was given elsewhere."""
    module = script.module
    if is_unchanged(module, target, loop):
        return True
    around, home = module.function(loop), module.function(target)
    firsts = [
        one.params.params[0].name.value if one and one.params.params else ""
        for one in (around, home)
    ]
    nearest = module.index.nearest
    return (
        isinstance(target, cst.Attribute)
        and nearest(target, cst.ClassDef) is not None
        and nearest(target, cst.ClassDef) is nearest(loop, cst.ClassDef)
        and [dotted(target.value)] * 2 == firsts
    )
