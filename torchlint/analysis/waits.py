"""Reads of the GPU that find nothing left to wait for: another wait came right before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.index import dotted
from torchlint.analysis.origins import origins
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
     "state_dict", "get_scale", "clear", "ljust", "rjust", "join", "strip"}
)  # fmt: skip
_KEEPS = frozenset({"update", "add", "put", "meter", "push", "set", "write", "step_update"})
_REDUCES = frozenset({"sum", "max", "min", "abs", "round", "pow", "divmod", "map", "filter"})
_OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.AugAssign)
# What stands in functions that wait.
_READS = frozenset({"item", "cpu", "tolist", "to", "float", "int", "synchronize"})
_DEPTH = 3


def waited(program: Program, sync: Sync) -> cst.BaseExpression | None:
    """Return the wait of the same step after which nothing was queued when a tensor is read.

    Of several reads one after the other the first one waits for the work of the GPU.
    """
    last = max(_before(program, sync), key=program.index.order, default=None)
    if last is None or _queues_between(program, last, sync.node):
        return _waiting_update(program, sync)
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
    waits += _waiting_calls(program, sync)
    for wait in waits:
        ahead = index.order(wait) < place and not index.inside(node, wait)
        if ahead and program.function(wait) is function and _always_first(program, wait, node):
            yield wait


def _waiting_calls(program: Program, sync: Sync) -> Iterator[cst.Call]:
    """Yield the calls of the function around a read that wait for the GPU in what they run."""
    function, index = program.function(sync.node), program.index
    place = function or program.module
    for call in index.below(place, cst.Call):
        if index.order(call) < index.order(sync.node) and program.function(call) is function:
            target = _target(program, call)
            if target is not None and not program.context(call).guarded and _ends_waiting(*target):
                yield call


def _target(program: Program, call: cst.Call) -> tuple[Program, cst.FunctionDef] | None:
    """Return the function that a call runs, with its file."""
    own = program.calls.target(call)
    if own is not None:
        return program, own
    found = program.calls.elsewhere(call)
    return None if found is None else (found.program, found.function)


def _ends_waiting(home: Program, function: cst.FunctionDef) -> bool:
    """Whether a function waits for the GPU each time that it runs, and queues nothing after it."""
    if not any(name.value in _READS for name in home.index.below(function.body, cst.Name)):
        return False  # the usual case, and cheap to see
    waits: list[cst.CSTNode] = [sync.node for sync in home.syncs if sync.read is not Read.SHOWN]
    waits += home.calls_of(*_WAITS)
    return any(
        _always_runs(home, wait, function) and not _queues_after(home, wait, function)
        for wait in waits
        if home.function(wait) is function
    )


def _always_runs(home: Program, wait: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Whether a wait runs in each call of a function; where there is a GPU is enough."""
    child = wait
    for above in home.index.ancestors(wait):
        match above:
            case cst.FunctionDef():
                break
            case cst.If(test=test) if "cuda" in home.code(test) and child is above.body:
                pass
            case (
                cst.If() | cst.IfExp() | cst.BooleanOperation() | cst.For() | cst.While()
                | cst.Try() | cst.TryStar() | cst.Match() | cst.Lambda()
            ):  # fmt: skip
                return False
            case _:
                pass
        child = above
    return not any(
        home.index.order(one) < home.index.order(wait) for one in _leaving(home, function)
    )


def _leaving(home: Program, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """Yield what leaves a function in its midst."""
    last = function.body.body[-1]
    for one in home.returns(function):
        if not home.index.inside(one, last):
            yield one


def _queues_after(home: Program, wait: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Whether a function queues anything after a wait, or by what takes its result."""
    index = home.index
    around = {id(above) for above in index.ancestors(wait)}
    return any(
        _queues(home, node)
        for kind in (cst.Call, *_OPERATIONS)
        for node in index.below(function.body, kind)
        if index.order(node) >= index.end(wait) or id(node) in around
    )


def _waiting_update(program: Program, sync: Sync) -> cst.BaseExpression | None:
    """Return what apex updated the parameters with before a read, for which it waits itself.

    LARC reads the norms of every parameter; the scaler of its amp reads whether a gradient is
    finite, where the block of `scale_loss` ends.
    """
    index, node = program.index, sync.node
    if "apex" not in program.text:
        return None
    found = [*_steps_of_larc(program), *_scaled_losses(program)]
    waits = [
        wait
        for wait in found
        if program.function(wait) is program.function(node)
        and index.order(wait) < index.order(node)
        and not program.context(wait).guarded
        and _always_first(program, wait, node)
    ]
    last = max(waits, key=index.order, default=None)
    if last is None:
        return None
    block = program.statement(last)
    return None if _computes_between(program, index.end(block), node) else last


def _steps_of_larc(program: Program) -> Iterator[cst.Call]:
    """Yield ``optimizer.step()`` of an optimizer that may be apex's LARC."""
    for call, func in program.method_calls("step"):
        made = (one for one in origins(program, func.value) if isinstance(one, cst.Call))
        if any(program.qualified(one.func).endswith(".LARC") for one in made):
            yield call


def _scaled_losses(program: Program) -> Iterator[cst.Call]:
    """Yield ``scale_loss(...)`` of ``with amp.scale_loss(loss, optimizer) as scaled: ...``."""
    for call, _ in program.method_calls("scale_loss"):
        if isinstance(program.parent(call), cst.WithItem):
            yield call


def _computes_between(program: Program, start: int, node: cst.CSTNode) -> bool:
    """Whether a model runs, forward or backward, between a place and a read."""
    index = program.index
    return any(
        start <= index.order(call) < index.order(node)
        and (
            program.value(call.func).kind is Kind.MODULE
            or (isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward")
        )
        for call in index.of(cst.Call)
    )


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
            if method == "to" and program.values.moved_to(call, Device.UNKNOWN) is Device.CPU:
                return False
            if "sched" in dotted(receiver).rpartition(".")[2].lower():
                return False
        case _:
            pass
    target = _target(program, call)
    if target is not None:
        known = depth < _DEPTH and not _given_tensors(program, call)
        return not known or _function_queues(*target, depth + 1)
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
