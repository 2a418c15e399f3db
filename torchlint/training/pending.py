"""Copies from a GPU to the host that nobody waits for, and what reads them too early.

``x.to("cpu", non_blocking=True)`` gives a tensor that is filled while Python goes on, and so does
``pinned.copy_(x, non_blocking=True)``; a copy into ordinary memory waits by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.tensors import BOOLS, NUMBERS, VIEWS
from torchlint.semantics.values import Device, Function, Library, Tensor, Truth, Unknown
from torchlint.syntax.calls import argument_of, has_keyword, keywords, last_name
from torchlint.training.copies import device_copies
from torchlint.training.effects import unit_around
from torchlint.training.host_reads import CONVERSIONS, SHOWS, host_reads
from torchlint.training.read_uses import readers, targets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative

# What a tensor is asked without its numbers, or handed on with no wait.
LOOKS = NUMBERS | BOOLS | frozenset(
    "shape device dtype ndim size stride type to cuda pin_memory copy_ record_stream".split()
)  # fmt: skip
SAME = VIEWS | frozenset({"data", "T", "mT"})
# Methods that wait, whatever has them, and those that do where they are not told otherwise.
WAITS = frozenset({"synchronize", "wait", "query", "barrier", "elapsed_time"})
MOVES = frozenset({"to", "cuda"})


@dataclass(frozen=True, slots=True, eq=False)
class HostCopy:
    """A copy to the host that is not waited for.

    ``flag`` is the argument that says so, ``result`` the expression whose memory is filled.
    ``certain``: it comes from a GPU, and that memory is pinned, so that nothing waits by itself.
    """

    call: cst.Call
    flag: cst.Arg
    result: cst.BaseExpression
    certain: bool


def host_copies(evaluation: Evaluation, file: int) -> Iterator[HostCopy]:
    """Yield the copies of tensors to the host that may go on behind the script."""
    moves = {id(copy.node): copy for copy in device_copies(evaluation, file)}
    for call in evaluation.index(file).of(cst.Call):
        asked = argument_of(call, "non_blocking", 1)
        flag = next((arg for arg in call.args if arg.value is asked), None)
        if flag is None or evaluation.value(flag.value) != (Truth(True),):
            continue
        match call.func:
            case cst.Attribute(attr=cst.Name("to")) if id(call) in moves:
                copy = moves[id(call)]
                devices = _devices(copy.value)
                if copy.target is Device.HOST and devices != {Device.HOST}:
                    yield HostCopy(call, flag, call, Device.CUDA in devices)
            case cst.Attribute(value=owner, attr=cst.Name("copy_")):
                devices = _devices(evaluation.value(call.args[0].value))
                if Device.CUDA not in _devices(evaluation.value(owner)):
                    pinned = _is_pinned(evaluation, owner)
                    yield HostCopy(call, flag, owner, pinned and Device.CUDA in devices)


def _devices(value: tuple[Alternative, ...]) -> set[Device]:
    return {one.device if isinstance(one, Tensor) else Device.UNKNOWN for one in value}


def _is_pinned(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    """Whether a name is certainly one of pinned memory of the host."""
    made = [one.value for one in evaluation.bindings(node)]
    return bool(made) and all(
        isinstance(one, cst.Call)
        and (
            last_name(one.func) == "pin_memory"
            or evaluation.value(keywords(one).get("pin_memory")) == (Truth(True),)
        )
        for one in made
    )


def first_read(evaluation: Evaluation, file: int, copy: HostCopy) -> cst.CSTNode | None:
    """Return what reads a copy on the host before anything can have waited for it."""
    index, start = evaluation.index(file), evaluation.index(file).end(copy.call)
    found = [one for one in _reads(evaluation, file, copy) if index.end(one) >= start]
    read = min(found, key=index.order, default=None)
    if read is None:
        return None
    stop = index.end(evaluation.module(file).smallest_statement(read))
    function = unit_around(evaluation, copy.call, file).node
    for call in index.below(function, cst.Call):
        if call is copy.call or index.inside(read, call):
            continue  # what is called with the read comes after it
        if index.end(call) >= start:
            name = last_name(call.func)
            is_between = index.order(call) < stop
            if name in WAITS or (is_between and _may_wait(evaluation, call, name)):
                return None
    others = (one.node for one in host_reads(evaluation, file))
    waits = any(start <= index.order(other) < stop for other in others if other is not read)
    return None if waits else read


def _reads(evaluation: Evaluation, file: int, copy: HostCopy) -> Iterator[cst.CSTNode]:
    """Yield what reads a copy, through its views and the names that it is given."""
    index = evaluation.index(file)
    waiting: list[cst.CSTNode] = [copy.result]
    if copy.result is not copy.call:
        bound = evaluation.bindings(copy.result)
        names = index.named.get(getattr(copy.result, "value", ""), ())
        block = index.parent(evaluation.module(file).statement(copy.call)) or copy.call
        waiting = [
            one
            for one in names
            if bound and evaluation.bindings(one) == bound and index.inside(one, block)
        ]
    for node in waiting:  # it grows
        parent = index.parent(node)
        above = None if parent is None else index.parent(parent)
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
                is_called = isinstance(above, cst.Call) and above.func is parent
                if name in SAME:
                    waiting.append(above if is_called and above is not None else parent)
                elif is_called and above is not None and name not in LOOKS:
                    yield above
            case cst.Subscript() if parent.value is node:
                if not isinstance(above, (cst.AssignTarget, cst.AugAssign)):
                    waiting.append(parent)
            case cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                yield parent
            case cst.ComparisonTarget() | cst.FormattedStringExpression() | cst.AugAssign():
                yield parent
            case cst.If() | cst.While() | cst.Assert():
                yield node
            case cst.Arg() if isinstance(above, cst.Call):
                if _computes(evaluation.library(above.func)):
                    yield above
            case cst.Assign() | cst.AnnAssign():
                for target in targets_of(parent):
                    new = readers(evaluation, target, file)
                    waiting += [one for one in new if one not in waiting]


def _computes(name: str) -> bool:
    """Whether a function of a library reads the numbers of what it is given."""
    is_plain = name.startswith(("torch.", "numpy.", "math."))
    return name in CONVERSIONS | SHOWS or (is_plain and not name.startswith("torch.cuda."))


def _may_wait(evaluation: Evaluation, call: cst.Call, name: str) -> bool:
    """Whether a call may wait for the GPU: what nobody knows, and functions of the project, may."""
    if name in MOVES:
        return not has_keyword(call, ("non_blocking",))
    return any(
        isinstance(one, (Unknown, Function))
        or (isinstance(one, Library) and "synchronize" in one.name)
        or isinstance(getattr(one, "owner", None), Unknown)
        for one in evaluation.value(call.func) or (Unknown(),)
    )
