"""Whether an error of a call would be caught, in its function or in one that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.effects import leading_to

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.effects import Effect, Effects

# The errors that torch raises, and those that they are; "" may be one.
_RAISED = ("", "builtins.Exception", "builtins.BaseException", "builtins.RuntimeError")


def catches(effects: Effects, effect: Effect) -> bool:
    """Whether an error of torch would be caught in any call that has an effect by itself."""
    evaluation = effects.evaluation
    return any(
        _is_tried(evaluation, node, around.node, around.at.file)
        for unit, sites in effects.sites.items()
        for site in sites
        if effect in site.effects
        for around, node in leading_to(evaluation, site.node, unit.file)
    )


def _is_tried(evaluation: Evaluation, node: cst.CSTNode, outer: cst.CSTNode, file: int) -> bool:
    return any(
        evaluation.library(kind) in _RAISED if kind else True
        for above, child in evaluation.index(file).climb(node, outer)
        if isinstance(above, (cst.Try, cst.TryStar)) and child is above.body
        for handler in above.handlers
        for kind in _kinds(handler.type)
    )


def _kinds(node: cst.BaseExpression | None) -> list[cst.BaseExpression | None]:
    return [one.value for one in node.elements] if isinstance(node, cst.Tuple) else [node]
