"""A profiler, or a check of gradients, runs along with the whole training.

## Why
A profiler notes every operation with its times, and on request its shapes, its memory and the
Python stack.  It slows each step down and keeps what it noted until it ends, which is a lot after a
whole training.  A few steps say the same: `schedule` makes the profiler record some steps and
stop, and `prof.step()` tells it where one ends.

Memory history (`torch.cuda.memory._record_memory_history`) notes the stack of every allocation in
the same way.  TL902b: `gradcheck` compares gradients with finite differences, which takes two
forward passes for each element of its inputs.

## Bad
    import torch

    def train(model, loader, optimizer):
        with torch.profiler.profile(with_stack=True) as prof:
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        prof.export_chrome_trace("trace.json")

## Good
    import torch

    def train(model, loader, optimizer):
        steps = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
        with torch.profiler.profile(with_stack=True, schedule=steps) as prof:
            for x, y in loader:
                loss = model(x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                prof.step()
        prof.export_chrome_trace("trace.json")

## Leaves alone
- A profiler with a `schedule`, whatever it is; one with `enabled=` anything but `True`; one under
  a condition that asks for it.
- Functions, classes and files that are named after profiling, benchmarks or debugging, and tests.
- Loops of a few steps: `range(20)`, `islice`, one that is left by `break` or `return`, and calls
  that say how many steps they want (`train(model, steps=20)`).
- Blocks and calls in which no training is seen, and memory history that the file ends.
- `record_function` and NVTX ranges, which cost next to nothing; `cudaProfilerStart`, which does
  nothing unless a tool is attached.
- `gradcheck` in a file that does not train.  Where it runs once before the training it is reported
  as information.

## Fix safety
There is no fix: taking the profiler away takes away its report, which the code around it uses.

## Evidence
`torchlint bench TL902` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, width 64, batches 50: 35.2 ms and 16.3 ms, 2.16 x (1.94 to 2.41): faster; results bitwise
  equal.
- epoch, width 256, batches 20: 21.7 ms and 15.2 ms, 1.43 x (1.30 to 1.56): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.profiler: schedule"
- PyTorch tutorial, "PyTorch Profiler"
- PyTorch Performance Tuning Guide, "Disable debugging APIs"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.debugging import on_request
from torchlint.analysis.loops import Role
from torchlint.analysis.profiling import is_bounded, loops_after, loops_inside
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Loop
    from torchlint.analysis.program import Program

PROFILERS = (
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
    "torch.autograd.profiler.emit_nvtx",
    "torch.autograd.profiler.emit_itt",
)
HISTORY = "torch.cuda.memory._record_memory_history"
CHECKS = ("torch.autograd.gradcheck", "torch.autograd.gradgradcheck")
PURPOSE = re.compile(
    r"profil|bench|perf(_|$)|trace|measur|latenc|throughput|snapshot|memory", re.IGNORECASE
)
FEW = (
    "Profile a few steps: pass schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, "
    "repeat=1) and call `step()` of the profiler after each step."
)


def profiler_left_on(program: Program) -> Iterator[Finding]:
    """Find profilers around whole trainings, and checks of gradients in them."""
    for call in program.calls_of(*PROFILERS):
        if is_on(program, call) and not is_meant(program, call):
            yield from profiler(program, call)
    histories = list(program.calls_of(HISTORY))
    if histories and all(records(program, call) for call in histories):
        yield from (found for call in histories for found in history(program, call))
    for call in program.calls_of(*CHECKS):
        yield from gradient_check(program, call)


def is_on(program: Program, call: cst.Call) -> bool:
    """Whether a profiler records everything, from its start to its end."""
    schedule, enabled = (program.argument(call, name) for name in ("schedule", "enabled"))
    if not schedule.absent and schedule.literal() != "None":
        return False
    return enabled.absent or enabled.literal() == "True"


def is_meant(program: Program, call: cst.Call) -> bool:
    """Whether profiling is what the code is for, or somebody asked for it."""
    names = [
        above.name.value
        for above in program.index.ancestors(call)
        if isinstance(above, cst.FunctionDef | cst.ClassDef)
    ]
    stem = "" if program.path is None else program.path.stem
    return any(PURPOSE.search(name) for name in (stem, *names)) or on_request(program, call)


def profiler(program: Program, call: cst.Call) -> Iterator[Finding]:
    """Report a profiler that is on in all steps of a training."""
    loops = profiled(program, call)
    if loops and not all(is_bounded(home, loop) for home, loop in loops):
        what = f"`{program.brief(call)}` records every step of the training"
        yield Finding(call, what, None, severity(program), help=FEW)


def profiled(program: Program, call: cst.Call) -> list[tuple[Program, Loop]]:
    """Return the training loops that run while a profiler is on, each with its file."""
    found: list[tuple[Program, Loop]] = []
    starts: list[cst.Call] = []
    stops: list[cst.Call] = []
    for use in uses(program, call):
        above = program.parent(use)
        if isinstance(above, cst.WithItem):
            found += entered(program, above)
        elif isinstance(above, cst.Attribute) and isinstance(
            made := program.parent(above), cst.Call
        ):
            match above.attr.value:
                case "start" | "__enter__" if not on_request(program, made):
                    starts.append(made)
                case "stop" | "__exit__":
                    stops.append(made)
                case _:
                    pass
    for start in starts:
        found += [(program, loop) for loop in loops_after(program, start, stops)]
    return found


def uses(program: Program, call: cst.Call) -> Iterator[cst.CSTNode]:
    """Yield the call itself and the names that stand for what it made."""
    yield call
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            for use in program.index.named[name]:
                if any(binding.value is call for binding in program.flow.reaching(use)):
                    yield use
        case _:
            pass


def entered(program: Program, item: cst.WithItem) -> list[tuple[Program, Loop]]:
    """Return the training loops inside a block; around it, where it stands in each step."""
    statement = program.parent(item)
    assert isinstance(statement, cst.With)
    context = program.context(statement)
    if context.per_step and isinstance(context.loop, cst.For | cst.While):
        return [(program, context.loop)]
    return loops_inside(program, statement)


def records(program: Program, call: cst.Call) -> bool:
    """Whether a call switches the history of memory on."""
    enabled = program.argument(call, "enabled")
    return enabled.absent or enabled.literal() in ("all", "True")


def history(program: Program, call: cst.Call) -> Iterator[Finding]:
    """Report memory history that no call of the file ends."""
    if is_meant(program, call):
        return
    if any(not is_bounded(program, loop) for loop in loops_after(program, call)):
        message = f"`{program.brief(call)}` notes the stack of every allocation of the training"
        help_ = "Record a few steps, save the snapshot, and switch it off with enabled=None."
        yield Finding(call, message, None, severity(program), help=help_)


def gradient_check(program: Program, call: cst.Call) -> Iterator[Finding]:
    """TL902b: gradients compared with finite differences in a script that trains."""
    context = program.context(call)
    repeated = context.role in (Role.TRAIN, Role.EPOCH, Role.FORWARD)
    once = program.function(call) is None and bool(program.loops.training)
    if on_request(program, call) or not (repeated or once):
        return
    when = "in the training" if repeated else "before each training"
    message = f"`{program.brief(call)}` compares gradients with finite differences, {when}"
    level = severity(program) if repeated else Severity.INFO
    yield Finding(call, message, None, level, case="b", help="Check gradients in a test.")


def severity(program: Program) -> Severity | None:
    """Information where a framework runs the training."""
    return Severity.INFO if program.frameworks else None
