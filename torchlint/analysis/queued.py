"""What starts work on the GPU: calls and operations that queue kernels, and those that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.host_numbers import PLAIN, is_made_of, numbers_given, on_gpu
from torchlint.analysis.index import dotted
from torchlint.analysis.syncs import Read, is_sink
from torchlint.analysis.values import Device, Kind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

WAITS = tuple(f"torch.{device}.synchronize" for device in ("cuda", "mps", "xpu", "accelerator"))
# Functions that queue nothing.
_HOST = (*WAITS, "time.", "math.", "os.", "sys.", "logging.", "datetime.", "json.", "pickle.",
         "io.", "random.", "warnings.", "collections.", "itertools.", "re.", "numpy.", "scipy.",
         "sklearn.", "cv2.", "PIL.", "matplotlib.", "wandb.", "tqdm.", "torch.cuda.is_",
         "torch.cuda.max_memory", "torch.cuda.memory_", "torch.cuda.reset_",
         "torch.distributed.get_", "torch.distributed.is_", "torch.is_tensor")  # fmt: skip
_HOST_KINDS = frozenset(
    {Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NDARRAY, Kind.NPSCALAR, Kind.LIST,
     Kind.TUPLE, Kind.DICT, Kind.ITERATOR, Kind.SCHEDULER}
)  # fmt: skip
# Methods that queue nothing, whatever they are called on.
_VIEWS = frozenset(
    {"size", "dim", "numel", "detach", "item", "tolist", "numpy", "view", "unsqueeze", "squeeze",
     "keys", "values", "items", "get", "format", "append", "extend", "get_lr", "get_last_lr",
     "state_dict", "get_scale", "clear", "ljust", "rjust", "join", "strip"}
)  # fmt: skip
_KEEPS = frozenset({"update", "add", "put", "meter", "push", "set", "write", "step_update"})
_REDUCES = frozenset({"sum", "max", "min", "abs", "round", "pow", "divmod", "map", "filter"})
OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.AugAssign)
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a function: which parameters it gives numbers on the host, and how deep."""

    numbers: frozenset[int] = frozenset()
    depth: int = 0


_OUTER = Run()


def target_of(program: Program, call: cst.Call) -> tuple[Program, cst.FunctionDef] | None:
    """Return the function that a call runs, with its file."""
    own = program.calls.target(call)
    if own is not None:
        return program, own
    found = program.calls.elsewhere(call)
    return None if found is None else (found.program, found.function)


def queues(program: Program, node: cst.CSTNode, run: Run = _OUTER) -> bool:
    """Whether a call or an operation may start work on the GPU."""
    match node:
        case cst.Call():
            return _call_queues(program, node, run)
        case cst.AugAssign():
            return _on_gpu(program, node.target, run) or _on_gpu(program, node.value, run)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return False
        case cst.Comparison(left=left):
            sides = [left, *(item.comparator for item in node.comparisons)]
            return any(_on_gpu(program, side, run) for side in sides)
        case cst.BinaryOperation() | cst.UnaryOperation():
            return _on_gpu(program, node, run)
        case _:
            return False


def _on_gpu(program: Program, node: cst.BaseExpression, run: Run) -> bool:
    """Whether an operand may be on the GPU in one call of the function it stands in."""
    if not on_gpu(program, node):
        return False
    return not run.numbers or not is_made_of(program, node, run.numbers)


def _call_queues(program: Program, call: cst.Call, run: Run) -> bool:
    name = program.qualified(call.func)
    if name.startswith(_HOST) or is_sink(program, call) or _is_of_host(program, call):
        return False
    match call.func:
        case cst.Name(value=function) if program.is_builtin(call.func):
            return function in _REDUCES and _given_tensors(program, call, run)
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
    target = target_of(program, call)
    if target is not None:
        known = run.depth < _DEPTH and not _given_tensors(program, call, run)
        return not known or _function_queues(program, call, *target, run)
    return not _keeps_numbers(program, call, run)


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
    if value.kind in PLAIN:
        return None
    return value.kind is Kind.NDARRAY or (value.kind is Kind.TENSOR and value.device is Device.CPU)


def _function_queues(
    program: Program, call: cst.Call, home: Program, function: cst.FunctionDef, run: Run
) -> bool:
    """Whether a function queues anything when it is called with what a call passes."""
    numbers = numbers_given(home, function, call, lambda node: _is_number(program, node, run))
    inner = Run(numbers, run.depth + 1)
    return any(
        queues(home, node, inner)
        for kind in (cst.Call, *OPERATIONS)
        for node in home.index.below(function.body, kind)
    )


def _is_number(program: Program, node: cst.BaseExpression, run: Run) -> bool:
    if program.value(node).kind in (*PLAIN, Kind.UNKNOWN) or _is_read(program, node):
        return not _on_gpu(program, node, run) or _is_read(program, node)
    return False


def _keeps_numbers(program: Program, call: cst.Call, run: Run) -> bool:
    """Whether a method of something unknown is told numbers, to keep or to show them."""
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            plain = program.value(receiver).kind in (Kind.UNKNOWN, Kind.INSTANCE, Kind.OTHER)
            return plain and method in _KEEPS and not _given_tensors(program, call, run)
        case _:
            return False


def _given_tensors(program: Program, call: cst.Call, run: Run) -> bool:
    return any(
        not _is_read(program, arg.value) and _on_gpu(program, arg.value, run) for arg in call.args
    )


def _is_read(program: Program, node: cst.BaseExpression) -> bool:
    return any(s.node is node for s in program.syncs if s.read is not Read.SHOWN)
