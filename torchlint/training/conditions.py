"""Statements that do nothing but make some calls, with the device checks around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.guards import asks_for_device

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.script import Script


def whole_statement(
    script: Script, calls: Collection[cst.Call], call: cst.Call
) -> cst.BaseStatement | cst.BaseSmallStatement:
    """Return the statement that does nothing but make one of some calls, device checks included."""
    module, evaluation = script.module, script.connected.evaluation
    found = module.parent(call)
    assert isinstance(found, cst.BaseSmallStatement)
    whole: cst.BaseStatement | cst.BaseSmallStatement = found
    for above in module.index.ancestors(call):
        is_check = isinstance(above, cst.If) and not isinstance(module.parent(above), cst.If)
        if is_check and not all(
            _is_plain(evaluation, part, calls, whole) for part in _parts(above)
        ):
            break
        if isinstance(above, cst.If) and is_check:
            whole = above
        elif not isinstance(
            above, (cst.Expr, cst.SimpleStatementLine, cst.BaseSuite, cst.If, cst.Else)
        ):
            break
    return whole


def _parts(statement: cst.CSTNode | None) -> Iterator[cst.If | cst.Else]:
    """Yield an ``if`` statement, its ``elif``s and its ``else``."""
    while isinstance(statement, (cst.If, cst.Else)):
        yield statement
        statement = getattr(statement, "orelse", None)


def _is_plain(
    evaluation: Evaluation,
    part: cst.If | cst.Else,
    calls: Collection[cst.Call],
    inner: cst.CSTNode,
) -> bool:
    """Whether a branch asks for a device at most, and does nothing but make some of the calls."""
    lines = part.body.body
    return (isinstance(part, cst.Else) or asks_for_device(evaluation, part.test)) and all(
        one is inner or getattr(one, "value", None) in calls
        for line in lines
        for one in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    )
