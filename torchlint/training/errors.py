"""Whether an error of a call would be caught, in its function or in one that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Class, Library, Sequence
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value
    from torchlint.training.effects import Effect, Effects

# The errors that torch raises, and those that they are.
_RAISED = frozenset(f"builtins.{name}" for name in ("Exception", "BaseException", "RuntimeError"))


def catches(effects: Effects, effect: Effect) -> bool:
    """Whether an error of any call that has an effect by itself would be caught."""
    return any(
        is_caught(effects.evaluation, site.node, unit.file)
        for unit, sites in effects.sites.items()
        for site in sites
        if effect in site.effects
    )


def is_caught(evaluation: Evaluation, node: cst.CSTNode, file: int) -> bool:
    """Whether an error of torch in a node would be caught, by the callers of its function too."""
    todo, seen = [(node, file)], {id(node)}
    while todo:
        here, at = todo.pop()
        if _is_caught_here(evaluation, here, at):
            return True
        unit = unit_around(evaluation, here, at)
        for caller, call in unit.callers.values():
            if id(call) not in seen:
                seen.add(id(call))
                todo.append((call, caller.at.file))
    return False


def _is_caught_here(evaluation: Evaluation, node: cst.CSTNode, file: int) -> bool:
    child = node
    for above in evaluation.index(file).ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return False
        handlers = above.handlers if isinstance(above, (cst.Try, cst.TryStar)) else ()
        is_tried = child is getattr(above, "body", None)
        if is_tried and any(_takes(evaluation, one.type) for one in handlers):
            return True
        child = above
    return False


def _takes(evaluation: Evaluation, kind: cst.BaseExpression | None) -> bool:
    """Whether a handler is for the errors that torch raises, or may be."""
    if kind is None:
        return True
    value: Value = evaluation.value(kind)
    parts = [
        part
        for one in value
        for inner in ((one.elements or ()) if isinstance(one, Sequence) else ((one,),))
        for part in inner
    ]
    return any(
        one.name in _RAISED if isinstance(one, Library) else not isinstance(one, Class)
        for one in parts
    )
