"""Synchronizations: where the host waits for the whole GPU, and what for."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Truth
from torchlint.syntax.calls import argument_of, keywords, last_name
from torchlint.training.effects import unit_around
from torchlint.training.pending import host_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

GPUS = ("cuda", "xpu", "mps", "npu", "accelerator")
WAITS = tuple(f"torch.{device}.synchronize" for device in GPUS)
EVENTS = ("torch.Event", *(f"torch.{device}.Event" for device in GPUS))
# What time is measured by, and memory, and what shows the work of the GPU.
_TIMES = "time perf_counter monotonic process_time thread_time".split()
_MEMORY = """memory_allocated max_memory_allocated reset_peak_memory_stats memory_reserved
    max_memory_reserved mem_get_info""".split()
_PROFILES = "profile record_function emit_nvtx".split()
CLOCKS = (
    *(f"time.{name}{unit}" for unit in ("", "_ns") for name in _TIMES),
    *(f"torch.cuda.{module}{name}" for module in ("", "memory.") for name in _MEMORY),
    *(f"torch.{module}profiler.{name}" for module in ("", "autograd.") for name in _PROFILES),
    *"timeit.default_timer datetime.datetime.now datetime.datetime.utcnow nvtx.annotate".split(),
    *(f"torch.cuda.{name}" for name in "nvtx.range_push nvtx.range profiler.start cudart".split()),
    *EVENTS,
)
# Libraries whose kernels PyTorch does not know of, and work that it is told how to order.
OTHERS = frozenset({"cupy", "numba", "pycuda", "ctypes", "triton", "cuda"})
_BY_HAND = """cuda.CUDAGraph cuda.graph cuda.make_graphed_callables cuda.set_stream Stream
    cuda.ExternalStream utils.cpp_extension.load utils.cpp_extension.load_inline
    utils.dlpack.to_dlpack distributed.send distributed.recv distributed.isend distributed.irecv
    distributed.batch_isend_irecv""".split()
BY_HAND = tuple(f"torch.{name}" for name in (*_BY_HAND, *(f"{device}.Stream" for device in GPUS)))


class Reason(enum.Enum):
    """What a wait is for."""

    ORDER = enum.auto()  # of work that PyTorch does not order by itself; of errors
    MEASURE = enum.auto()


def synchronizations(script: Script) -> Iterator[tuple[cst.Call, Reason | None]]:
    """Yield the waits of a file, each with what it is for, None where nothing needs it."""
    is_ordered: bool | None = None
    for call, _ in script.calls_of(*WAITS):
        if is_ordered is None:
            is_ordered = _is_ordered_by_hand(script)
        yield call, Reason.ORDER if is_ordered else _reason(script, call)


def _reason(script: Script, call: cst.Call) -> Reason | None:
    """Return what a wait is for, by the function and the loop that it is in."""
    evaluation, index = script.connected.evaluation, script.module.index
    tried = index.nearest(call, cst.Try)
    if tried is not None and tried.handlers and index.inside(call, tried.body):
        return Reason.ORDER
    unit = unit_around(evaluation, call, script.file).node
    loop = script.frequency(call).loop
    places = [unit if loop is None or loop.file != script.file else evaluation.node(loop), unit]
    copies = [copy.node for copy in host_copies(script)]
    copies += [
        one  # ``pinned.copy_(x, non_blocking=True)``
        for one in index.of(cst.Call)
        if last_name(one.func) == "copy_" and argument_of(one, "non_blocking", 1) is not None
    ]
    clocks = [one for one, _ in script.calls_of(*CLOCKS)]
    for reason, found in ((Reason.ORDER, copies), (Reason.MEASURE, clocks)):
        if any(_is_in(script, one, place) for place in places for one in found):
            return reason
    return None


def _is_in(script: Script, call: cst.Call, place: cst.CSTNode) -> bool:
    """Whether a call stands in a function or loop; in a module, outside of its functions."""
    if isinstance(place, cst.Module):
        return script.module.function(call) is None
    return script.module.index.inside(call, place)


def _is_ordered_by_hand(script: Script) -> bool:
    """Whether work of the GPU is ordered by hand, so that a wait may be part of that."""
    if script.connected.libraries & OTHERS or any(script.calls_of(*BY_HAND)):
        return True
    if any(not _asks(script, event, "enable_timing") for event, _ in script.calls_of(*EVENTS)):
        return True  # it takes no time: others wait for it
    return any(
        script.name(call.func).startswith("torch.distributed.") and _asks(script, call, "async_op")
        for call in script.module.index.of(cst.Call)
    )


def _asks(script: Script, call: cst.Call, keyword: str) -> bool:
    """Whether an argument may be true."""
    evaluation = script.connected.evaluation
    return any(one != Truth(False) for one in evaluation.value(keywords(call).get(keyword)))
