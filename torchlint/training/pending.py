"""Copies from a GPU to the host that nobody waits for, and what reads them too early.

``x.to("cpu", non_blocking=True)`` gives a tensor that is filled while Python goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tables.tensors import BOOLS, NUMBERS, VIEWS
from torchlint.semantics.values import Device, Function, Library, Tensor, Truth, Unknown
from torchlint.syntax.calls import has_keyword, last_name
from torchlint.training.effects import unit_around
from torchlint.training.host_reads import CONVERSIONS, SHOWS, host_reads
from torchlint.training.read_uses import readers, targets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.training.copies import DeviceCopy
    from torchlint.training.script import Script

# What a tensor is asked without its numbers, or handed on with no wait.
_LOOKS = "shape device dtype ndim size stride type to cuda pin_memory copy_ record_stream"
LOOKS = NUMBERS | BOOLS | VIEWS | frozenset(_LOOKS.split())
# Methods that wait, whatever has them, and those that do where they are not told otherwise.
WAITS = frozenset({"synchronize", "wait", "query", "barrier", "elapsed_time"})
MOVES = frozenset({"to", "cuda"})


def host_copies(script: Script) -> Iterator[DeviceCopy]:
    """Yield the copies of a file from a GPU, as far as is known, that may go on behind it."""
    evaluation = script.connected.evaluation
    for copy in script.connected.copies:
        is_to_host = copy.file == script.file and copy.target is Device.HOST
        is_from_host = all(
            isinstance(one, Tensor) and one.device is Device.HOST for one in copy.value
        )
        asks = evaluation.value(copy.non_blocking) == (Truth(True),)
        if is_to_host and asks and not is_from_host:
            yield copy


def first_read(evaluation: Evaluation, file: int, copy: DeviceCopy) -> cst.CSTNode | None:
    """Return what reads a copy on the host before anything can have waited for it."""
    index, start = evaluation.index(file), evaluation.index(file).end(copy.node)
    found = [one for one in _reads(evaluation, file, copy) if index.end(one) >= start]
    read = min(found, key=index.order, default=None)
    if read is None:
        return None
    stop = index.end(evaluation.module(file).smallest_statement(read))
    function = unit_around(evaluation, copy.node, file).node
    for call in index.below(function, cst.Call):
        if call is copy.node or index.inside(read, call):
            continue  # what is called with the read comes after it
        if index.end(call) >= start:
            name = last_name(call.func)
            is_between = index.order(call) < stop
            if name in WAITS or (is_between and _may_wait(evaluation, call, name)):
                return None
    others = (one.node for one in host_reads(evaluation, file))
    waits = any(start <= index.order(other) < stop for other in others if other is not read)
    return None if waits else read


def _reads(evaluation: Evaluation, file: int, copy: DeviceCopy) -> Iterator[cst.CSTNode]:
    """Yield what reads a copy, through the names that it is given; its views are not followed."""
    index = evaluation.index(file)
    waiting: list[cst.CSTNode] = [copy.node]
    for node in waiting:  # it grows
        parent = index.parent(node)
        above = None if parent is None else index.parent(parent)
        match parent:
            case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
                is_called = isinstance(above, cst.Call) and above.func is parent
                if is_called and above is not None and name not in LOOKS:
                    yield above
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
