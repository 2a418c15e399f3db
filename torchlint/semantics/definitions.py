"""Definitions: functions, classes and lambdas, where they are met."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import Passed
from torchlint.semantics.run import GRAD
from torchlint.semantics.values import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.run import Env, Run
    from torchlint.semantics.values import Value


def define_function(run: Run, node: cst.FunctionDef) -> None:
    """``def``: the name becomes the function; its defaults and decorators are evaluated here."""
    value = run.one(Function(run.at(node)))
    _defaults(run, node)
    run.evaluation.unit(node, run.unit)
    decorate(run, node, value)
    run.bind(node.name, value)


def decorate(run: Run, node: cst.FunctionDef | cst.ClassDef, value: Value) -> None:
    """Call the decorators of the project: they may keep what they are given, as registries do.

    The name stays what was defined: what wraps it calls it.
    """
    around = run.env.get(GRAD)
    for decorator in reversed(node.decorators):
        found = run.value(decorator.decorator)
        if around is not None:  # a mode that is made is on, until it decorates
            run.env[GRAD] = around
        else:
            run.env.pop(GRAD, None)
        for one in found:
            if isinstance(one, Function):
                passed = (Passed("", "", value, cst.Arg(decorator.decorator)),)
                run.evaluation.call_function(run, decorator.decorator, one, passed)


def define_lambda(run: Run, node: cst.Lambda) -> Value:
    """``lambda``: a function without a name."""
    _defaults(run, node)
    run.evaluation.unit(node, run.unit)
    return run.one(Function(run.at(node)))


def _defaults(run: Run, node: cst.FunctionDef | cst.Lambda) -> None:
    for param in parameters(node):
        if param.default is not None:
            run.value(param.default)


def parameters(node: cst.FunctionDef | cst.Lambda) -> Iterator[cst.Param]:
    """Yield the parameters of a function in their order, but for ``*args`` and ``**kwargs``."""
    yield from node.params.posonly_params
    yield from node.params.params
    yield from node.params.kwonly_params


def define_class(run: Run, node: cst.ClassDef) -> None:
    """``class``: its body is read here, and what it binds are attributes of the class."""
    at, evaluation = run.at(node), run.evaluation
    bases = [run.value(arg.value) for arg in node.bases]
    for keyword in node.keywords:
        run.value(keyword.value)
    evaluation.classes.define(at, node, run.module, bases)
    around: Env = dict(run.env)
    run.block(node.body)
    scope = run.index.opened(node)
    number = run.index.order(node)
    for name in scope.bindings:
        seen = run.env.pop((name, number), None)
        if seen is not None:
            run.give(evaluation.attribute(at, name), at, seen[0])
    run.env = around
    decorate(run, node, run.one(Class(at)))
    run.bind(node.name, run.one(Class(at)))
