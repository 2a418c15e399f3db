"""Loops that have a turn for each sample of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.origins import origins

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_COPIES = frozenset({"cpu", "cuda", "detach", "float", "long", "numpy", "to"})


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
