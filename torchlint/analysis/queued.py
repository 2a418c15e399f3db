"""What starts work on the GPU: calls and operations that queue kernels, and those that do not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.creation import created
from torchlint.analysis.host_numbers import PLAIN, is_made_of, numbers_given, on_gpu
from torchlint.analysis.loops import Role
from torchlint.analysis.origins import origins
from torchlint.analysis.removed import old_item
from torchlint.analysis.sinks import is_sink
from torchlint.analysis.syncs import Read
from torchlint.analysis.torch_api import TENSOR_NUMBER
from torchlint.analysis.values import Device, Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.analysis.program import Program

WAITS = tuple(f"torch.{device}.synchronize" for device in ("cuda", "mps", "xpu", "accelerator"))
# Functions that queue nothing.
_HOST = (*WAITS, "time.", "math.", "os.", "sys.", "logging.", "datetime.", "json.", "pickle.",
         "io.", "random.", "warnings.", "pdb.", "ipdb.", "traceback.", "collections.",
         "itertools.", "re.", "numpy.", "scipy.",
         "sklearn.", "cv2.", "PIL.", "matplotlib.", "wandb.", "tqdm.", "torch.cuda.is_",
         "torch.cuda.max_memory", "torch.cuda.memory_", "torch.cuda.reset_",
         "torch.distributed.get_", "torch.distributed.is_", "torch.is_tensor",
         "torch.autograd.Variable", "torch.from_numpy", "torch.no_grad", "torch.enable_grad",
         "torch.set_grad_enabled", "torch.inference_mode", "torch.autocast", "torch.amp.autocast",
         "torch.cuda.amp.autocast")  # fmt: skip
_HOST_KINDS = frozenset(
    {Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NDARRAY, Kind.NPSCALAR, Kind.LIST,
     Kind.TUPLE, Kind.DICT, Kind.ITERATOR, Kind.SCHEDULER}
)  # fmt: skip
# Methods that queue nothing, whatever they are called on.
_VIEWS = frozenset(
    {*TENSOR_NUMBER, "size", "detach", "tolist", "numpy", "view", "unsqueeze", "squeeze",
     "keys", "values", "items", "get", "format", "append", "extend", "get_lr", "get_last_lr",
     "state_dict", "parameters", "named_parameters", "buffers", "modules", "children",
     "get_scale", "clear", "ljust", "rjust", "join", "strip"}
)  # fmt: skip
_LOGGER = re.compile(r"log|print|record|report|writ", re.IGNORECASE)
_WORKS = frozenset({Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER})
_KEEPS = frozenset({"update", "add", "put", "meter", "push", "set", "write", "step_update"})
_REDUCES = frozenset({"sum", "max", "min", "abs", "round", "pow", "divmod", "map", "filter"})
# their results are counted, or their inputs checked, on the host
_COUNTED = ("torch.nonzero", "torch.masked_select", "torch.unique", "torch.multinomial",
            "torch.inverse", "torch.linalg.inv", "torch.linalg.solve")  # fmt: skip
OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.AugAssign)
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a function: which parameters it gives numbers on the host, and how deep."""

    numbers: frozenset[int] = frozenset()
    depth: int = 0


_OUTER = Run()


def waits(program: Program) -> list[cst.Call]:
    """Return the calls that wait for all that was queued, in the order of the text.

    By any name: ``wait = torch.cuda.synchronize if device == "cuda" else lambda: None``.
    """
    found = list(program.calls_of(*WAITS))
    for node in program.index.of(cst.Attribute) if "synchronize" in program.text else ():
        if node.attr.value != "synchronize" or program.qualified(node) not in WAITS:
            continue
        for name in _names_for(program, node):
            calls = program.calls.by_name(name.value)
            found += [call for call in calls if _is_call_of(program, call, name)]
    return sorted(found, key=program.index.order)


def _names_for(program: Program, node: cst.Attribute) -> Iterator[cst.Name]:
    """Yield the names that a function is given, where it is called by no other."""
    above = program.parent(node)
    if isinstance(above, cst.IfExp) and above.test is not node:
        above = program.parent(above)
    if isinstance(above, cst.Assign):
        for target in above.targets:
            if isinstance(target.target, cst.Name):
                yield target.target


def _is_call_of(program: Program, call: cst.Call, name: cst.Name) -> bool:
    match call.func:
        case cst.Name(value=value) as func if value == name.value:
            bound = program.flow.reaching(func)
            return any(one.kind is Bind.ASSIGN and one.node is name for one in bound)
        case _:
            return False


def index_copies(program: Program) -> list[cst.Subscript]:
    """Return where a tensor on a GPU is indexed with what is on the host.

    ``advantages[order[:64]]`` with an array, a list or a tensor on the CPU copies it to the GPU,
    for which the host waits.
    """
    reading = {id(program.function(sync.node)) for sync in program.syncs}
    return [
        node
        for node in program.index.of(cst.Subscript)
        if id(program.function(node)) in reading
        and any(_is_host_index(program, element.slice) for element in node.slice)
        and program.value(node.value).kind is Kind.TENSOR
        and program.value(node.value).device.gpu
    ]


def _is_host_index(program: Program, node: cst.BaseSlice) -> bool:
    match node:
        case cst.Index(value=cst.List(elements=[_, *_])):
            return True
        case cst.Index(value=cst.Name() | cst.Subscript() | cst.Call() as inner):
            value = program.value(inner)
        case _:
            return False
    if value.kind is Kind.TENSOR:
        unknown = value.device is Device.UNKNOWN and "set_default" not in program.text
        return value.device is Device.CPU or (unknown and _is_made_on_host(program, inner))
    return value.kind in (Kind.NDARRAY, Kind.LIST)


def _is_made_on_host(program: Program, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a tensor is a part of what ``torch.randperm(n)`` or the like gives."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if isinstance(node, cst.Call):
        return created(program, node) is not None
    made = origins(program, node) if depth < _DEPTH else []
    return bool(made) and all(
        one is not node and _is_made_on_host(program, one, depth + 1) for one in made
    )


# -- what waits without saying so -----------------------------------------------------------------


def implied_waits(program: Program) -> list[cst.BaseExpression]:
    """Return where the host waits by the way, in functions that read something as well.

    It has to know how many values a mask selects, and what a tensor says that decides something.
    """
    reading = {id(program.function(sync.node)) for sync in (*program.syncs, *program.truths)}
    return list(_implied(program, lambda node: id(program.function(node)) in reading))


def _implied(
    program: Program, is_asked: Callable[[cst.CSTNode], bool]
) -> Iterator[cst.BaseExpression]:
    of = program.index.of
    deciding: list[cst.If | cst.While | cst.Assert | cst.IfExp] = [*of(cst.If), *of(cst.While)]
    deciding += [*of(cst.Assert), *of(cst.IfExp)]
    for node in deciding:
        if is_asked(node):
            yield from (part for part in decided_by(node.test) if _is_of_gpu(program, part))
    for entry in of(cst.Subscript):
        if is_asked(entry) and _selects(program, entry):
            yield entry
    for call in of(cst.Call):
        if is_asked(call) and _counts(program, call):
            yield call


def asks_gpu(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition is a tensor of the GPU, for which the host waits."""
    return any(_is_of_gpu(program, part) for part in decided_by(test))


def decided_by(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a condition that are evaluated in any case."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from decided_by(inner)
        case cst.BooleanOperation(left=left):
            yield from decided_by(left)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            pass
        case _:
            yield test


def _is_of_gpu(program: Program, node: cst.BaseExpression) -> bool:
    value = program.value(node)
    return value.kind is Kind.TENSOR and program.on_gpu(value)


def _selects(program: Program, node: cst.Subscript) -> bool:
    """``scores[mask]`` as a value; where it is assigned to, nobody counts."""
    if isinstance(program.parent(node), cst.AssignTarget | cst.AugAssign):
        return False
    return any(_is_mask(program, one.slice) for one in node.slice)


def _is_mask(program: Program, node: cst.BaseSlice) -> bool:
    if not isinstance(node, cst.Index):
        return False
    inner = _whole(node.value)
    made = origins(program, inner) if isinstance(inner, cst.Name) else [inner]
    if any(_is_boolean(one) and on_gpu(program, one) for one in map(_whole, made)):
        return True
    return program.value(node.value).dtype == "bool" and on_gpu(program, inner)


def _is_boolean(node: cst.CSTNode) -> bool:
    """``x > 0``, ``x.bool()``, ``(x > 0) & seen``."""
    match node:
        case cst.Comparison() | cst.Call(func=cst.Attribute(attr=cst.Name("bool"))):
            return True
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr()):
            return _is_boolean(node.left) or _is_boolean(node.right)
        case _:
            return False


def _whole(node: cst.CSTNode) -> cst.CSTNode:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def _counts(program: Program, call: cst.Call) -> bool:
    name = program.qualified(call.func)
    if name.startswith("torchvision.ops.") and name.endswith("nms"):
        return True
    if name in _COUNTED or (name == "torch.where" and len(call.args) == 1):
        return any(_is_of_gpu(program, arg.value) for arg in call.args[:1])
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name("nonzero" | "masked_select" | "unique")):
            return _is_of_gpu(program, receiver)
        case cst.Attribute(value=receiver, attr=cst.Name("to")):
            # `{k: v.to(cpu) for k, v in x.items()}`: who knows what it is, but where it goes
            return (
                program.value(receiver).kind is Kind.UNKNOWN
                and program.values.moved_to(call, Device.UNKNOWN) is Device.CPU
                and program.context(call).role is Role.EVAL
            )
        case _:
            return False


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
    if any(one is call for one in program.waits):
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
    logs = _logs(program, call, run)
    target = target_of(program, call)
    if target is not None and not (logs and _LOGGER.search(dotted(call.func).rpartition(".")[2])):
        known = run.depth < _DEPTH and not _given_tensors(program, call, run)
        return not known or _function_queues(program, call, *target, run)
    return not (logs or _keeps_numbers(program, call, run))


def _is_of_host(program: Program, call: cst.Call) -> bool:
    """Whether a call computes with arrays, or with tensors on the host, and nothing else.

    A copy from there to the GPU that is not told otherwise has ended when the call returns.
    """
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value=method)):
            value = program.value(receiver)
            if value.kind is Kind.TENSOR:
                most = {"to": 1, "cuda": 0}.get(method, len(call.args))
                return value.device is Device.CPU and len(call.args) <= most
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


def _logs(program: Program, call: cst.Call, run: Run) -> bool:
    """Whether a call is told what was just read, and no tensor or model: who knows it not, logs."""
    if program.qualified(call.func).startswith("torch") or _given_tensors(program, call, run):
        return False
    func = call.func
    receiver = func.value if isinstance(func, cst.Attribute) else func
    given = [program.value(node).kind for node in (receiver, func, *(a.value for a in call.args))]
    return not _WORKS.intersection(given) and any(
        _is_read(program, inner) for arg in call.args for inner in _parts_of(program, arg.value)
    )


def _parts_of(program: Program, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what may be a read in an expression, or have made what a name stands for."""
    yield from program.index.below(node, cst.Call)
    yield from program.index.below(node, cst.Subscript)
    for one in origins(program, node) if isinstance(node, cst.Name) else ():
        if isinstance(one, cst.Call | cst.Subscript):
            yield one


def _given_tensors(program: Program, call: cst.Call, run: Run) -> bool:
    return any(
        not _is_read(program, arg.value) and _on_gpu(program, arg.value, run) for arg in call.args
    )


def _is_read(program: Program, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("item")), args=[]):
            return True
        case cst.Subscript() if old_item(program, node) is not None:
            return True
        case _:
            return any(s.node is node for s in program.syncs if s.read is not Read.SHOWN)
