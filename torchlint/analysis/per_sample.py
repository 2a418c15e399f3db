"""Loops that have a turn for each sample of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.host_results import loop_around
from torchlint.analysis.origins import origins

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_COPIES = frozenset({"cpu", "cuda", "detach", "float", "long", "numpy", "to"})


def is_over_batch(program: Program, loop: cst.For) -> bool:
    """Whether a loop has a turn for each sample of a batch, so that it has one."""
    outer = loop_around(program, loop)
    made: list[cst.CSTNode | None] = []
    match loop.iter:
        case cst.Call(func=cst.Name(value="range") as func, args=[only]):
            if program.is_builtin(func):
                made += [_sized(one) for one in origins(program, only.value)]
        case cst.Call(func=cst.Name(value="enumerate" | "zip") as func, args=[first, *_]):
            if program.is_builtin(func):
                made.append(first.value)
        case needed:
            made.append(needed)
    return bool(made) and all(
        one is not None and isinstance(outer, cst.For) and _is_taken(program, one, outer)
        for one in made
    )


def _sized(node: cst.CSTNode) -> cst.CSTNode | None:
    """``x`` of ``len(x)``, ``x.size(0)`` and ``x.shape[0]``."""
    found = measured(node)
    return None if found is None or found[1] != "0" else found[0]


def measured(node: cst.CSTNode) -> tuple[cst.BaseExpression, str] | None:
    """Return what a size is asked of, and of which dimension: ``x.size(1)``, ``len(x)``."""
    match node:
        case cst.Call(func=cst.Name(value="len"), args=[cst.Arg(value=batch)]):
            return batch, "0"
        case cst.Call(
            func=cst.Attribute(value=batch, attr=cst.Name("size")),
            args=[cst.Arg(value=cst.Integer(value=dimension))],
        ):
            return batch, dimension
        case cst.Subscript(
            value=cst.Attribute(value=batch, attr=cst.Name("shape"))
            | cst.Call(func=cst.Attribute(value=batch, attr=cst.Name("size")), args=[]),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value=dimension)))],
        ):
            return batch, dimension
        case _:
            return None


def _is_taken(program: Program, node: cst.CSTNode, loop: cst.For) -> bool:
    """Whether a value is what a loop takes in each turn, a part of it by name, or a copy."""
    todo, seen = [node], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        made = origins(program, one)
        match one:
            case cst.Subscript(
                value=part, slice=[cst.SubscriptElement(slice=cst.Index(value=key))]
            ):
                if not isinstance(key, cst.SimpleString | cst.Integer):
                    return False
                todo.append(part)
            case cst.Call(func=cst.Attribute(value=part, attr=cst.Name(name))) if name in _COPIES:
                todo.append(part)
            case _ if made != [one]:
                todo += made
            case _ if not program.index.inside(one, loop.target):
                return False
            case _:
                pass
    return True
