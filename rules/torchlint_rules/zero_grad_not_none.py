"""Gradients are filled with zeros where they could be dropped.

## Why
`zero_grad(set_to_none=False)` writes zeros into every gradient, and the next backward pass reads
them again to add to them. With `set_to_none=True` the gradients are dropped, and the backward pass
writes new ones: less memory traffic, fewer kernels, and a lower peak between the two.

Since torch 2.0 that is what a plain `zero_grad()` does. It is therefore only reported for an older
torch, and as information where the version is not known: declare it with `torch-version` in the
configuration, or `--torch-version` on the command line.

## Bad
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

## Good
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

## Leaves alone
- A plain `zero_grad()` where torch is 2.0 or newer, or older than 1.7, which has no such argument.
- Calls that run once: there is hardly a gradient to fill.
- Classes with a `zero_grad` of their own, and optimizers of apex.
- Files that capture CUDA graphs, and `set_to_none=False` where code writes into gradients.
- An argument that nothing decides (`set_to_none=args.none`).

Loops that zero gradients one by one are reported as well. It is information where a call is not
seen to run in every training step, under a framework, or where the object is not known.

## Fix safety
Unsafe: an optimizer leaves a parameter alone whose gradient is None, while momentum and weight
decay move it when its gradient is zero; what reads `.grad` finds None. No fix where code writes
into gradients or reads zeros, where the object may not be torch's, and under a framework.

## Evidence
`torchlint bench TL602` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 256, layers 8: 1.49 ms and 1.27 ms, 1.18 x (1.16 to 1.20): faster; results
  bitwise equal.
- training step, width 1024, layers 4: 12.5 ms and 8.64 ms, 1.45 x (1.25 to 1.69): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
PyTorch documentation, `torch.optim.Optimizer.zero_grad`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, RemoveArgument, Replace
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Guess, Instance, Nothing, Truth
from torchlint.syntax.calls import last_name
from torchlint.training.frequency import Rate
from torchlint.training.gradients import zeroing
from torchlint_rules.judging import often, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

FIRST, DEFAULT = Version("1.7"), Version("2.0")  # has `set_to_none`, and it is True
CAPTURES = ("torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables")
ONLY_2 = ("torch.compile", "torch.set_default_device", "torch.amp.GradScaler")
HAVE = frozenset({"optimizer", "module", "model"})
OTHERS = frozenset({"apex", "horovod", "deepspeed"})  # their `zero_grad` may take no argument
CHANGES = (
    "a parameter without a gradient in a step is skipped by the optimizer, and what reads it finds "
    "None; zeros let momentum and weight decay move it"
)
UNDECLARED = (
    "Declare the version the project uses, with `torch-version` in the configuration or "
    "`--torch-version`: from 2.0 on there is nothing to do."
)


def zero_grad_not_none(script: Script) -> Iterator[Finding]:
    """Find calls and loops that fill gradients with zeros."""
    connected, named = script.connected, script.module.index.named
    calls = script.module.index.of(cst.Call) if "zero_grad" in named else ()
    calls = [call for call in calls if last_name(call.func) == "zero_grad"]
    loops = list(zeroing(connected.evaluation, script.file))
    if not (calls or loops) or any(map(connected.evaluation.calls, CAPTURES)):
        return
    for call in calls:
        known, frequency = is_torchs(script, call), script.frequency(call)
        given, sure = given_to(connected.evaluation, call, ("set_to_none",))
        if known is None or not sure or (frequency.rate is Rate.ONCE and frequency.known):
            continue
        if "set_to_none" not in given:
            yield from bare(script, call, known=known)
        elif given["set_to_none"].value == (Truth(False),) and not connected.writes_gradients:
            yield explicit(script, call, known=known)
    yield from (one_by_one(script, loop) for loop in loops)


def is_torchs(script: Script, call: cst.Call) -> bool | None:
    """Whether a `zero_grad` is torch's: None where it is not, False where nothing shows it."""
    assert isinstance(call.func, cst.Attribute)
    connected = script.connected
    owners = [one for one in script.value(call.func.value) if not isinstance(one, Nothing)]
    method = connected.evaluation.classes.method
    others = [
        bool(isinstance(one, Instance) and method(one.cls, "zero_grad"))
        or getattr(one, "kind", "").startswith("apex.")
        for one in owners
    ]
    if (others and all(others)) or "torch" not in connected.libraries:
        return None
    kinds = {connected.frequencies.effects.kind(one) for one in owners}
    own = any("zero_grad" in one.methods for one in connected.evaluation.classes)
    is_guess = own and any(isinstance(one, Guess) for one in owners)
    is_plain = bool(kinds) and kinds <= HAVE and not (any(others) or is_guess)
    return is_plain and not connected.libraries & OTHERS


def bare(script: Script, call: cst.Call, *, known: bool) -> Iterator[Finding]:
    """``zero_grad()``: fills with zeros below torch 2.0."""
    settings, connected, frequency = script.settings, script.connected, script.frequency(call)
    target = settings.target
    if target is not None and not FIRST <= target < DEFAULT:
        return
    exact = target is not None and not settings.floor
    if not exact and not settings.every_version and any(map(connected.evaluation.calls, ONLY_2)):
        return
    where = f"{target} (before 2.0)" if exact else "below 2.0"
    old = "" if exact else "; torch below 1.7 has no such argument"
    add = AddArgument(call, "set_to_none", "True")
    yield Finding(
        call,
        f"`{script.module.brief(call)}` fills the gradients with zeros on torch {where}"
        f"{often(frequency)}: `set_to_none=True` drops them (from torch 1.7 on)",
        fix(script, call, "Pass `set_to_none=True`", add, CHANGES + old) if known else None,
        severity(frequency, known, exact, not connected.writes_gradients, not script.frameworks),
        help="" if exact else UNDECLARED,
    )


def explicit(script: Script, call: cst.Call, *, known: bool) -> Finding:
    """``zero_grad(set_to_none=False)``: fills with zeros on every version."""
    frequency, target = script.frequency(call), script.settings.target
    arg = next((one for one in call.args if not one.star), None)
    rewrite: Rewrite | None = None if arg is None else Replace(arg.value, "True")
    title = "Pass True"
    if arg is not None and target is not None and target >= DEFAULT:
        rewrite, title = RemoveArgument(call, arg), "Leave out the argument"
    return Finding(
        call,
        f"`{script.module.brief(call)}` fills the gradients with zeros{often(frequency)}, instead "
        "of dropping them",
        fix(script, call, title, rewrite),
        severity(frequency, known, not script.frameworks),
    )


def one_by_one(script: Script, loop: cst.For) -> Finding:
    """Report a loop that zeroes each gradient."""
    frequency = script.frequency(loop)
    return Finding(
        loop,
        f"the loop zeroes the gradients of `{script.module.brief(loop.iter)}` one by one"
        f"{often(frequency)}, only for the backward pass to add to them",
        severity=severity(frequency, script.connected.uses_gpu, not script.frameworks),
        help="set each `.grad` to None instead, or call `optimizer.zero_grad(set_to_none=True)`",
    )


def reads_zeros(script: Script, call: cst.Call) -> bool:
    """Whether the function reads a gradient between a call and the next backward pass."""
    module, index = script.module, script.module.index
    names = (name for word in ("grad", "backward") for name in index.named.get(word, ()))
    later = (one for one in names if index.order(one) > index.order(call))
    here = (one for one in later if module.function(one) is module.function(call))
    first = min(here, key=index.order, default=None)
    return first is not None and first.value == "grad"


def fix(
    script: Script, call: cst.Call, title: str, rewrite: Rewrite | None, changes: str = CHANGES
) -> Fix | None:
    """Return the fix, unless code needs the zeros or a framework wraps the optimizer."""
    is_needed = script.connected.writes_gradients or reads_zeros(script, call)
    if rewrite is None or is_needed or script.frameworks:
        return None
    return Fix(title, Safety.UNSAFE, (rewrite,), changes)
