"""Gradients are filled with zeros where they could be dropped.

## Why
`zero_grad(set_to_none=False)` writes zeros into every gradient, and the next backward pass reads
them again to add to them.  With `set_to_none=True` the gradients are dropped, and the backward pass
writes new ones: less memory traffic, fewer kernels, and a lower peak between the two.

Since torch 2.0 that is what a plain `zero_grad()` does.  It is therefore only reported for an older
torch, and as information where the version is not known; a project says which one it uses with
`torch-version` in its configuration, or on the command line with `--torch-version`.

## Bad
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=False)
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()

## Good
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()

## Leaves alone
- A plain `zero_grad()` where torch is 2.0 or newer, or older than 1.7, which has no such argument.
- A plain `zero_grad()` in files that call what only torch 2 has (`torch.compile`).
- Calls that run once, before anything goes back: there is no gradient to fill.
- Classes with a `zero_grad` of their own, and objects of other libraries.
- Files that capture CUDA graphs, or in which two parameters share a gradient: they need the zeros.
- `set_to_none=False` where gradients are written into by hand, and need the memory.
- An argument that nothing decides (`set_to_none=args.none`).

Loops that zero the gradients of parameters one by one are reported as well.  Calls that are not
seen to run in every training step, that a framework wraps, or whose object is not known, are
information.

## Fix safety
Unsafe: a parameter that gets no gradient in a step is left alone by the optimizer when its gradient
is None, while momentum and weight decay move it when its gradient is zero.  There is no fix where
code reads `.grad` without a check for None or writes into it, where the object may not be torch's,
or where a training framework wraps the optimizer.

## Evidence
`torchlint bench TL602` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 256, layers 8: 1.49 ms and 1.27 ms, 1.18 x (1.16 to 1.20): faster; results
  bitwise equal.
- training step, width 1024, layers 4: 12.5 ms and 8.64 ms, 1.45 x (1.25 to 1.69): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
PyTorch documentation, `torch.optim.Optimizer.zero_grad`; PyTorch Performance
Tuning Guide, "Set gradients to None"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, RemoveArgument, Replace
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Guess, Instance, Method, Nothing, Object, Truth, Unknown
from torchlint.syntax.calls import last_name
from torchlint.training.effects import Effect, unit_around
from torchlint.training.frequency import Rate
from torchlint.training.gradients import zeroing
from torchlint.training.optimizers import made
from torchlint_rules.judging import often, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.semantics.values import Value
    from torchlint.training.gradients import Zeroing
    from torchlint.training.script import Script

FIRST, DEFAULT = Version("1.7"), Version("2.0")  # has `set_to_none`, and it is True
CAPTURES = ("torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables")
ONLY_2 = ("torch.compile", "torch.set_default_device", "torch.amp.GradScaler")
HAVE = ("optimizer", "module", "model")
OTHERS = frozenset({"apex", "horovod", "deepspeed"})  # their `zero_grad` may take no argument
CHANGES = (
    "a parameter without a gradient in a step is skipped by the optimizer; zeros let momentum "
    "and weight decay move it"
)
UNDECLARED = (
    "Declare the version the project uses, with `torch-version` in the configuration or "
    "`--torch-version`: from 2.0 on there is nothing to do."
)
READS = "no fix: code reads `.grad` without a check for None, or writes into it"


def zero_grad_not_none(script: Script) -> Iterator[Finding]:
    """Find calls and loops that fill gradients with zeros."""
    connected, named = script.connected, script.module.index.named
    calls = [
        call
        for call in (script.module.index.of(cst.Call) if "zero_grad" in named else ())
        if last_name(call.func) == "zero_grad"
    ]
    loops = list(zeroing(connected.evaluation, script.file)) if "grad" in named else []
    if not (calls or loops) or any(map(connected.calls, CAPTURES)) or connected.by_hand.shares:
        return
    for call in calls:
        known = is_torchs(script, call)
        given, sure = given_to(connected.evaluation, call, ("set_to_none",))
        if known is None or not sure or fills_nothing(script, call):
            continue
        if "set_to_none" not in given:
            yield from bare(script, call, known=known)
        elif is_false(given["set_to_none"].value) and not connected.by_hand.fills:
            yield explicit(script, call, known=known)
    yield from (one_by_one(script, loop) for loop in loops if not is_own(script, loop.node))


def is_torchs(script: Script, call: cst.Call) -> bool | None:
    """Whether a `zero_grad` is torch's: None where it is not, False where nothing shows it."""
    assert isinstance(call.func, cst.Attribute)
    connected = script.connected
    found: list[bool | None] = []
    for one in script.value(call.func.value):
        is_own = isinstance(one, Instance) and connected.evaluation.classes.method(
            one.cls, "zero_grad"
        )
        if is_own:
            found.append(None)
        elif isinstance(one, (Unknown, Method)):
            found.append(False)
        elif not isinstance(one, Nothing):
            kind = connected.frequencies.effects.kind(one)
            is_plain = not isinstance(one, Guess) or not connected.defines("zero_grad")
            if isinstance(one, Object) and not kind and "." in one.kind:
                found.append(None if one.kind.startswith("apex.") else False)
            else:
                found.append(is_plain if kind in HAVE else None)
    if True in found:
        return set(found) == {True} and not connected.libraries & OTHERS
    if False not in found or None in found:
        return None
    return False if "torch" in connected.libraries else None


def is_false(value: Value) -> bool:
    """Whether an argument is False, whatever runs."""
    return bool(value) and all(isinstance(one, Truth) and one.value is False for one in value)


def fills_nothing(script: Script, call: cst.Call) -> bool:
    """Whether a call runs once, before anything goes back."""
    frequency, effects = script.frequency(call), script.connected.frequencies.effects
    if frequency.rate is not Rate.ONCE or not frequency.known:
        return False
    unit = unit_around(script.connected.evaluation, call, script.file)
    order = script.module.index.order
    return not any(
        order(site.node) < order(call) and Effect.BACKWARD in one
        for site in effects.sites[unit.at]
        for one in effects.of_site(site)
    )


def is_own(script: Script, loop: cst.For) -> bool:
    """Whether a loop is the body of a `zero_grad`."""
    function = script.module.function(loop)
    return function is not None and function.name.value == "zero_grad"


def bare(script: Script, call: cst.Call, *, known: bool) -> Iterator[Finding]:
    """``zero_grad()``: fills with zeros below torch 2.0."""
    settings, connected = script.settings, script.connected
    target = settings.target
    if target is not None and not FIRST <= target < DEFAULT:
        return
    exact = target is not None and not settings.floor
    if not exact and not settings.every_version and any(map(connected.calls, ONLY_2)):
        return
    where = f"{target} (before 2.0)" if exact else "below 2.0"
    frequency = script.frequency(call)
    hand = connected.by_hand
    touched = hand.reads or hand.fills
    old = "" if exact else "; torch below 1.7 has no such argument"
    add = AddArgument(call, "set_to_none", "True")
    yield Finding(
        call,
        f"`{script.module.brief(call)}` fills the gradients with zeros on torch {where}"
        f"{often(frequency)}: `set_to_none=True` drops them (from torch 1.7 on)",
        fix(script, "Pass `set_to_none=True`", add, CHANGES + old) if known else None,
        severity(frequency, known, exact, not touched, not script.frameworks),
        help=READS if touched else "" if exact else UNDECLARED,
    )


def explicit(script: Script, call: cst.Call, *, known: bool) -> Finding:
    """``zero_grad(set_to_none=False)``: fills with zeros on every version."""
    frequency, target = script.frequency(call), script.settings.target
    arg = next((one for one in call.args if not one.star), None)
    rewrite: Rewrite | None = None
    if arg is not None and target is not None and target >= DEFAULT:
        rewrite = RemoveArgument(call, arg)
    elif arg is not None:
        rewrite = Replace(arg.value, "True")
    title = "Leave out the argument" if isinstance(rewrite, RemoveArgument) else "Pass True"
    return Finding(
        call,
        f"`{script.module.brief(call)}` fills the gradients with zeros{often(frequency)}, instead "
        "of dropping them",
        fix(script, title, rewrite),
        severity(frequency, known, not script.frameworks),
        help=READS if script.connected.by_hand.reads else "",
    )


def one_by_one(script: Script, loop: Zeroing) -> Finding:
    """Report a loop over parameters that zeroes each gradient."""
    frequency, target = script.frequency(loop.node), script.settings.target
    name = optimizer_of(script, loop)
    arguments = "" if target is not None and target >= DEFAULT else "set_to_none=True"
    code = f"{name}.zero_grad({arguments})"
    return Finding(
        loop.node,
        f"the loop zeroes the gradients of `{script.module.brief(loop.node.iter)}` one by one"
        f"{often(frequency)}, only for the backward pass to add to them",
        fix(script, f"Call `{code}`", Replace(loop.node, code) if name else None),
        severity(frequency, script.connected.uses_gpu, not script.frameworks),
        help="" if name else "set each `.grad` to None instead",
    )


def optimizer_of(script: Script, loop: Zeroing) -> str:
    """Return the name of the optimizer that was given just what a loop goes through, or ""."""
    scope = script.module.index.scope(loop.node).function()
    for step in script.module.index.of(cst.Call):
        match step.func:
            case cst.Attribute(value=cst.Name(value=name) as owner, attr=cst.Name(value="step")):
                value = script.value(owner)
                if len(value) == 1 and name in scope.bindings and script.kind(owner) == "optimizer":
                    given = params_of(script, value[0])
                    if given and given == loop.over:
                        return name
    return ""


def params_of(script: Script, one: object) -> Value:
    """Return what an optimizer of torch was given."""
    given = (
        made(script.connected.evaluation, one).get("params") if isinstance(one, Object) else None
    )
    return given.value if given else ()


def fix(script: Script, title: str, rewrite: Rewrite | None, changes: str = CHANGES) -> Fix | None:
    """Return the fix, unless code touches gradients itself or a framework wraps the optimizer."""
    hand = script.connected.by_hand
    if rewrite is None or hand.reads or hand.fills or script.frameworks:
        return None
    return Fix(title, Safety.UNSAFE, (rewrite,), changes)
