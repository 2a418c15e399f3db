"""Conditions around code: whether something decides that it runs, or only asks for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.training.guards import asks_for_device

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchlint.training.script import Script


def whole_statement(
    script: Script, calls: Collection[cst.Call], call: cst.Call
) -> cst.BaseStatement | cst.BaseSmallStatement:
    """Return the statement that does nothing but make one of some calls, device checks included."""
    statement: cst.CSTNode | None = script.module.parent(call)
    while (above := _holder(script, statement)) is not None and all(
        _only_calls(script, branch, calls) for branch in _branches(above)
    ):
        statement = above
    assert isinstance(statement, (cst.BaseStatement, cst.BaseSmallStatement))
    return statement


def _holder(script: Script, statement: cst.CSTNode | None) -> cst.If | None:
    """Return the ``if`` ... ``else`` about devices that a statement is directly in."""
    assert statement is not None
    module = script.module
    for above in module.index.ancestors(statement):
        if isinstance(above, cst.If) and not isinstance(module.parent(above), cst.If):
            tests = [part.test for part in _parts(above) if isinstance(part, cst.If)]
            asks = (asks_for_device(script.connected.evaluation, test) for test in tests)
            return above if all(asks) else None
        if not isinstance(above, (cst.If, cst.Else, cst.BaseSuite, cst.SimpleStatementLine)):
            return None
    return None


def _parts(statement: cst.If) -> Iterator[cst.If | cst.Else]:
    """Yield an ``if`` statement, its ``elif``s and its ``else``."""
    part: cst.If | cst.Else | None = statement
    while part is not None:
        yield part
        part = part.orelse if isinstance(part, cst.If) else None


def _branches(statement: cst.If) -> Iterator[cst.BaseSuite]:
    return (part.body for part in _parts(statement))


def _only_calls(script: Script, branch: cst.BaseSuite, calls: Collection[cst.Call]) -> bool:
    """Whether a block does nothing but make some of the calls."""
    inside = [call for call in calls if script.module.index.inside(call, branch)]
    lines = [
        line.body if isinstance(line, cst.SimpleStatementLine) else [line] for line in branch.body
    ]
    statements = [small for line in lines for small in line]
    return bool(inside) and all(
        isinstance(small, cst.Expr) and any(small.value is call for call in inside)
        for small in statements
    )
