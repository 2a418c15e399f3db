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
- Code that measures: a CUDA event or a profiler is used there or around a call of it, a clock is
  read before the loop and not seen to be read after it, the function returns the time, or it or
  its file is named after a benchmark, a profile or a timing.  There the wait is the point.
- Code that orders work by hand: CUDA streams (but not one on which something is set up, and joined
  in the same function), graphs and events, `non_blocking` copies to the host, kernels of other
  libraries (CuPy, Numba, Triton, ctypes), `torch.distributed` communication (but not collectives
  such as `all_reduce` that wait themselves, or whose handle is waited for: PyTorch orders those).
- A wait inside of `try` with a handler: it makes an asynchronous error appear there.
- A wait now and then (`if step % 100 == 0:`), outside of training steps, or in an evaluation.

A wait of every training step is information, without a fix, where a clock or a timer is read in
the step: training is slowed down to say how long a step takes, which the mean of many steps says as
well; all the more where the time is only read now and then.  So is one where clocks are read before
and after the loop, and none in it: a single wait before the last makes that time right.

## Fix safety
Unsafe: the statement is deleted, with an `if` that only asked for the device.  The values computed
are the same, but an error in a kernel is then raised by a later call, memory may be freed later,
and the time of a step that is measured elsewhere no longer includes all of the GPU's work.

## Evidence
A CPU has nothing to show: a CPU has nothing to wait for.

On a GPU: not measured yet.

## References
- PyTorch documentation, "CUDA semantics: Asynchronous execution"
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.analysis.conditions import past_device_checks, whole_statement
from torchlint.analysis.loops import Role
from torchlint.analysis.needless_waits import Clock
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.program import Program

# When the time is read: what it is called, and what to do instead.
TIMES = {
    Clock.STEP: (
        "the time that is taken there",
        "Time many steps at once: wait before the first and after the last, and take the mean.",
    ),
    Clock.SELDOM: (
        "a time that is only read now and then",
        "Wait only in the steps whose time is read.",
    ),
    Clock.LOOP: (
        "a time that is taken around the loop",
        "Wait once, after the loop, before the clock is read.",
    ),
}


def synchronize_in_loop(program: Program) -> Iterator[Finding]:
    """Find waits for the whole GPU in training steps."""
    for call in program.needless_waits:
        forward = program.context(past_device_checks(program, call)).role is Role.FORWARD
        where = "forward pass" if forward else "training step"
        framework = bool(program.frameworks)
        yield Finding(
            call,
            f"`{program.brief(call)}` stops the host until the GPU is idle, in every {where}",
            None if framework else fix(program, call),
            Severity.INFO if framework else None,
            help="PyTorch orders the work of a step by itself; wait only around what is timed.",
        )
    for call, clock in program.timed_waits.items():
        what, advice = TIMES[clock]
        yield Finding(
            call,
            f"`{program.brief(call)}` stops the host until the GPU is idle, in every training "
            f"step, for {what}",
            severity=Severity.INFO,
            help=advice,
        )


def fix(program: Program, call: cst.Call) -> Fix:
    """Return the deletion of the statement, with the condition that holds nothing else."""
    return Fix(
        "Delete the wait",
        Safety.UNSAFE,
        (DeleteStatement(whole_statement(program, program.needless_waits, call)),),
        changes="errors of the GPU are raised later, and time measured elsewhere changes",
    )
