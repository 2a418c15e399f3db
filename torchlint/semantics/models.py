"""Runs of models: what comes out, and which calls autograd would go back through from there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.semantics.tensors import mixed
from torchlint.semantics.values import (
    Device,
    Function,
    Instance,
    Object,
    Sequence,
    Tensor,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.cells import Unit
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, At, Value


def of_model(
    run: Run,
    node: cst.Call,
    one: Instance | Object | None,
    passed: Several[Passed],
    value: Value,
) -> Value:
    """Return what a model gives, ``value`` being what its own code says, NEVER where nothing does.

    A call outside of modules' own methods is one that autograd would go back through, unless it is
    switched off there.
    """
    home = Device.UNKNOWN if one is None else run.evaluation.placed(run, one)
    if not value:
        given = [each for arg in passed for each in arg.value if isinstance(each, Tensor)]
        is_sure = bool(given) or home is not Device.UNKNOWN
        if isinstance(one, Object) and one.kind.startswith("transformers."):
            is_sure = False  # an output with several
        value = run.one(replace(mixed(*given) if given else Tensor(), sure=is_sure))
    if home is not Device.UNKNOWN:
        value = run.sets.each(value, lambda each: run.one(_on(each, home)))
    if not run.records:
        run.unit.is_unrecorded |= run.unit.is_module_method
        return unrecorded(run, value)
    forward = _forward(run, one) if isinstance(one, Instance) else None
    if forward is not None and forward.is_unrecorded and not forward.is_recorded:
        return unrecorded(run, value)
    if run.unit.is_module_method:
        run.unit.is_recorded = True
        return value
    return run.sets.each(value, lambda each: _recorded(run, each, run.at(node)))


def _on(one: Alternative, home: Device) -> Alternative:
    """Return an alternative of what a model on a device gives, of which no more is known."""
    if isinstance(one, Tensor) and one.device is Device.UNKNOWN:
        return replace(one, device=home)
    return one


def of_method(run: Run, node: cst.Call, one: Function, value: Value) -> Value:
    """Return what a function gives: a method of a model that runs layers is a run of it as well."""
    unit = run.evaluation.units.get(one.at)
    if unit is None or not unit.is_module_method or not unit.is_recorded:
        return value
    if run.unit.is_module_method:
        run.unit.is_recorded |= run.records
        return value
    if not run.records or not isinstance(one.owner, Instance):
        return unrecorded(run, value) if not run.records else value
    return run.sets.each(value, lambda each: _recorded(run, each, run.at(node)))


def _forward(run: Run, one: Instance) -> Unit | None:
    found = run.evaluation.method_of(one.cls, "__call__", "forward")
    return run.evaluation.units.get(found) if found else None


def unrecorded(run: Run, value: Value) -> Value:
    """Return what is computed where gradients are off."""
    return run.sets.each(value, lambda one: _without(run, one))


def _without(run: Run, one: Alternative) -> Value:
    if isinstance(one, Tensor):
        return run.one(replace(one, graph=()) if one.graph else one)
    is_tuple = isinstance(one, Sequence) and one.kind == "tuple"
    return run.sets.within(one, lambda part: _without(run, part)) if is_tuple else run.one(one)


def _recorded(run: Run, one: Alternative, call: At) -> Value:
    """Return an alternative from which autograd goes back through a call."""
    match one:
        case Tensor(graph=graph, dtype=dtype) if dtype not in ("bool", "int"):
            return run.one(replace(one, graph=tuple(sorted({*graph, call}))))
        case Unknown():
            return run.sets.of([one, Tensor(graph=(call,), sure=False)])
    return run.sets.within(one, lambda part: _recorded(run, part, call))
