"""Runs of models: what comes out, and which calls autograd would go back through from there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.semantics.run import GRAD
from torchlint.semantics.tensors import mixed
from torchlint.semantics.values import (
    Dictionary,
    Instance,
    Object,
    Sequence,
    Tensor,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import libcst as cst

    from torchlint.semantics.arguments import Passed
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
    del one
    if not value:
        given = [each for arg in passed for each in arg.value if isinstance(each, Tensor)]
        value = run.one(replace(mixed(*given) if given else Tensor(), sure=bool(given)))
    is_off = run.mode(GRAD) == run.one(Truth(False))
    if is_off or run.unit.is_module_method:
        return value
    return run.sets.each(value, lambda each: _recorded(run, each, run.at(node)))


def _recorded(run: Run, one: Alternative, call: At) -> Value:
    """Return an alternative from which autograd goes back through a call."""
    match one:
        case Tensor(graph=graph, dtype=dtype) if dtype not in ("bool", "int"):
            return run.one(replace(one, graph=tuple(sorted({*graph, call}))))
        case Sequence(elements=tuple(elements)):
            inner = tuple(_each(run, value, call) for value in elements)
            return run.sets.nested(replace(one, elements=inner))
        case Sequence(element=element):
            return run.sets.nested(replace(one, element=_each(run, element, call)))
        case Dictionary(entries=entries, element=element):
            made = tuple((key, _each(run, value, call)) for key, value in entries)
            inner_element = _each(run, element, call)
            return run.sets.nested(replace(one, entries=made, element=inner_element))
        case Unknown():
            return run.sets.of([one, Tensor(graph=(call,), sure=False)])
    return run.one(one)


def _each(run: Run, value: Value, call: At) -> Value:
    return run.sets.each(value, lambda one: _recorded(run, one, call)) if value else value
