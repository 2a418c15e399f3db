"""Anomaly detection, a help for debugging, is on for the whole training.

## Why
With anomaly detection every operation of the forward pass records where it was called from (a
whole Python traceback), and every operation of the backward pass is followed by a search of its
result for NaN, for which the host waits.  That finds the operation that makes a NaN, and costs
a large part of the time of a step.  It changes no value.

## Bad
    import torch

    torch.autograd.set_detect_anomaly(True)

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = model(x, y)
            optimizer.zero_grad()
            with torch.autograd.detect_anomaly():
                loss.backward()
            optimizer.step()

## Good
    import torch

    torch.autograd.set_detect_anomaly(False)

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Anything but a literal `True`: an option, a variable, `False`.
- Calls under a condition that asks for it (`if args.debug:`, an environment variable, every nth
  step), after a return on such a condition, in an `except` handler, in a test, and in functions,
  classes and files that are named after debugging, checks or anomalies.
- A block inside of `try` with a handler of its own, which is there to catch the error.
- Files that switch it off again, unless it is switched on in every training step.
- Files that import Lightning, whose `Trainer` sets it for `fit` by its own `detect_anomaly`
  argument: that one is reported.

A block that is not seen to train in this file is reported as information, without a fix.

## Fix safety
Safe: all values are the same, and only the error that a NaN in the backward pass would raise is
lost.  Unsafe where the backward pass runs inside of `try` with a handler that would catch it.

## Evidence
`torchlint bench TL901` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64: 873 µs and 226 µs, 3.86 x (3.73 to 3.99): faster; results bitwise equal.
- training step, width 512: 2.90 ms and 1.38 ms, 2.11 x (2.06 to 2.16): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic differentiation package: Anomaly detection"
- PyTorch Performance Tuning Guide, "Disable debugging APIs"
- Lightning documentation, "Trainer: detect_anomaly"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.debugging import catches_backward, is_caught, on_request, runs_backward
from torchlint.analysis.loops import Role
from torchlint.edits.bodies import Unwrap
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import RemoveArgument, Replace
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

SWITCH, BLOCK = "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"
LIGHTNING = ("lightning", "pytorch_lightning")
TRAINERS = ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer")
COSTS = "searches every gradient for NaN and records a traceback of every operation"
HELP = "Switch it on to look for a NaN, by an option of the script, and off again."


def detect_anomaly_on(program: Program) -> Iterator[Finding]:
    """Find anomaly detection that is always on."""
    switches = list(program.calls_of(SWITCH))
    kept = not overridden(program) and all(is_on(program, call) for call in switches)
    for call in [*switches, *program.calls_of(BLOCK)]:
        if not is_on(program, call) or on_request(program, call):
            continue
        above = program.parent(call)
        if isinstance(above, cst.WithItem):
            yield from block(program, call, above)
        elif call in switches and (kept or program.context(call).per_step):
            yield switch(program, call)
    for call in program.calls_of(*TRAINERS):
        yield from trainer(program, call)


def is_on(program: Program, call: cst.Call) -> bool:
    """Whether a call certainly switches anomaly detection on."""
    if program.qualified(call.func) == BLOCK:
        return True
    return program.argument(call, "mode").literal() == "True"


def overridden(program: Program) -> bool:
    """Whether Lightning sets anomaly detection itself, whatever the file did before."""
    return not program.frameworks.isdisjoint(LIGHTNING) and "Fabric" not in program.text


def switch(program: Program, call: cst.Call) -> Finding:
    """``set_detect_anomaly(True)``: for the whole process."""
    arg = program.argument(call, "mode").arg
    message = f"`{program.brief(call)}` {COSTS}"
    off = None if arg is None else fix(program, "Pass False", Replace(arg.value, "False"))
    return Finding(call, message, off, help=HELP)


def block(program: Program, call: cst.Call, item: cst.WithItem) -> Iterator[Finding]:
    """``with detect_anomaly():``, for what runs inside."""
    statement = program.parent(item)
    assert isinstance(statement, cst.With)
    if is_caught(program, statement):
        return
    role = program.context(statement).role
    trains = role in (Role.TRAIN, Role.FORWARD, Role.EPOCH) or runs_backward(program, statement)
    if not trains and (overridden(program) or refuses_nan(program, call)):
        return
    message = f"`{program.brief(call)}` {COSTS}"
    rewrite = Unwrap(item)
    yield Finding(
        call,
        message if trains else f"{message}, if the block runs one",
        fix(program, "Take the block out of it", rewrite) if trains else None,
        None if trains else Severity.INFO,
        help=HELP,
    )


def trainer(program: Program, call: cst.Call) -> Iterator[Finding]:
    """``Trainer(detect_anomaly=True)``: Lightning's own switch."""
    given = program.argument(call, "detect_anomaly")
    if given.literal() != "True" or on_request(program, call):
        return
    message = f"`{program.brief(call.func)}` is told to detect anomalies, which {COSTS}"
    arg = given.arg
    off = None if arg is None else fix(program, "Leave it out", RemoveArgument(call, arg))
    yield Finding(call if arg is None else arg, message, off, help=HELP)


def refuses_nan(program: Program, call: cst.Call) -> bool:
    """Whether only tracebacks are wanted, as tracing tools do."""
    return program.argument(call, "check_nan").literal() == "False"


def fix(program: Program, title: str, rewrite: Rewrite) -> Fix:
    """Return the fix, which is safe where nobody catches the error of a NaN."""
    if catches_backward(program):
        changes = "the handler around the backward pass no longer meets the error of a NaN"
        return Fix(title, Safety.UNSAFE, (rewrite,), changes=changes)
    return Fix(title, Safety.SAFE, (rewrite,))
