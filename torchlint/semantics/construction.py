"""Instances: what calling a class of the project makes, and what its constructor is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import bound
from torchlint.semantics.values import At, Class, Function, Instance

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    from torchlint.semantics.arguments import Passed
    from torchlint.semantics.classes import ClassOf
    from torchlint.semantics.run import Run
    from torchlint.semantics.values import Value


def construct(run: Run, node: cst.Call, one: Class, passed: Several[Passed]) -> Value:
    """Make an instance, and run its constructor."""
    cls = run.evaluation.classes.of(one.at)
    if cls is None:
        return run.sets.unknown
    at = run.at(node)
    made = Instance(one.at, at)
    value = run.one(made)
    run.evaluation.makings[at] = run.unit, node, ""
    assert cls.instances is not None
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
