"""The models that training steps run, and where they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Device, Instance, Object, Tensor
from torchlint.training.steps import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchlint.semantics.values import At, Value
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
    found: dict[tuple[int, int], StepModel] = {}
    for step in steps:
        for run in step.of(Role.FORWARD):
            given = steps.evaluation.value(run.node)
            tensors = [one for one in given if isinstance(one, Tensor)]
            if not tensors or any(one.device is not Device.HOST for one in tensors):
                for one in _models(step, run):
                    found.setdefault((id(step), id(one.node)), one)
    return tuple(found.values())


def firsts(
    models: Iterable[StepModel], file: int, counts: Callable[[StepModel], bool]
) -> list[StepModel]:
    """Return the first model of each step that counts, where it is made in a file, each once."""
    here = {id(one.step) for one in models if one.file == file}
    steps = set[int]()
    found: dict[int, StepModel] = {}
    for one in models:
        step = id(one.step)
        if step in here and step not in steps and counts(one):
            steps.add(step)
            if one.file == file:
                found.setdefault(id(one.node), one)
    return list(found.values())


def _models(step: Region, run: Member) -> Iterator[StepModel]:
    evaluation = step.evaluation
    for one in run.owner:
        inner = evaluation.inside(one) if isinstance(one, Object) else ()
        for each in inner or (one,):
            made = each.call if isinstance(each, (Instance, Object)) else None
            node = evaluation.node(made) if made is not None else None
            if made is not None and isinstance(node, cst.Call):
                yield StepModel((each,), made, node, made.file, step, run)
            else:
                yield StepModel((each,), None, run.node, run.file, step, run)
