"""Code that measures time, or orders the work of the GPU by hand: there a wait is the point."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.clocks import clock_reads, own_calls, reads_clock
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loops import Role
from torchlint.analysis.values import Device
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

_TIMER_WORDS = re.compile(
    r"timer|stopwatch|elapsed|profil|benchmark|throughput|latency|(^|_)(tic|toc)(_|$)",
    re.IGNORECASE,
)
_MEASURES = re.compile(
    r"bench|profil|measur|latenc|throughput|speed|warm_?up|(^|_)(time|timed|timing|timeit)(_|$)",
    re.IGNORECASE,
)
_BY_HAND = re.compile(
    r"torch\.(cuda|xpu|mps)\.(Stream|stream|Event|ExternalStream|CUDAGraph|graph|set_stream|"
    r"current_stream|default_stream|make_graphed_callables)|"
    r"torch\.(Stream|Event)$|torch\.utils\.(cpp_extension|dlpack)"
)
_STREAMS = re.compile(r"torch\.(cuda|xpu|mps)\.(Stream|stream|current_stream)")
_ORDERS = frozenset({"stream", "wait_stream", "synchronize"})
_PROFILES = re.compile(
    r"torch\.((autograd\.)?profiler|(cuda|xpu|mps)\.(nvtx|profiler|cudart))\b|nvtx\b"
)
_OTHER_KERNELS = frozenset({"cupy", "numba", "pycuda", "ctypes", "triton", "cuda", "pynvml"})
# Of these PyTorch lets the stream wait, where the host waits for them at all.
_COLLECTIVES = re.compile(
    r"torch\.distributed\.(all_reduce|reduce|broadcast|all_gather|all_gather_into_tensor|"
    r"reduce_scatter|reduce_scatter_tensor)"
)
_PLACED = 3  # arguments of a collective before the one that says whether to wait
_SETS_UP = re.compile(r"torch\.distributed\.(init|is_|get_|destroy|new_|ReduceOp|barrier)")


def measures(program: Program, places: list[cst.CSTNode]) -> bool:
    """Whether functions and loops measure time: by their name, the file's, or a clock they read."""
    if is_named_for_it(program, places):
        return True
    return any(reads_clock(program, place) or _names_timer(program, place) for place in places)


def times_rarely(program: Program, places: list[cst.CSTNode]) -> bool:
    """Whether functions and loops read clocks in every step, and the times now and then alone."""
    if is_named_for_it(program, places) or any(_names_timer(program, place) for place in places):
        return False
    clocks = [clock for place in places for clock in clock_reads(program, place)]
    return bool(clocks) and all(_is_read_rarely(program, clock) for clock in clocks)


def _is_read_rarely(program: Program, clock: cst.Call) -> bool:
    """``now = time.time()`` in a step, where ``now`` is only read every n steps."""
    line = program.parent(clock)
    match line:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name) as target)]):
            pass
        case _:
            return False
    owner = program.index.scope(target).owner(name)
    reads = [
        one
        for one in program.index.named.get(name, ())
        if program.index.scope(one).owner(name) is owner
        and not isinstance(program.parent(one), cst.AssignTarget)
    ]
    seldom = bool(reads) and all(program.context(one).guarded for one in reads)
    return seldom and program.context(clock).per_step


def is_named_for_it(program: Program, places: list[cst.CSTNode]) -> bool:
    """Whether a function or the file has a name that says that it measures."""
    names = [place.name.value for place in places if isinstance(place, cst.FunctionDef)]
    stem = program.path.stem if program.path is not None else ""
    return any(_MEASURES.search(name) for name in (*names, stem))


def times_loop(program: Program, place: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether a function reads clocks before a loop and after it, beside what it does.

    One that makes an event of the GPU, or returns the time, is there to measure.
    """
    clocks = list(clock_reads(program, place))
    if any(program.qualified(clock.func).startswith("torch.") for clock in clocks):
        return False
    if isinstance(place, cst.FunctionDef) and _returns_time(program, place):
        return False
    order = program.index.order
    return any(order(one) < order(loop) for one in clocks) and any(
        order(one) >= program.index.end(loop) for one in clocks
    )


def _returns_time(program: Program, function: cst.FunctionDef) -> bool:
    """Whether a function returns what a clock says, be it by a name."""
    values = [one.value for one in program.returns(function) if one.value is not None]
    named = [
        binding.value
        for value in values
        for name in program.index.below(value, cst.Name)
        for binding in program.flow.reaching(name)
        if binding.kind is Bind.ASSIGN and binding.value is not None
    ]
    return any(reads_clock(program, value) for value in (*values, *named))


def _names_timer(program: Program, place: cst.CSTNode) -> bool:
    """Whether a timer is used in a function or loop, by its name."""
    return not isinstance(place, cst.Module) and any(
        _TIMER_WORDS.search(name.value) for name in program.index.below(place, cst.Name)
    )


def profiled(program: Program, node: cst.CSTNode) -> bool:
    """Whether a profiler follows a node: it is used in its function, or around a way to it."""
    if "prof" not in program.text and "nvtx" not in program.text:
        return False
    index = program.index
    for place in ways_to(program, node):
        function = program.function(place)
        around = [one for one in index.ancestors(place) if isinstance(one, cst.With)]
        if any(_profiles(program, item.item) for one in around for item in one.items):
            return True
        if function is not None and _profiles(program, function):
            return True
    return False


def _profiles(program: Program, place: cst.CSTNode) -> bool:
    """Whether a profiler is made, or a range of it marked, at or below a place."""
    index = program.index
    names = (*index.below(place, cst.Attribute), *index.below(place, cst.Name))
    return any(_PROFILES.match(program.qualified(node)) for node in names)


def orders_by_hand(program: Program) -> bool:
    """Whether the file has work on streams of its own, or kernels that PyTorch does not order."""
    for name in program.names.imported():
        if name.partition(".")[0] in _OTHER_KERNELS or _BY_HAND.match(name):
            return True
    return any(
        _BY_HAND.match(program.qualified(node)) and not _is_joined(program, node)
        for node in program.index.of(cst.Attribute)
    )


def _is_joined(program: Program, node: cst.Attribute) -> bool:
    """Whether a stream is for what a function sets up, at whose end the usual one waits for it.

    ``side = torch.cuda.Stream()``, of which nothing is left for the steps to come: only local names
    stand for it.
    """
    function, index = program.function(node), program.index
    if function is None or program.context(node).role not in (Role.OTHER, Role.EPOCH):
        return False
    if not _STREAMS.fullmatch(program.qualified(node)):
        return False
    call = program.parent(node)
    if program.qualified(node).endswith(".Stream"):
        match program.parent(call) if isinstance(call, cst.Call) else None:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                pass
            case _:
                return False
        uses = (one for one in index.below(function, cst.Name) if one.value == name)
        if not all(_only_orders(program, use) for use in uses):
            return False
    return any(
        index.order(one) >= index.order(node) and _is_join(program, one)
        for one in index.below(function, cst.Attribute)
    )


def _is_join(program: Program, node: cst.Attribute) -> bool:
    """``torch.cuda.current_stream().wait_stream(side)``."""
    if not program.qualified(node).endswith(".current_stream"):
        return False
    above = program.parent(program.parent(node) or node)
    return isinstance(above, cst.Attribute) and above.attr.value == "wait_stream"


def _only_orders(program: Program, name: cst.Name) -> bool:
    """``with torch.cuda.stream(side)``, ``side.wait_stream(other)``: a stream is not passed on."""
    match above := program.parent(name):
        case cst.AssignTarget():
            return True
        case cst.Arg():
            call = program.parent(above)
            func = call.func if isinstance(call, cst.Call) else None
            return isinstance(func, cst.Attribute) and func.attr.value in _ORDERS
        case cst.Attribute(attr=attr):
            return attr.value in _ORDERS
        case _:
            return False


def communicates(program: Program, place: cst.CSTNode) -> bool:
    """Whether tensors are sent to other processes, or copied to the host without waiting.

    But for what PyTorch puts in order: collectives that are done when they return, and those whose
    handle is waited for.
    """
    for call in own_calls(program, place):
        name = program.qualified(call.func)
        if name.startswith("torch.distributed.") and not (
            _SETS_UP.match(name) or (_COLLECTIVES.fullmatch(name) and _is_awaited(program, call))
        ):
            return True
        if copies_without_waiting(program, call):
            return True
    return False


def _is_awaited(program: Program, call: cst.Call) -> bool:
    """Whether a collective is told to wait, or ``handle.wait()`` follows in the same function."""
    if len(call.args) > _PLACED or any(arg.star for arg in call.args):
        return False
    given = program.argument(call, "async_op")
    if given.absent or given.literal() == "False":
        return True
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as handle)]):
            made = program.index.bound(handle)
            return any(
                isinstance(func.value, cst.Name) and program.flow.reaching(func.value) == (made,)
                for _, func in program.method_calls("wait")
            )
        case _:
            return False


def copies_without_waiting(program: Program, call: cst.Call) -> bool:
    """``x.to("cpu", non_blocking=True)``: the host has to wait before it reads the copy."""
    if not isinstance(call.func, cst.Attribute):
        return False
    given = [a for a in call.args if a.keyword is not None and a.keyword.value == "non_blocking"]
    if not given or literal(given[0].value) == "False":
        return False
    if call.func.attr.value != "to":
        return call.func.attr.value != "cuda"
    return not program.values.moved_to(call, Device.UNKNOWN).gpu
