"""The host waits for the whole GPU in every training step.

## Why
Python queues work for the GPU and runs ahead of it: while one kernel runs, the next ones are being
prepared.  `torch.cuda.synchronize()` stops Python until the GPU has nothing left to do, so that the
GPU then idles until Python has caught up.  PyTorch orders the work of a stream by itself, and
reading a value (`.item()`, `.cpu()`) waits for that value: a training step needs no other wait.

## Bad
    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()

## Good
    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Code that measures: a clock, a timer or a CUDA event is read in the same function or loop, or the
  function or file is named after a benchmark, a profile or a timing.  There the wait is the point.
- Code that orders work by hand: CUDA streams, graphs and events, `non_blocking` copies to the host,
  `torch.distributed` communication, kernels of other libraries (CuPy, Numba, Triton, ctypes).
- A wait inside of `try` with a handler: it makes an asynchronous error appear there.
- A wait now and then (`if step % 100 == 0:`), outside of training steps, or in an evaluation.

## Fix safety
Unsafe: the statement is deleted, with an `if` that only asked for the device.  The values computed
are the same, but an error in a kernel is then raised by a later call, memory may be freed later,
and the time of a step that is measured elsewhere no longer includes all of the GPU's work.

## Evidence
Not measured yet.

## References
- PyTorch documentation, "CUDA semantics: Asynchronous execution"
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.index import dotted
from torchlint.analysis.loops import Context, Role
from torchlint.analysis.rewrites import DeleteStatement
from torchlint.analysis.values import Device
from torchlint.edits import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

WAITS = tuple(f"torch.{device}.synchronize" for device in ("cuda", "mps", "xpu", "accelerator"))
CLOCKS = re.compile(
    r"time\.(time|perf_counter|monotonic|process_time|thread_time)(_ns)?|timeit\.default_timer|"
    r"datetime\.(datetime\.)?(now|utcnow)|torch\.(cuda|mps|xpu)\.(event\.)?Event|torch\.Event"
)
TIMER_WORDS = re.compile(
    r"timer|stopwatch|elapsed|profil|benchmark|throughput|latency", re.IGNORECASE
)
MEASURES = re.compile(
    r"bench|profil|measur|latenc|throughput|speed|warm_?up|(^|_)(time|timed|timing|timeit)(_|$)",
    re.IGNORECASE,
)
BY_HAND = re.compile(
    r"torch\.(cuda|xpu|mps)\.(Stream|stream|Event|ExternalStream|CUDAGraph|graph|set_stream|"
    r"current_stream|default_stream|make_graphed_callables|nvtx\.|profiler\.|cudart)|"
    r"torch\.(Stream|Event)$|torch\.utils\.(cpp_extension|dlpack)|torch\.profiler|torch\.autograd\.profiler"
)
OTHER_KERNELS = frozenset({"cupy", "numba", "pycuda", "ctypes", "triton", "cuda", "pynvml", "nvtx"})
SETS_UP = re.compile(r"torch\.distributed\.(init|is_|get_|destroy|new_|ReduceOp|barrier)")
DEVICE_WORDS = re.compile(r"cuda|gpu|mps|xpu|device|accelerator", re.IGNORECASE)


def synchronize_in_loop(program: Program) -> Iterator[Finding]:
    """Find waits for the whole GPU in training steps."""
    calls = [call for call in program.calls_of(*WAITS) if is_statement(program, call)]
    if not calls or orders_by_hand(program):
        return
    for call in calls:
        context = how_often(program, call)
        if context.guarded or context.role not in (Role.TRAIN, Role.FORWARD):
            continue
        if measures(program, call, context) or catches_errors(program, call):
            continue
        where = "forward pass" if context.role is Role.FORWARD else "training step"
        framework = bool(program.frameworks)
        yield Finding(
            call,
            f"`{program.code(call)}` stops the host until the GPU is idle, in every {where}",
            None if framework else fix(program, call, calls),
            Severity.INFO if framework else None,
            help="PyTorch orders the work of a step by itself; wait only around what is timed.",
        )


def is_statement(program: Program, call: cst.Call) -> bool:
    """Whether the call is a statement of its own."""
    return isinstance(program.parent(call), cst.Expr)


def orders_by_hand(program: Program) -> bool:
    """Whether the file has work on streams of its own, or kernels that PyTorch does not order."""
    for bindings in program.index.root.bindings.values():
        for binding in bindings:
            name = program.names.root(binding.name, program.index.root)
            if name.partition(".")[0] in OTHER_KERNELS or BY_HAND.match(name):
                return True
    return any(BY_HAND.match(program.qualified(node)) for node in program.index.of(cst.Attribute))


def how_often(program: Program, call: cst.Call) -> Context:
    """Return the context of the call; a test for the device there is guards nothing."""
    node: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If):
            if not asks_for_device(program, above.test):
                break
            node = above
        elif not isinstance(above, cst.Expr | cst.SimpleStatementLine | cst.BaseSuite | cst.Else):
            break
    return program.context(node)


def asks_for_device(program: Program, test: cst.BaseExpression) -> bool:
    """Whether a condition only asks which device there is, the same one in every step."""
    if any(
        isinstance(n.operator, cst.Modulo) for n in program.index.below(test, cst.BinaryOperation)
    ):
        return False
    match test:
        case cst.Name() | cst.Attribute():
            return bool(DEVICE_WORDS.search(dotted(test)))
        case cst.UnaryOperation(operator=cst.Not()):
            return asks_for_device(program, test.expression)
        case cst.BooleanOperation():
            return asks_for_device(program, test.left) and asks_for_device(program, test.right)
        case cst.Call():
            return bool(DEVICE_WORDS.search(dotted(test.func)))
        case cst.Comparison(comparisons=[only]):
            sides = (test.left, only.comparator)
            return any(DEVICE_WORDS.search(literal(side) or dotted(side)) for side in sides)
        case _:
            return False


def measures(program: Program, call: cst.Call, context: Context) -> bool:
    """Whether the wait is there so that something can be timed."""
    function = program.function(call)
    places: list[cst.CSTNode] = [function or program.module]
    if context.loop is not None:
        places.append(context.loop)
        places.append(program.function(context.loop) or program.module)
    names = [place.name.value for place in places if isinstance(place, cst.FunctionDef)]
    stem = program.path.stem if program.path is not None else ""
    if any(MEASURES.search(name) for name in (*names, stem)):
        return True
    return any(reads_clock(program, place) or communicates(program, place) for place in places)


def reads_clock(program: Program, place: cst.CSTNode) -> bool:
    """Whether a clock, a timer or an event is used in a function or loop."""
    index = program.index
    if any(CLOCKS.fullmatch(program.qualified(call.func)) for call in own(program, place)):
        return True
    if isinstance(place, cst.Module):
        return False
    return any(TIMER_WORDS.search(name.value) for name in index.below(place, cst.Name))


def communicates(program: Program, place: cst.CSTNode) -> bool:
    """Whether tensors are sent to other processes, or copied to the host without waiting."""
    for call in own(program, place):
        name = program.qualified(call.func)
        if name.startswith("torch.distributed.") and not SETS_UP.match(name):
            return True
        if copies_without_waiting(program, call):
            return True
    return False


def own(program: Program, place: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield calls at or below a place; in a module, those outside of functions."""
    for call in program.index.below(place, cst.Call):
        if not isinstance(place, cst.Module) or program.function(call) is None:
            yield call


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


def catches_errors(program: Program, call: cst.Call) -> bool:
    """Whether the wait stands in ``try`` so that errors of the GPU appear there."""
    child: cst.CSTNode = call
    for above in program.index.ancestors(call):
        if isinstance(above, cst.Try) and child is above.body and above.handlers:
            return True
        if isinstance(above, cst.For | cst.While | cst.FunctionDef):
            return False
        child = above
    return False


def fix(program: Program, call: cst.Call, calls: list[cst.Call]) -> Fix:
    """Return the deletion of the statement, with the condition that holds nothing else."""
    statement: cst.CSTNode | None = program.parent(call)
    while (above := holder(program, statement)) is not None and all(
        branch_waits(program, branch, calls) for branch in branches(above)
    ):
        statement = above
    assert isinstance(statement, cst.BaseStatement | cst.BaseSmallStatement)
    return Fix(
        "Delete the wait",
        Safety.UNSAFE,
        (DeleteStatement(statement),),
        changes="errors of the GPU are raised later, and time measured elsewhere changes",
    )


def holder(program: Program, statement: cst.CSTNode | None) -> cst.If | None:
    """Return the ``if`` ... ``else`` that a statement is directly in."""
    child = statement
    assert child is not None
    for above in program.index.ancestors(child):
        if isinstance(above, cst.If) and not isinstance(program.parent(above), cst.If):
            return above if all(asks_for_device(program, test) for test in tests(above)) else None
        if not isinstance(above, cst.If | cst.Else | cst.BaseSuite | cst.SimpleStatementLine):
            return None
    return None


def tests(statement: cst.If) -> Iterator[cst.BaseExpression]:
    """Yield the conditions of an ``if`` statement and its ``elif``s."""
    part: cst.If | cst.Else | None = statement
    while isinstance(part, cst.If):
        yield part.test
        part = part.orelse


def branches(statement: cst.If) -> Iterator[cst.BaseSuite]:
    """Yield the blocks of an ``if`` statement with its ``elif`` and ``else``."""
    part: cst.If | cst.Else | None = statement
    while part is not None:
        yield part.body
        part = part.orelse if isinstance(part, cst.If) else None


def branch_waits(program: Program, branch: cst.BaseSuite, calls: list[cst.Call]) -> bool:
    """Whether a block does nothing but wait."""
    inside = [call for call in calls if program.index.inside(call, branch)]
    lines = [
        line.body if isinstance(line, cst.SimpleStatementLine) else [line] for line in branch.body
    ]
    statements = [small for line in lines for small in line]
    return bool(inside) and all(
        isinstance(small, cst.Expr) and any(small.value is call for call in inside)
        for small in statements
    )
