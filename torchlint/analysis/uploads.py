"""Tensors that a step makes on the host and copies to the GPU, for which the host waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords
from torchlint.analysis.creation import DRAWS, FILLS, SAME, goal_of
from torchlint.analysis.derivation import sources
from torchlint.analysis.host_numbers import on_gpu
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.analysis.program import Program

_TYPED = ("Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor",
          "ShortTensor", "ByteTensor", "BoolTensor")  # fmt: skip
_OF_DATA = ("torch.tensor", "torch.as_tensor", "torch.from_numpy")
_MAYBE_LATER = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.CompFor)


def goes_back(program: Program, copy: cst.CSTNode, loop: cst.CSTNode | None) -> cst.Call | None:
    """Return the call that copies what is computed of a copy back to the GPU, in the same turn."""
    place = loop or program.function(copy)
    for call in () if place is None else program.index.below(place, cst.Call):
        if (
            program.index.order(call) > program.index.order(copy)
            and is_upload(program, call)
            and sources(program, [call]).hold(program, copy)
        ):
            return call
    return None


def _from(program: Program, copy: cst.Call) -> Sequence[cst.CSTNode]:
    """Return the statement of a copy, and those after it in its block."""
    line = program.statement(copy)
    match program.parent(line):
        case cst.IndentedBlock(body=body) | cst.Module(body=body):
            return body[next(i for i, one in enumerate(body) if one is line) :]
        case _:
            return ()


def _around(program: Program, copy: cst.Call) -> list[cst.Call]:
    """Return the calls that are given a copy."""
    statement = program.smallest_statement(copy)
    above = program.index.ancestors(copy)
    return [
        one for one in above if isinstance(one, cst.Call) and program.index.inside(one, statement)
    ]


def is_upload(program: Program, call: cst.Call) -> bool:
    """Whether a call certainly copies a tensor to the GPU that was just made on the host."""
    statement = program.smallest_statement(call)
    for above in program.index.ancestors(call):
        if above is statement:
            break
        if isinstance(above, _MAYBE_LATER):
            return False
    match call.func:
        case cst.Attribute(value=made, attr=cst.Name("to" | "cuda")):
            waits = "non_blocking" not in keywords(call) and len(call.args) < 2
            return waits and _is_made_of_data(program, made) and goal_of(program, call) is not None
        case _:
            return _is_made_there(program, call)


def _is_made_there(program: Program, call: cst.Call) -> bool:
    """``torch.tensor([3], device=device)``: made on the host, and copied while the host waits."""
    place = keywords(call).get("device")
    if place is None or program.qualified(call.func) not in _OF_DATA[:2]:
        return False
    device = program.values.device(place)
    return device is not None and device.gpu and _is_data(program, call)


def _is_made_of_data(program: Program, node: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor on the host, of what no factory gives on the GPU."""
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in SAME | FILLS | DRAWS
        and not program.qualified(node.func)
    ):
        node = node.func.value
    if not isinstance(node, cst.Call) or "device" in keywords(node):
        return False
    name = program.qualified(node.func)
    if name in _OF_DATA:
        return _is_data(program, node)
    kinds = [program.value(arg.value).kind for arg in node.args[:1]]
    return name.removeprefix("torch.") in _TYPED and Kind.TENSOR not in kinds


def _is_data(program: Program, made: cst.Call) -> bool:
    """Whether a tensor is made of a list, an array or the like."""
    given = made.args[0].value if made.args else None
    if given is None or on_gpu(program, given):
        return False
    return program.value(given).kind not in (Kind.TENSOR, Kind.BATCH, Kind.NUMBER)
