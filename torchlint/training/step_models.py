"""The models that training steps run, and where they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Device, Instance, Object, Tensor
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.loaders import Loader
    from torchlint.training.steps import Member, Region, Steps


@dataclass(frozen=True, slots=True, eq=False)
class StepModel:
    """A model that a step runs: ``made`` is the call that makes it, None where that is not known.

    ``node`` is that call, else the call that runs the model.  Wrappers stand for what they hold.
    """

    value: Value
    made: At | None
    node: cst.Call
    file: int
    step: Region
    run: Member


def step_models(steps: Steps) -> tuple[StepModel, ...]:
    """Return the models that steps run where it may be on a GPU, each once a step."""
    found: list[StepModel] = []
    for step in steps:
        seen: set[int] = set()
        for run in step.of(Role.FORWARD):
            for one in _models(steps.evaluation, step, run):
                if id(one.node) not in seen and not _is_on_host(steps.evaluation, run):
                    seen.add(id(one.node))
                    found.append(one)
    return tuple(found)


def firsts(models: Iterable[StepModel], file: int) -> list[StepModel]:
    """Return the first model of each step, where it is made in a file, each once."""
    steps: set[int] = set()
    found: dict[int, StepModel] = {}
    for one in models:
        if id(one.step) not in steps and one.file == file:
            found.setdefault(id(one.node), one)
        steps.add(id(one.step))
    return list(found.values())


def _models(evaluation: Evaluation, step: Region, run: Member) -> Iterator[StepModel]:
    for one in run.owner:
        inner = evaluation.inside(one) if isinstance(one, Object) else (one,)
        for each in inner or (one,):
            made = each.call if isinstance(each, (Instance, Object)) else None
            node = evaluation.node(made) if made is not None else run.node
            if made is not None and isinstance(node, cst.Call):
                yield StepModel((each,), made, node, made.file, step, run)
            else:
                yield StepModel((each,), None, run.node, run.file, step, run)


def _is_on_host(evaluation: Evaluation, run: Member) -> bool:
    """Whether all that a run of a model gives lives on the host."""
    given = evaluation.value(run.node)
    tensors = [one for one in given if isinstance(one, Tensor)]
    return bool(tensors) and all(one.device is Device.HOST for one in tensors)


def loader_of(loaders: tuple[Loader, ...], step: Region) -> Loader | None:
    """Return the loader whose batches a step takes, None where it is not known."""
    for loader in loaders:
        for turn in loader.turns:
            if turn.file == step.file and turn.node in (step.node, getattr(step.node, "body", 0)):
                return loader
    return None
