"""The name that counts the steps of a loop: an index, or a variable that is increased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.library import PASSES_ON
from torchlint.semantics.values import Number

if TYPE_CHECKING:
    from torchlint.syntax.scopes import Binding
    from torchlint.training.script import Script

RANGES = ("builtins.range", "tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange")


def step_counter(script: Script, loop: cst.For | cst.While) -> str | None:
    """Return a name that is one more in every turn of a loop."""
    index = index_of(script, loop) if isinstance(loop, cst.For) else None
    if index is not None and _bindings_in(script, index, loop) == 1:
        return index.value
    for small in _increases(loop):
        name = small.target
        if isinstance(name, cst.Name) and _counts(script, name, loop):
            return name.value
    return None


def index_of(script: Script, loop: cst.For) -> cst.Name | None:
    """Return ``i`` of ``for i, x in enumerate(...)`` or ``for i in range(n)``."""
    iterated = loop.iter
    while isinstance(iterated, cst.Call) and script.name(iterated.func) in PASSES_ON:
        if not iterated.args:
            return None
        iterated = iterated.args[0].value
    if not isinstance(iterated, cst.Call):
        return None
    name = script.name(iterated.func)
    match loop.target:
        case cst.Tuple(elements=[cst.Element(value=cst.Name() as index), _]):
            return index if name == "builtins.enumerate" else None
        case cst.Name() as index if name in RANGES:
            plain = [arg for arg in iterated.args if arg.keyword is None]
            return index if len(plain) < 3 or _is_one(plain[2].value) else None
    return None


def _is_one(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"


def _bindings_in(script: Script, name: cst.Name, loop: cst.CSTNode) -> int:
    """Return how many times a loop gives a name a value."""
    index = script.module.index
    owner = index.scope(name).owner(name.value)
    bindings = owner.bindings[name.value] if owner else ()
    return sum(index.inside(one.node, loop) for one in bindings)


def _increases(loop: cst.For | cst.While) -> list[cst.AugAssign]:
    """Return ``n += 1`` among what every turn runs."""
    lines = [line for line in loop.body.body if isinstance(line, cst.SimpleStatementLine)]
    return [
        small
        for line in lines
        for small in line.body
        if isinstance(small, cst.AugAssign)
        and isinstance(small.operator, cst.AddAssign)
        and _is_one(small.value)
    ]


def _counts(script: Script, name: cst.Name, loop: cst.For | cst.While) -> bool:
    """Whether a variable starts as a number, and only this increase changes it in the loop."""
    index = script.module.index
    owner = index.scope(name).owner(name.value)
    if owner is None or owner is not index.scope(name).function():
        return False
    outside = [one for one in owner.bindings[name.value] if not index.inside(one.node, loop)]
    return (
        _bindings_in(script, name, loop) == 1
        and bool(outside)
        and all(_is_number(script, one) for one in outside)
    )


def _is_number(script: Script, binding: Binding) -> bool:
    value = binding.value
    if not binding.is_plain or not isinstance(value, cst.BaseExpression):
        return False
    found = script.value(value)
    return bool(found) and all(isinstance(one, Number) for one in found)
