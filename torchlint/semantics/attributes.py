"""Attributes: what ``value.name`` is, for each kind of value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.classes import role
from torchlint.semantics.loaders import PARAMETERS, arguments
from torchlint.semantics.names import canonical
from torchlint.semantics.options import PARENTS
from torchlint.semantics.tables.tensors import FLAGS, HOST_NUMBERS, KNOWN, SELF_VIEWS
from torchlint.semantics.tables.torch_classes import LOADERS
from torchlint.semantics.values import (
    NEVER,
    Array,
    Class,
    Dictionary,
    File,
    Function,
    Instance,
    Library,
    Method,
    Number,
    Object,
    Place,
    Sequence,
    Tensor,
    Truth,
    Unknown,
)

if TYPE_CHECKING:
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Alternative, Value


def attribute(run: Run, node: cst.BaseExpression, value: Value, name: str) -> Value:
    """Return what an attribute of a value is."""
    return run.sets.each(value, lambda one: _of(run, node, one, name))


def _of(run: Run, node: cst.BaseExpression, one: Alternative, name: str) -> Value:
    match one:
        case Library(name=library):
            return run.one(Library(canonical(f"{library}.{name}")))
        case File(file=file):
            cell = run.evaluation.global_name(file, name)
            if cell is not None:
                return run.read(cell)
            inner = run.evaluation.files.inner(file, name)
            return run.sets.unknown if inner is None else run.one(File(inner))
        case Instance():
            return of_instance(run, node, one, name)
        case Class():
            return _of_class(run, one, name)
        case Object():
            return _of_object(run, one, name)
        case Tensor():
            if not one.sure and _is_part(run, node, name):
                return run.one(one)  # of what may be more than a tensor
            return _of_tensor(run, one, name)
        case Array():
            return _of_array(run, one, name)
        case Dictionary(made=made) if made is not None:
            cell = run.evaluation.attributes.get((made, name))
            return run.read(cell) if cell else run.one(Method(one, name))
        case Unknown():
            return run.sets.unknown
    return run.one(Method(one, name))


def of_instance(run: Run, node: cst.BaseExpression, one: Instance, name: str) -> Value:
    """Return an attribute of an instance of a class of the project."""
    classes = run.evaluation.classes
    at = run.evaluation.method_of(one.cls, name)
    if at is not None:
        kind = role(run.evaluation.node(at))
        owner = None if kind == "static" else Class(one.cls) if kind == "class" else one
        if kind == "property":
            return run.evaluation.call_function(run, node, Function(at, owner), ())
        return run.one(Function(at, owner))
    value = NEVER
    for cls in classes.lineage(one.cls):
        value = run.sets.union(value, run.read(run.evaluation.attribute(cls.at, name)))
    for heir in run.evaluation.heirs(one.cls) if one.call is None else ():
        value = run.sets.union(value, run.read(run.evaluation.attribute(heir.at, name)))
    if value:
        return value
    if name == "__class__":
        return run.one(Class(one.cls))
    if classes.kind(one.cls) or not classes.is_open(one.cls):
        return run.one(Method(one, name))
    return run.sets.unknown


def _of_class(run: Run, one: Class, name: str) -> Value:
    at = run.evaluation.method_of(one.at, name)
    if at is not None:
        owner = one if role(run.evaluation.node(at)) == "class" else None
        return run.one(Function(at, owner))
    value = NEVER
    for cls in run.evaluation.classes.lineage(one.at):
        value = run.sets.union(value, run.read(run.evaluation.attribute(cls.at, name)))
    return value or run.sets.unknown


def _of_object(run: Run, one: Object, name: str) -> Value:
    cell = None
    if one.call is not None:
        cell = run.evaluation.attribute(one.call, name)
        value = run.read(cell)
        if value:
            return value
        if one.kind in LOADERS and name in PARAMETERS:
            given = arguments(run.evaluation, one.call).get(name)
            return given.value if given and given.value else run.sets.unknown
    if one.kind == "argparse.Namespace":
        parents = run.read(run.evaluation.attribute(one.call, PARENTS)) if one.call else ()
        calls = [each.call for each in parents if isinstance(each, Object) and each.call]
        found = (_of_object(run, replace(one, call=call), name) for call in calls)
        return run.sets.all(found) or run.sets.unknown
    if name == "module" and (inner := run.evaluation.inside(one)):
        return inner
    return run.one(Method(one, name))


def _is_part(run: Run, node: cst.BaseExpression, name: str) -> bool:
    """Whether an attribute of a batch of which nothing is known is a part of it."""
    parent = run.module.parent(node)
    is_called = isinstance(parent, cst.Call) and parent.func is node
    return not (is_called or name in KNOWN)


def _of_array(run: Run, one: Array, name: str) -> Value:
    if name in ("ndim", "size", "itemsize", "nbytes"):
        return run.one(Number())
    if name == "shape":
        return run.one(Sequence("tuple", None, run.one(Number()), None))
    is_view = name in ("T", "mT", "real", "imag", "flat")
    return run.one(replace(one, made=None) if is_view else Method(one, name))


def _of_tensor(run: Run, one: Tensor, name: str) -> Value:
    if name in FLAGS:
        return run.one(Truth())
    if name in HOST_NUMBERS:
        return run.one(Number())
    match name:
        case "shape":
            return run.one(Sequence("tuple", None, run.one(Number()), None))
        case "device":
            return run.one(Place(one.device))
        case "data":
            return run.one(replace(one, graph=(), made=None))
        case "grad":
            return run.one(Tensor(one.device, dtype="float"))
        case "dtype" | "layout" | "grad_fn" | "names":
            return run.sets.unknown
    if name in SELF_VIEWS:
        return run.one(replace(one, made=None))
    return run.one(Method(one, name))
