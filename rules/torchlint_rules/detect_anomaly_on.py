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
- `False`, and options that are off by default.
- Calls under a condition that may be either (`if args.debug:`, every nth step), after a return on
  such a condition, and in an `except` handler.
- Files that switch it off again, unless it is switched on in every training step.
- Scripts that train with Lightning's `Trainer`, which sets it for `fit` by its own argument
  `detect_anomaly`: that one is reported.

A block that is not seen to run a forward or backward pass, an option that is on by default and a
function that nobody is seen to call are reported as information, without a fix.

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

from torchlint.edits.bodies import Unwrap
from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import RemoveArgument, Replace
from torchlint.rule import Finding, Severity
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Truth
from torchlint.training.effects import Effect, unit_around
from torchlint.training.errors import catches
from torchlint.training.frequency import Rate
from torchlint_rules.judging import safety

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.semantics.arguments import Argument
    from torchlint.training.script import Script

SWITCH, BLOCK = "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"
TRAINER = "lightning.Trainer"
PASSES = {Effect.BACKWARD, Effect.GRAD, Effect.FORWARD}
COSTS = "searches every gradient for NaN and records a traceback of every operation"
HELP = "Switch it on to look for a NaN, by an option of the script, and off again."


def detect_anomaly_on(script: Script) -> Iterator[Finding]:
    """Find anomaly detection that is always on."""
    switches = list(script.calls_of(SWITCH))
    is_kept = all(is_on(argument(script, call, "mode")) for call, _ in switches)
    for call, name in [*switches, *script.calls_of(BLOCK), *script.calls_of(TRAINER)]:
        given = argument(script, call, "detect_anomaly" if name == TRAINER else "mode")
        if (name != BLOCK and not is_on(given)) or script.connected.frequencies.on_request(
            call, script.file
        ):
            continue
        above = script.module.parent(call)
        if name == TRAINER:
            yield trainer(script, call, given)
        elif isinstance(above, cst.WithItem):
            yield block(script, call, above)
        elif name == SWITCH and stays_on(script, call, kept=is_kept):
            yield switch(script, call, given)


def stays_on(script: Script, call: cst.Call, *, kept: bool) -> bool:
    """Whether nothing switches it off before a step of the training."""
    is_kept = kept or script.frequency(call).rate is Rate.STEP
    return is_kept and not script.connected.calls(TRAINER)


def argument(script: Script, call: cst.Call, name: str) -> Argument | None:
    """Return the argument that says whether it is on."""
    names = ("mode", "check_nan") if name == "mode" else ("*",)
    return given_to(script.connected.evaluation, call, names)[0].get(name)


def is_on(given: Argument | None) -> bool:
    """Whether the argument certainly switches it on."""
    return given is not None and all(
        isinstance(one, Truth) and one.value is True for one in given.value or (None,)
    )


def switch(script: Script, call: cst.Call, given: Argument | None) -> Finding:
    """``set_detect_anomaly(True)``: for the whole process."""
    effects = script.connected.frequencies.effects
    unit = unit_around(script.connected.evaluation, call, script.file)
    trains = PASSES & (effects.direct[unit.at] | effects.inner[unit.at])
    is_sure = bool(trains) or script.frequency(call).known
    node = is_sure and literal(given)
    off = fix(script, "Pass False", Replace(node, "False")) if node else None
    severity = None if off else Severity.INFO
    return Finding(call, f"`{script.module.brief(call)}` {COSTS}", off, severity, help=HELP)


def block(script: Script, call: cst.Call, item: cst.WithItem) -> Finding:
    """``with detect_anomaly():``, for what runs inside."""
    evaluation, effects = script.connected.evaluation, script.connected.frequencies.effects
    statement = script.module.parent(item)
    assert statement is not None
    unit = unit_around(evaluation, call, script.file)
    runs = {
        effect
        for site in effects.sites[unit.at]
        if script.module.index.inside(site.node, statement)
        for part in effects.of_site(site)
        for effect in part
    }
    is_sure = bool(PASSES & runs) and not script.connected.calls(TRAINER)
    message = f"`{script.module.brief(call)}` {COSTS}"
    return Finding(
        call,
        message if is_sure else f"{message}, if the block runs one",
        fix(script, "Take the block out of it", Unwrap(item)) if is_sure else None,
        None if is_sure else Severity.INFO,
        help=HELP,
    )


def trainer(script: Script, call: cst.Call, given: Argument | None) -> Finding:
    """``Trainer(detect_anomaly=True)``: Lightning's own switch."""
    message = f"`{script.module.brief(call.func)}` is told to detect anomalies, which {COSTS}"
    node = literal(given)
    arg = next((arg for arg in call.args if arg.value is node), None)
    off = fix(script, "Leave it out", RemoveArgument(call, arg)) if arg else None
    is_option = any(getattr(one, "option", None) for one in given.value) if given else False
    severity = Severity.INFO if is_option else None
    return Finding(arg or call, message, off, severity, help=HELP)


def literal(given: Argument | None) -> cst.BaseExpression | None:
    """Return the argument where it is written as a literal in the call."""
    node = given.node if given is not None else None
    return node if isinstance(node, cst.Name) and node.value == "True" else None


def fix(script: Script, title: str, rewrite: Rewrite) -> Fix:
    """Return the fix, which is safe where nobody catches the error of a NaN."""
    is_caught = catches(script.connected.frequencies.effects, Effect.BACKWARD)
    changes = "the handler around the backward pass no longer meets the error of a NaN"
    return Fix(title, safety(not is_caught), (rewrite,), changes=changes if is_caught else "")
