"""Draws: the first batch of an iterator that is made for it, `next(iter(loader))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Nothing, Unknown
from torchlint.syntax.calls import last_name
from torchlint.training.between import loops
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

BRANCHES = (cst.If, cst.Else, cst.ExceptHandler)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A call that takes the first batch of a new iterator over ``source``.

    ``plain``: the call itself is ``next(iter(source))``.
    """

    call: cst.Call
    source: cst.BaseExpression
    made: cst.Call
    plain: bool


def draws(script: Script) -> Iterator[Draw]:
    """Yield the draws of a file from what is a loader: ``next(iter(x))``, in any spelling."""
    for call in script.module.index.of(cst.Call):
        taken = None
        if last_name(call.func) in ("next", "__next__") and not call.args:
            taken = call.func.value if isinstance(call.func, cst.Attribute) else None
        elif call.args and script.name(call.func) == "builtins.next":
            taken = call.args[0].value
        made = _maker(script, call, taken)
        if isinstance(made, cst.Call) and made.args:
            source, name = made.args[0].value, script.name(made.func)
            is_iter = name == "builtins.iter" and len(made.args) == 1
            if (is_iter or name == "builtins.enumerate") and _is_loader(script, source):
                yield Draw(call, source, made, made is taken and is_iter and len(call.args) < 2)


def _maker(script: Script, call: cst.Call, taken: cst.BaseExpression | None) -> cst.CSTNode | None:
    """Return what makes an iterator, of a name where the same turn of a loop gave it its value."""
    if not isinstance(taken, cst.Name):
        return taken
    index = script.module.index
    match script.connected.evaluation.bindings(taken):
        case (bound,) if bound.is_plain:
            around = loops_around(script, call)
            is_same = bool(around) and loops_around(script, bound.node) == around
            above = (one for one in index.ancestors(bound.node) if isinstance(one, BRANCHES))
            return bound.value if is_same and all(index.inside(call, a) for a in above) else None
    return None


def loops_around(script: Script, node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the loops of a function whose turns evaluate a node, from the outside in."""
    evaluation, file = script.connected.evaluation, script.file
    return loops(evaluation, node, unit_around(evaluation, node, file).node, file)


def _is_loader(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a DataLoader, and nothing else that is known."""
    kind = script.connected.frequencies.effects.kind
    value = [one for one in script.value(node) if not isinstance(one, (Unknown, Nothing))]
    return bool(value) and all(kind(one) == "loader" for one in value)
