"""The host waits for the whole GPU in every training step.

## Why
Python queues work for the GPU and runs ahead of it. `torch.cuda.synchronize()` stops Python until
the GPU has nothing left to do, which then idles until Python has caught up. PyTorch orders the work
of a stream by itself, and reading a value waits for that value: a step needs no other wait.

## Bad
    import torch

    def train(model, loader, device):
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()
            torch.cuda.synchronize()

## Good
    import torch

    def train(model, loader, device):
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()

## Leaves alone
- A wait once an epoch, every n steps, under an option that is off, or in `except`.
- A wait in `try` with a handler: an asynchronous error is to appear there.
- Files that order work by hand: streams, graphs, events, kernels of other libraries (CuPy, Numba,
  Triton), collectives that return at once; and functions with `non_blocking` copies to the host.

It is information, without a fix, beside what measures time or memory, in a step that does not
train, under a condition of which nothing is known, and beside a framework.

## Fix safety
Unsafe: the statement is deleted, with an `if` that only asked for the device. The values are the
same, but an error in a kernel is raised by a later call, and the time of a step that is measured
elsewhere no longer includes all of the GPU's work.

## Evidence
A CPU has nothing to show: a CPU has nothing to wait for.

On a GPU: not measured yet.

## References
- PyTorch documentation, "CUDA semantics: Asynchronous execution"
- PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement
from torchlint.rule import Finding
from torchlint.training.conditions import whole_statement
from torchlint.training.frequency import Rate
from torchlint.training.waits import WAITS, Reason, synchronizations
from torchlint_rules.judging import every, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.training.script import Script

STEPS = {Rate.STEP: "training step", Rate.EVAL_STEP: "step that does not train"}
PLAIN = "PyTorch orders the work of a step by itself; wait only around what is timed"
MANY = "time many steps at once: wait before the first and after the last, and take the mean"


def synchronize_in_loop(script: Script) -> Iterator[Finding]:
    """Find waits for the whole GPU in every step."""
    for call, reason in synchronizations(script):
        frequency = script.frequency(call)
        if frequency.rate not in STEPS or frequency.guard or reason is Reason.ORDER:
            continue
        is_needless = reason is None and not script.frameworks
        may_go = is_needless and frequency.decided and script.is_statement(call)
        yield Finding(
            call,
            f"`{script.module.brief(call)}` stops the host until the GPU is idle, in "
            f"{every(frequency, STEPS)}{', for what is measured there' if reason else ''}",
            fix(script, call) if may_go else None,
            severity(frequency, is_needless),
            help=MANY if reason else PLAIN,
        )


def fix(script: Script, call: cst.Call) -> Fix:
    """Return the deletion of the statement, with the condition that holds nothing else."""
    calls = [one for one, _ in script.calls_of(*WAITS)]
    return Fix(
        "Delete the wait",
        Safety.UNSAFE,
        (DeleteStatement(whole_statement(script, calls, call)),),
        changes="errors of the GPU are raised later, and time measured elsewhere changes",
    )
