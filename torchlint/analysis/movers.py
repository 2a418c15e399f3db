"""Functions that do nothing but move a tensor to the GPU: ``to_var(x)``, ``to_device(x, device)``.

What a call gives such a function, it copies, as `.cuda()` in its place would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.creation import goal_of
from torchlint.analysis.reach import callee

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.analysis.program import Program

_WRAPS = "torch.autograd.Variable"


def is_moved_by(program: Program, call: cst.Call, given: cst.BaseExpression) -> bool:
    """Whether a call runs a function that moves what it is given to a GPU, and does no more."""
    if program.qualified(call.func).startswith(("torch.", "numpy.")):
        return False
    found = callee(program, call)
    if found is None:
        return False
    home, function = found
    if function.decorators or function.asynchronous is not None or home.yields(function):
        return False
    names = [
        param.name.value
        for param in function.params.params
        if home.calls.passed(function, param, call) is given
    ]
    if len(names) != 1 or not _only_gives(home, function.body, names[0]):
        return False
    moves = [move for move in _moves(home, function) if _is_to_gpu(home, move, program, call)]
    return bool(moves) and len(moves) == sum(1 for _ in _moves(home, function))


def _moves(home: Program, function: cst.FunctionDef) -> Iterator[cst.Call]:
    """Yield the moves of a function: ``x.cuda()``, ``x.to(device)``."""
    for call in home.index.below(function.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("cuda", "to"):
            yield call


def _is_to_gpu(home: Program, move: cst.Call, program: Program, call: cst.Call) -> bool:
    """Whether a move goes to a GPU; where the call passes the device, by what it passes."""
    function = home.function(move)
    first = move.args[0].value if move.args else None
    for param in function.params.params if function is not None else ():
        if isinstance(first, cst.Name) and first.value == param.name.value:
            passed = home.calls.passed(function, param, call) if function is not None else None
            device = None if passed is None else program.values.device(passed)
            if passed is not None and (device is None or not device.gpu):
                return False
    return goal_of(home, move) is not None


def _only_gives(home: Program, body: cst.BaseSuite, name: str) -> bool:
    """Whether a body only gives back a parameter, moved or not."""
    return _all_give(home, body.body, name) and any(
        node.value is not None for node in home.index.below(body, cst.Return)
    )


def _all_give(home: Program, statements: Sequence[cst.CSTNode], name: str) -> bool:
    return all(_gives(home, one, name) for one in statements)


def _gives(home: Program, node: cst.CSTNode | None, name: str) -> bool:
    """Whether a statement or an expression only moves a parameter, or gives it back."""
    match node:
        case cst.SimpleStatementLine(body=body) | cst.SimpleStatementSuite(body=body):
            return _all_give(home, body, name)
        case cst.If(body=block, orelse=orelse):
            return _all_give(home, block.body, name) and (
                orelse is None or _gives(home, orelse, name)
            )
        case cst.Else(body=block):
            return _all_give(home, block.body, name)
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()) | cst.Pass():
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value):
            return bound == name and _gives(home, value, name)
        case cst.Return(value=value):
            return _gives(home, value, name)
        case cst.IfExp(body=one, orelse=other):
            return _gives(home, one, name) and _gives(home, other, name)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="cuda" | "to"))):
            return _gives(home, inner, name)
        case cst.Call(args=[cst.Arg(value=inner), *_]):
            return home.qualified(node.func) == _WRAPS and _gives(home, inner, name)
        case cst.Name(value=found):
            return found == name
        case _:
            return False
