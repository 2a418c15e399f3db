"""Anomaly detection, a help for debugging, is on for the whole training.

## Why
With anomaly detection every operation of the forward pass records a whole Python traceback, and the
result of every operation of the backward pass is searched for NaN, for which the host waits. That
finds the operation that makes a NaN, and costs a large part of the time of a step.

## Bad
    import torch

    def train(model, loader):
        for x, y in loader:
            loss = model(x, y)
            with torch.autograd.detect_anomaly():
                loss.backward()

## Good
    import torch

    def train(model, loader):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()

## Leaves alone
- Calls that something asks for: a condition that may be either (`if args.debug:`, every nth step),
  an option that is off by default, an `except` handler.
- Files that switch it off again, unless it is switched on in every training step.
- `set_detect_anomaly` beside Lightning's `Trainer`, whose own argument decides.

It is information, without a fix, where no forward or backward pass is seen to run in it, and for an
option that is on by default.

## Fix safety
Safe: all values are the same, and only the error that a NaN in the backward pass would raise is
lost. Unsafe where a handler around the backward pass would catch it.

## Evidence
`torchlint bench TL901` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64: 873 µs and 226 µs, 3.86 x (3.73 to 3.99): faster; results bitwise equal.
- training step, width 512: 2.90 ms and 1.38 ms, 2.11 x (2.06 to 2.16): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic differentiation package: Anomaly detection"
- Lightning documentation, "Trainer: detect_anomaly"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.bodies import Unwrap
from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import Replace
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


def detect_anomaly_on(script: Script) -> Iterator[Finding]:
    """Find anomaly detection that is always on."""
    connected, module = script.connected, script.module
    switches = list(script.calls_of(SWITCH))
    stays = all(is_on(argument(script, call)) for call, _ in switches)
    for call, name in [*switches, *script.calls_of(BLOCK)]:
        given = argument(script, call)
        is_asked = connected.frequencies.on_request(call, script.file)
        if is_asked or (name != BLOCK and not is_on(given)):
            continue
        item, frequency = module.parent(call), script.frequency(call)
        literal = given.node if given and isinstance(given.node, cst.Name) else None
        literal = literal if literal and literal.value == "True" else None
        if isinstance(item, cst.WithItem):
            is_sure = trains(script, call, module.parent(item)) and not connected.evaluation.calls(
                TRAINER
            )
            off = fix(script, "Take the block out of it", Unwrap(item)) if is_sure else None
            what = f"`{module.brief(call)}` {COSTS}{'' if is_sure else ', if the block runs one'}"
            yield finding(call, what, off, is_sure=is_sure)
        elif (stays or frequency.rate is Rate.STEP) and not connected.evaluation.calls(TRAINER):
            is_sure = literal is not None and (frequency.known or trains(script, call))
            off = fix(script, "Pass False", Replace(literal, "False")) if literal else None
            what = f"`{module.brief(call)}` {COSTS}"
            yield finding(call, what, off if is_sure else None, is_sure=is_sure)


def argument(script: Script, call: cst.Call) -> Argument | None:
    """Return the argument that says whether it is on."""
    return given_to(script.connected.evaluation, call, ("mode", "check_nan"))[0].get("mode")


def is_on(given: Argument | None) -> bool:
    """Whether the argument certainly switches it on."""
    return given is not None and all(
        isinstance(one, Truth) and one.value is True for one in given.value or (None,)
    )


def trains(script: Script, call: cst.Call, block: cst.CSTNode | None = None) -> bool:
    """Whether a block, or the function around a call, is seen to run a model or to go back."""
    effects, inside = script.connected.frequencies.effects, script.module.index.inside
    unit = unit_around(script.connected.evaluation, call, script.file)
    return any(
        PASSES & part
        for site in effects.sites[unit.at]
        if block is None or inside(site.node, block)
        for part in effects.of_site(site)
    )


def finding(node: cst.CSTNode, what: str, off: Fix | None, *, is_sure: bool) -> Finding:
    """Return a finding, information where it is not sure."""
    advice = "Switch it on to look for a NaN, by an option of the script, and off again."
    return Finding(node, what, off, None if is_sure else Severity.INFO, help=advice)


def fix(script: Script, title: str, rewrite: Rewrite) -> Fix:
    """Return the fix, which is safe where nobody catches the error of a NaN."""
    is_caught = catches(script.connected.frequencies.effects, Effect.BACKWARD)
    changes = "the handler around the backward pass no longer meets the error of a NaN"
    return Fix(title, safety(not is_caught), (rewrite,), changes=changes if is_caught else "")
