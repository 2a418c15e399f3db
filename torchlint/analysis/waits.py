"""Reads of the GPU that find nothing left to wait for: another wait came right before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import dotted
from torchlint.analysis.syncs import Read, is_sink
from torchlint.analysis.values import Device, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.syncs import Sync

_WAITS = tuple(f"torch.{device}.synchronize" for device in ("cuda", "mps", "xpu", "accelerator"))
# Functions that queue nothing.
_HOST = (*_WAITS, "time.", "math.", "os.", "sys.", "logging.", "datetime.", "json.", "numpy.",
         "wandb.", "tqdm.", "torch.cuda.max_memory", "torch.cuda.memory_", "torch.cuda.reset_",
         "torch.distributed.get_", "torch.distributed.is_", "torch.is_tensor")  # fmt: skip
_HOST_KINDS = frozenset(
    {Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NDARRAY, Kind.NPSCALAR, Kind.LIST,
     Kind.TUPLE, Kind.DICT, Kind.ITERATOR, Kind.SCHEDULER}
)  # fmt: skip
_PLAIN_KINDS = frozenset({Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NPSCALAR})
# Methods that queue nothing, whatever they are called on.
_VIEWS = frozenset(
    {"size", "dim", "numel", "detach", "item", "tolist", "numpy", "view", "unsqueeze", "squeeze",
     "keys", "values", "items", "get", "format", "append", "extend", "get_lr", "get_last_lr",
     "state_dict", "get_scale"}
)  # fmt: skip
_KEEPS = frozenset({"update", "add", "put", "meter", "push", "set", "write", "step_update"})
_REDUCES = frozenset({"sum", "max", "min", "abs", "round", "pow", "divmod", "map", "filter"})
_OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.AugAssign)
_DEPTH = 3


def waited(program: Program, sync: Sync) -> cst.BaseExpression | None:
    """Return the wait of the same step after which nothing was queued when a tensor is read.

    Of several reads one after the other the first one waits for the work of the GPU.
    """
    last = max(_before(program, sync), key=program.index.order, default=None)
    if last is None or _queues_between(program, last, sync.node):
        return None
    earlier = next((s for s in program.syncs if s.node is last), None)
    return (None if earlier is None else waited(program, earlier)) or last


def costs(program: Program, sync: Sync, before: cst.BaseExpression | None) -> str:
    """Say what a read costs, given the wait before it, as a phrase for messages."""
    if before is None:
        return f"waits for the GPU in every {sync.step}"
    first = program.brief(before)
    if program.code(before) == program.code(sync.node):
        return f"copies anew in every {sync.step} what `{first}` has already read"
    return (
        f"waits for its own copy alone in every {sync.step}, as `{first}` has just waited for the "
        "GPU: they have to go together"
    )


def _before(program: Program, sync: Sync) -> Iterator[cst.BaseExpression]:
    """Yield the waits that always come before a read, in its function."""
    index, node = program.index, sync.node
    function, place = program.function(node), index.order(node)
    waits: list[cst.BaseExpression] = [s.node for s in program.syncs if not s.context.guarded]
    waits += [call for call in program.calls_of(*_WAITS) if not program.context(call).guarded]
    for wait in waits:
        ahead = index.order(wait) < place and not index.inside(node, wait)
        if ahead and program.function(wait) is function and _always_first(program, wait, node):
            yield wait


def _always_first(program: Program, first: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is evaluated each time before another, later one of the function is."""
    child = first
    for above in program.index.ancestors(first):
        around = program.index.inside(node, above)
        match above:
            case cst.If(test=needed) | cst.IfExp(test=needed) | cst.While(test=needed):
                if child is not needed:
                    return around and program.index.inside(node, child)
            case cst.For(iter=needed) | cst.BooleanOperation(left=needed):
                if child is not needed:
                    return around and program.index.inside(node, child)
            case cst.Try(body=needed) | cst.TryStar(body=needed):
                if child is not needed or (around and not program.index.inside(node, needed)):
                    return False
            case (
                cst.Lambda() | cst.FunctionDef() | cst.ClassDef() | cst.ExceptHandler()
                | cst.ExceptStarHandler() | cst.MatchCase()
            ):  # fmt: skip
                return False
            case _:
                pass
        if around:
            return True
        child = above
    return False


# -- what is queued ------------------------------------------------------------------------------


def _queues_between(program: Program, wait: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether anything may be queued for the GPU after a wait and before, or by, a read."""
    index = program.index
    around = next(above for above in index.ancestors(wait) if index.inside(node, above))
    first, last = index.end(wait), index.end(node)
    for above in index.ancestors(node):
        if above is around:
            break
        if isinstance(above, cst.For | cst.While):
            last = index.end(above)  # in its second turn all of the loop comes before the read
    after = [above for above in index.ancestors(wait) if index.inside(above, around)]
    after = [above for above in after if above is not around and not index.inside(node, above)]
    if any(_queues(program, above) for above in after):
        return True
    holders = {id(above) for above in index.ancestors(node)}
    for kind in (cst.Call, *_OPERATIONS):
        for found in index.below(around, kind):
            if first <= index.order(found) < last and id(found) not in holders:
                now = index.inside(found, node) or not program.context(found).guarded
                if now and _queues(program, found):
                    return True
    return False


def _queues(program: Program, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a call or an operation may start work on the GPU."""
    match node:
        case cst.Call():
            return _call_queues(program, node, depth)
        case cst.AugAssign():
            return _on_gpu(program, node.target) or _on_gpu(program, node.value)
        case cst.Comparison(left=left):
            sides = [left, *(item.comparator for item in node.comparisons)]
            return any(_on_gpu(program, side) for side in sides)
        case cst.BinaryOperation() | cst.UnaryOperation():
            return _on_gpu(program, node)
        case _:
            return False


def _on_gpu(program: Program, node: cst.BaseExpression) -> bool:
    value = program.value(node)
    if value.kind is Kind.TENSOR:
        return program.on_gpu(value)
    return value.kind in (Kind.UNKNOWN, Kind.BATCH) and value.device.gpu


def _call_queues(program: Program, call: cst.Call, depth: int) -> bool:
    name = program.qualified(call.func)
    if name.startswith(_HOST) or is_sink(program, call) or _is_of_host(program, call):
        return False
    match call.func:
        case cst.Name(value=function) if program.is_builtin(call.func):
            return function in _REDUCES and _given_tensors(program, call)
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            if method in _VIEWS or program.value(receiver).kind in _HOST_KINDS:
                return False
            if method == "cpu" and not call.args:
                return False
            if "sched" in dotted(receiver).rpartition(".")[2].lower():
                return False
        case _:
            pass
    target = program.calls.target(call)
    if target is not None:
        known = depth < _DEPTH and not _given_tensors(program, call)
        return not known or _function_queues(program, target, depth + 1)
    return not _keeps_numbers(program, call)


def _is_of_host(program: Program, call: cst.Call) -> bool:
    """Whether a call computes with arrays, or with tensors on the host, and nothing else."""
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            value = program.value(receiver)
            if value.kind is Kind.TENSOR:
                return value.device is Device.CPU and method not in ("to", "cuda")
        case _:
            pass
    given = [_is_on_host(program, arg.value) for arg in call.args]
    return True in given and False not in given and program.value(call.func).kind is not Kind.MODULE


def _is_on_host(program: Program, node: cst.BaseExpression) -> bool | None:
    """Whether an argument is data on the host; None of a number or an option."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("cpu" | "numpy")), args=[]):
            return True
        case _:
            value = program.value(node)
    if value.kind in _PLAIN_KINDS:
        return None
    return value.kind is Kind.NDARRAY or (value.kind is Kind.TENSOR and value.device is Device.CPU)


def _function_queues(program: Program, function: cst.FunctionDef, depth: int) -> bool:
    return any(
        _queues(program, node, depth)
        for kind in (cst.Call, *_OPERATIONS)
        for node in program.index.below(function.body, kind)
    )


def _keeps_numbers(program: Program, call: cst.Call) -> bool:
    """Whether a method of something unknown is told numbers, to keep or to show them."""
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            plain = program.value(receiver).kind in (Kind.UNKNOWN, Kind.INSTANCE, Kind.OTHER)
            return plain and method in _KEEPS and not _given_tensors(program, call)
        case _:
            return False


def _given_tensors(program: Program, call: cst.Call) -> bool:
    reads = {id(sync.node) for sync in program.syncs if sync.read is not Read.SHOWN}
    return any(id(arg.value) not in reads and _on_gpu(program, arg.value) for arg in call.args)
