"""Calls: what is called, what it is given, and what it gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import library, methods
from torchlint.semantics.arguments import bound, first_of, passed_by
from torchlint.semantics.models import of_method, of_model, unrecorded
from torchlint.semantics.tensors import device_of, mixed
from torchlint.semantics.values import (
    NEVER,
    At,
    Class,
    Device,
    Function,
    Guess,
    Instance,
    Library,
    Method,
    Object,
    Place,
    Tensor,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value

# Methods that models have, and tensors have not.
OF_MODELS = frozenset(
    """parameters named_parameters train eval state_dict modules load_state_dict children
    forward""".split()
)


def call(run: Run, node: cst.Call) -> Value:
    """Evaluate a call."""
    func = run.value(node.func)
    passed = passed_by(run, node)
    run.evaluation.modes[id(node)] = run.modes()
    if not func:
        return NEVER
    value = run.sets.each(func, lambda one: apply(run, node, one, passed))
    if value == run.sets.unknown:
        return run.sets.union(value, _moved(run, node, passed) or _named(run, node))
    if not run.records and all(_computes(one) for one in func):
        return unrecorded(run, value)
    return value


def _computes(one: Alternative) -> bool:
    """Whether what is called gives new tensors, and no old one."""
    match one:
        case Library(name=name):
            return name.startswith("torch.")
        case Method(owner=Tensor(), name=name):
            return not name.endswith("_")
        case Object() | Guess():
            return True
    return False


def _moved(run: Run, node: cst.Call, passed: Several[Passed]) -> Value:
    """``x.to(device)``: what nobody knows is a tensor on a GPU if it is moved there.

    A name may be a model as well: not one on which methods of models are called.
    """
    match node.func:
        case cst.Attribute(value=cst.Name(value=word), attr=cst.Name(value="to" | "cuda" as move)):
            scope = run.unit.scope
            called = run.evaluation.files.methods_called(run.unit.at.file, scope, word)
            if called & OF_MODELS or run.evaluation.convention(word):
                return NEVER
        case cst.Attribute(value=cst.Subscript(), attr=cst.Name(value="to" | "cuda" as move)):
            pass
        case _:
            return NEVER
    where = first_of(passed, 0, "device")
    is_gpu = move == "cuda" or (
        all(isinstance(one, (Place, Text)) for one in where)
        and bool(where)
        and device_of(where) is Device.CUDA
    )
    return run.one(Tensor(Device.CUDA)) if is_gpu else NEVER


def _named(run: Run, node: cst.Call) -> Value:
    """``x.named_parameters()``: only modules have that, and it gives names and tensors."""
    match node.func:
        case cst.Attribute(attr=cst.Name(value=name)) if name in methods.NAMED:
            return methods.named_tensors(run)
    return NEVER


def apply(run: Run, node: cst.Call, one: Alternative, passed: Several[Passed]) -> Value:
    """Return what calling one alternative gives."""
    match one:
        case Library(name=name):
            return library.call(run, node, name, passed)
        case Function():
            value = run.evaluation.call_function(run, node, one, passed)
            return of_method(run, node, one, value)
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


def _instance(run: Run, node: cst.Call, one: Instance, passed: Several[Passed]) -> Value:
    classes = run.evaluation.classes
    is_module = classes.kind(one.cls) in ("module", "criterion")
    names = ("__call__", "forward") if is_module else ("__call__",)
    at, value = run.evaluation.method_of(one.cls, *names), NEVER
    if at is not None:
        value = run.evaluation.call_function(run, node, Function(at, one), passed)
    elif not is_module:
        return run.sets.unknown
    return of_model(run, node, one, passed, value) if is_module else value


def construct(run: Run, node: cst.Call, one: Class, passed: Several[Passed]) -> Value:
    """Make an instance, and run its constructor."""
    cls = run.evaluation.classes.of(one.at)
    if cls is None:
        return run.sets.unknown
    at = run.at(node)
    made = Instance(one.at, at)
    value = run.one(made)
    run.evaluation.made(run, node, "")
    run.give(cls.instances, at, value)
    init = run.evaluation.method_of(one.at, "__init__")
    if init is not None:
        run.evaluation.call_function(run, node, Function(init, made), passed)
    else:
        _fields(run, at, cls, passed)
    return value


def _fields(run: Run, at: At, cls: ClassOf, passed: Several[Passed]) -> None:
    """Give the fields of a data class what its constructor is given."""
    names = [
        small.target.value
        for home in reversed(run.evaluation.classes.lineage(cls.at))
        for line in home.node.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name)
    ]
    for name, argument in bound(names, passed)[0].items():
        run.give(run.evaluation.attribute(cls.at, name), at, argument.value)
