"""Calls: what is called, what it is given, and what it gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics import library, methods
from torchlint.semantics.arguments import passed_by
from torchlint.semantics.construction import construct
from torchlint.semantics.models import of_model
from torchlint.semantics.tensors import mixed
from torchlint.semantics.values import (
    NEVER,
    Class,
    Function,
    Guess,
    Instance,
    Library,
    Method,
    Object,
    Tensor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import libcst as cst

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value


def call(run: Run, node: cst.Call) -> Value:
    """Evaluate a call."""
    func = run.value(node.func)
    passed = passed_by(run, node)
    run.evaluation.modes[id(node)] = run.modes()
    if not func:
        return NEVER
    return run.sets.each(func, lambda one: apply(run, node, one, passed))


def apply(run: Run, node: cst.Call, one: Alternative, passed: Sequence[Passed]) -> Value:
    """Return what calling one alternative gives."""
    match one:
        case Library(name=name):
            return library.call(run, node, name, passed)
        case Function():
            return run.evaluation.call_function(run, node, one, passed)
        case Class():
            return construct(run, node, one, passed)
        case Instance():
            return _instance(run, node, one, passed)
        case Method(owner=owner, name=name):
            return methods.call(run, node, owner, name, passed)
        case Object():
            return library.called_object(run, node, one, passed)
        case Guess(what="model"):
            return of_model(run, node, None, passed, NEVER)
        case Guess(what="criterion"):
            return run.one(mixed(Tensor(), *(each for arg in passed for each in arg.value)))
    return run.sets.unknown


def _instance(run: Run, node: cst.Call, one: Instance, passed: Sequence[Passed]) -> Value:
    classes = run.evaluation.classes
    is_module = classes.kind(one.cls) in ("module", "criterion")
    for name in ("__call__", "forward") if is_module else ("__call__",):
        found = classes.method(one.cls, name)
        if found is not None:
            home, function = found
            at = run.evaluation.at(function, home.at.file)
            value = run.evaluation.call_function(run, node, Function(at, one), passed)
            return of_model(run, node, one, passed, value) if is_module else value
    return of_model(run, node, one, passed, NEVER) if is_module else run.sets.unknown
