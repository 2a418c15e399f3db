"""Draws: the first batch of an iterator that is made for it, `next(iter(loader))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Nothing, Unknown
from torchlint.training.hoisting import loops_around, mentions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

SOMETIMES = (cst.If, cst.Else, cst.ExceptHandler)


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
        match call.func:
            case cst.Attribute(value=taken, attr=cst.Name(value="next" | "__next__")):
                is_next = not call.args
            case _:
                is_next = bool(call.args) and script.name(call.func) == "builtins.next"
                taken = call.args[0].value if call.args else call.func
        made = _made_in_same_turn(script, call, taken) if is_next else None
        if isinstance(made, cst.Call) and made.args:
            name = script.name(made.func)
            if name == "builtins.enumerate" or (name == "builtins.iter" and len(made.args) == 1):
                plain = made is taken and name == "builtins.iter" and len(call.args) < 2
                if _is_loader(script, made.args[0].value):
                    yield Draw(call, made.args[0].value, made, plain)


def _made_in_same_turn(
    script: Script, call: cst.Call, taken: cst.BaseExpression
) -> cst.CSTNode | None:
    """Return what makes an iterator, of a name where the same turn of a loop gave it its value."""
    if not isinstance(taken, cst.Name):
        return taken
    module = script.module
    match script.connected.evaluation.bindings(taken):
        case (bound,) if bound.is_plain and bound.value is not None:
            above = (
                one for one in module.index.ancestors(bound.node) if isinstance(one, SOMETIMES)
            )
            loops = [next(loops_around(module, node), None) for node in (call, bound.node)]
            same = loops[0] is not None and loops[0] is loops[1]
            return (
                bound.value if same and all(module.index.inside(call, a) for a in above) else None
            )
    return None


def _is_loader(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a DataLoader, and nothing else that is known."""
    kind = script.connected.frequencies.effects.kind
    value = [one for one in script.value(node) if not isinstance(one, (Unknown, Nothing))]
    return bool(value) and all(kind(one) == "loader" for one in value)


def reads(script: Script, draw: Draw, loop: cst.For | cst.While) -> list[cst.CSTNode]:
    """Return the places in a loop that name the loader of a draw, but for ``len(loader)``."""
    module = script.module
    found = mentions(module, draw.source, loop)
    return [one for one in found if not _is_measured(script, one)]


def _is_measured(script: Script, node: cst.CSTNode) -> bool:
    """``len(x)``."""
    arg = script.module.parent(node)
    call = None if arg is None else script.module.parent(arg)
    return isinstance(call, cst.Call) and script.name(call.func) == "builtins.len"


def is_one_pass(script: Script, draw: Draw, loop: cst.For | cst.While) -> bool:
    """``for i in range(len(loader))``, where each turn takes a batch."""
    match loop:
        case cst.For(
            iter=cst.Call(
                func=cst.Name(value="range"),
                args=[cst.Arg(value=cst.Call(func=cst.Name(value="len"), args=[only]))],
            )
        ):
            module = script.module
            straight = module.parent(module.statement(draw.call)) is loop.body
            return straight and module.same(only.value, draw.source)
        case _:
            return False
