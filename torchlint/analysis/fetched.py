"""Functions that do nothing but copy a tensor to the host: ``to_cpu(x)``.

A read of what they give is a read of what they are given: the copy is what waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import callee

if TYPE_CHECKING:
    from torchlint.analysis.program import Program


def fetched(program: Program, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what a call has copied to the host by a function of the project, if it is one."""
    if not isinstance(node, cst.Call):
        return None
    found = callee(program, node)
    if found is None:
        return None
    home, function = found
    if function.decorators or function.asynchronous is not None:
        return None
    name = _copied(function)
    for param in function.params.params:
        if param.name.value == name:
            return home.calls.passed(function, param, node)
    return None


def _copied(function: cst.FunctionDef) -> str:
    """``x`` where all that a function does is ``return x.detach().cpu()``, or ""."""
    lines = list(function.body.body)
    if len(lines) > 1 and function.get_docstring() is not None:
        del lines[0]
    match lines:
        case [cst.Return(value=node) | cst.SimpleStatementLine(body=[cst.Return(value=node)])]:
            pass
        case _:
            return ""
    copies = False
    while True:
        match node:
            case cst.Call(func=cst.Attribute(value=node, attr=cst.Name("cpu")), args=[]):
                copies = True
            case cst.Call(func=cst.Attribute(value=node, attr=cst.Name("detach")), args=[]):
                pass
            case cst.Attribute(value=node, attr=cst.Name("data")):
                pass
            case cst.Name(value=name) if copies:
                return name
            case _:
                return ""
