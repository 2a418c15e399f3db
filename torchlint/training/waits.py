"""Synchronizations: where the host waits for the whole GPU, and what for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Method, Object, Truth
from torchlint.syntax.calls import argument_of
from torchlint.syntax.chains import dotted
from torchlint.training.effects import unit_around
from torchlint.training.pending import host_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import At, Value
    from torchlint.training.script import Script

GPUS = ("cuda", "xpu", "mps", "npu", "accelerator")
WAITS = tuple(f"torch.{device}.synchronize" for device in GPUS)

CLOCKS = (
    *(f"time.{name}{unit}" for unit in ("", "_ns")
      for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")),
    "timeit.default_timer", "datetime.datetime.now", "datetime.datetime.utcnow",
)  # fmt: skip
EVENTS = ("torch.Event", *(f"torch.{device}.Event" for device in GPUS))
PROFILERS = (
    *(f"torch.{module}profiler.{name}" for module in ("", "autograd.")
      for name in ("profile", "record_function", "emit_nvtx")),
    "torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range", "torch.cuda.profiler.start",
    "torch.cuda.cudart", "nvtx.annotate",
)  # fmt: skip
MEMORY = tuple(
    f"torch.cuda.{module}{name}"
    for module in ("", "memory.")
    for name in ("memory_allocated", "max_memory_allocated", "reset_peak_memory_stats",
                 "memory_reserved", "max_memory_reserved", "mem_get_info")
)  # fmt: skip
# Libraries whose kernels PyTorch does not know of.
OTHERS = frozenset({"cupy", "numba", "pycuda", "ctypes", "triton", "cuda"})
STREAMS = ("torch.Stream", *(f"torch.{device}.Stream" for device in GPUS))
BY_HAND = (
    "torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.make_graphed_callables",
    "torch.cuda.set_stream", "torch.cuda.ExternalStream", "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline", "torch.utils.dlpack.to_dlpack",
    *(f"torch.distributed.{name}" for name in ("send", "recv", "isend", "irecv",
                                               "batch_isend_irecv")),
)  # fmt: skip
# Collectives, and where they are told to return at once.
COLLECTIVES = {
    "all_reduce": 3, "broadcast": 3, "reduce": 4, "all_gather": 3, "all_gather_into_tensor": 3,
    "reduce_scatter": 4, "reduce_scatter_tensor": 4, "all_to_all": 3, "all_to_all_single": 5,
}  # fmt: skip


class Reason(enum.Enum):
    """What a wait is for."""

    ERRORS = enum.auto()  # they are caught there
    ORDER = enum.auto()  # of work that PyTorch does not order by itself
    MEMORY = enum.auto()  # how much is in use
    RESULT = enum.auto()  # the function gives back the time that it took
    CLOCK = enum.auto()
    PROFILER = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Synchronization:
    """A wait for all that a GPU has to do; ``reason`` is None where nothing needs it."""

    call: cst.Call
    reason: Reason | None


def synchronizations(script: Script) -> Iterator[Synchronization]:
    """Yield the waits of a file, in the order of the walk."""
    calls = [call for call, _ in script.calls_of(*WAITS)]
    if calls:
        ordered = _is_ordered_by_hand(script)
        for call in calls:
            yield Synchronization(call, Reason.ORDER if ordered else _reason(script, call))


def _reason(script: Script, call: cst.Call) -> Reason | None:
    """Return what a wait is for, by the function and the loop that it is in."""
    if _catches_errors(script, call):
        return Reason.ERRORS
    loop = script.frequency(call).loop
    places: list[cst.CSTNode] = [script.module.function(call) or script.module.tree]
    if loop is not None and loop.file == script.file:
        places.append(script.connected.evaluation.node(loop))
    copies = [copy.call for copy in host_copies(script.connected.evaluation, script.file)]
    if any(_is_in(script, copy, place) for place in places for copy in copies):
        return Reason.ORDER
    if _gives_time(script, places[0]):
        return Reason.RESULT
    for reason, names in (
        (Reason.MEMORY, MEMORY),
        (Reason.PROFILER, PROFILERS),
        (Reason.CLOCK, (*CLOCKS, *EVENTS)),
    ):
        found = [one for one, _ in script.calls_of(*names)]
        if any(_is_in(script, one, place) for place in places for one in found):
            return reason
    return Reason.CLOCK if _calls_clock(script, places[-1]) else None


def _gives_time(script: Script, place: cst.CSTNode) -> bool:
    """Whether a function returns what it computes from a clock: it measures."""
    index, reaching = script.module.index, script.connected.evaluation.reaching
    clocks = {id(call) for call, _ in script.calls_of(*CLOCKS)}
    if not clocks or isinstance(place, cst.Module):
        return False
    for line in index.below(place, cst.Return):
        sources: list[cst.CSTNode] = [line]
        for name in index.below(line, cst.Name):
            sources += [one.value for one in reaching.get(id(name), ()) if one.value is not None]
        if any(id(call) in clocks for one in sources for call in index.below(one, cst.Call)):
            return True
    return False


def _calls_clock(script: Script, place: cst.CSTNode) -> bool:
    """Whether a function or the turns of a loop call what reads a clock, such as a timer."""
    if isinstance(place, cst.Module):
        return False
    evaluation, body = script.connected.evaluation, getattr(place, "body", place)
    unit = unit_around(evaluation, body, script.file)
    targets = {
        target: evaluation.index(target.file)
        for site in script.connected.frequencies.effects.sites[unit.at]
        if script.module.index.inside(site.node, body)
        for target in site.targets
    }
    return any(
        isinstance(one, Library) and one.name in CLOCKS
        for target, index in targets.items()
        if "time" in index.named
        for call in index.below(evaluation.node(target), cst.Call)
        for one in script.value(call.func)
    )


def _is_in(script: Script, call: cst.Call, place: cst.CSTNode) -> bool:
    """Whether a call stands in a function or loop; in a module, outside of its functions."""
    if isinstance(place, cst.Module):
        return script.module.function(call) is None
    return script.module.index.inside(call, place)


def _catches_errors(script: Script, call: cst.Call) -> bool:
    """Whether a wait stands in a ``try`` so that errors of the GPU appear there."""
    child: cst.CSTNode = call
    for above in script.module.index.ancestors(call):
        if isinstance(above, (cst.Try, cst.TryStar)) and child is above.body and above.handlers:
            return True
        if isinstance(above, (cst.For, cst.While, cst.FunctionDef)):
            return False
        child = above
    return False


def _is_ordered_by_hand(script: Script) -> bool:
    """Whether work of the GPU is ordered by hand in a file, so that a wait may be part of that."""
    if _packages(script) & OTHERS or any(script.calls_of(*BY_HAND)):
        return True
    if any(_is_for_order(script, event) for event, _ in script.calls_of(*EVENTS)):
        return True
    if any(not _is_joined(script, stream) for stream, _ in script.calls_of(*STREAMS)):
        return True
    names = {f"torch.distributed.{name}": place for name, place in COLLECTIVES.items()}
    for call, name in script.calls_of(*names):
        if _returns_at_once(script, call, names[name]) and not _has_method(script, call, "wait"):
            return True
    return False


def _packages(script: Script) -> set[str]:
    """Return the packages that a file imports."""
    found: set[str] = set()
    for alias in script.module.index.of(cst.ImportAlias):
        parent = script.module.parent(alias)
        is_from = isinstance(parent, cst.ImportFrom)
        named = parent.module if isinstance(parent, cst.ImportFrom) else alias.name
        if named is not None and not (is_from and parent.relative):  # type: ignore[union-attr]
            found.add(dotted(named).partition(".")[0])
    return found


def _is_for_order(script: Script, event: cst.Call) -> bool:
    """Whether an event takes no time: then others wait for it."""
    timing = _given(script, event, "enable_timing", 0)
    return not any(isinstance(one, Truth) and one.value for one in timing)


def _returns_at_once(script: Script, call: cst.Call, place: int) -> bool:
    """Whether a collective may go on while the script does."""
    value = _given(script, call, "async_op", place)
    return any(not isinstance(one, Truth) or one.value is not False for one in value)


def _given(script: Script, call: cst.Call, keyword: str, place: int) -> Value:
    """Return the value of an argument, empty where it is left out."""
    given = argument_of(call, keyword, place)
    return script.value(given) if given else ()


def _has_method(script: Script, call: cst.Call, name: str) -> bool:
    """Whether a method is called of what a call makes."""
    made = script.connected.evaluation.at(call, script.file)
    return any(
        _is_of(one.owner, made)
        for module in script.connected.files.modules
        for other in module.index.of(cst.Call)
        for one in script.value(other.func)
        if isinstance(one, Method) and one.name == name
    )


def _is_joined(script: Script, stream: cst.Call) -> bool:
    """Whether a stream ends with its function: another waits for it there, and none keeps it."""
    evaluation = script.connected.evaluation
    made = evaluation.at(stream, script.file)
    unit = unit_around(evaluation, stream, script.file)
    kept = [unit.returned, *evaluation.attributes.values()]
    held = [one for cell in kept for one in cell.value]
    for line in script.module.index.below(unit.node, cst.Assign):
        if not isinstance(line.targets[0].target, cst.Name):
            held += script.value(line.value)
    if isinstance(unit.node, cst.Module) or any(_is_of(one, made) for one in held):
        return False
    return any(
        _is_of(one, made)
        for call in script.module.index.below(unit.node, cst.Call)
        for method in script.value(call.func)
        if isinstance(method, Method) and method.name == "wait_stream"
        for arg in call.args
        for one in script.value(arg.value)
    )


def _is_of(one: object, made: At) -> bool:
    return isinstance(one, Object) and one.call == made
