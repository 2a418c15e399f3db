"""An optimizer updates in many kernels what one fused kernel updates at once.

## Why
By default `AdamW.step()` runs each of its operations over all parameters before the next one starts
(`foreach`, on a CUDA GPU), or one parameter after the other from Python (on the CPU). With
`fused=True` a single kernel does it all: much for many small parameters and on the CPU, little
where the backward pass is long.

TL601b: the flag is part of the optimizer's state, and a checkpoint saved without it turns it off
again.

## Bad
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

## Good
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

## Leaves alone
- Optimizers without a fused kernel (RMSprop, NAdam and others): they refuse the argument.
- `fused`, `foreach` or `differentiable` given, but for a literal `False`.
- SGD on a GPU, where `foreach` needs few kernels, and with momentum beside a gradient scaler.
- Devices of other makers, and declared versions of torch without such a kernel.
- TL601b: files that save the optimizer's state themselves, or speak of its `"fused"`.

## Fix safety
Unsafe: the results differ by rounding, and torch below 2.4 raises for parameters on the CPU. Where
a state is loaded, the flag is written into it before. No fix under a framework, or
where some version or class that may be meant has no such kernel.

## Evidence
`torchlint bench TL601` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 32, layers 24: 4.02 ms and 2.16 ms, 1.86 x (1.82 to 1.90): faster; results
  bitwise equal.
- training step, width 384, layers 8: 8.92 ms and 6.02 ms, 1.48 x (1.41 to 1.56): faster; results as
  E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.optim.AdamW`, and `torch.optim.Optimizer.load_state_dict`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, InsertBefore, Replace, Rewrite
from torchlint.rule import Finding
from torchlint.semantics.values import Number
from torchlint.syntax.calls import keyword_of
from torchlint.syntax.chains import dotted
from torchlint.training.updates import ACCELERATORS, may_scale, optimizers, speaks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script
    from torchlint.training.updates import Optimizer

SGD, ADAGRAD = "torch.optim.SGD", "torch.optim.Adagrad"
# The first version with a fused kernel on a CUDA GPU.
ON_GPU = {
    "torch.optim.Adam": Version("2.0"),
    "torch.optim.AdamW": Version("2.0"),
    SGD: Version("2.3"),
    ADAGRAD: Version("2.13"),
}
ON_CPU = Version("2.4")
WRAPPED = "Frameworks bear it; Lightning refuses it with float16 and clipped gradients."
KEPT = "the results differ by rounding from those of the kernel that was in use"


def optimizer_not_fused(script: Script) -> Iterator[Finding]:
    """Find optimizers that could be fused, and fused ones that lose it."""
    for one in optimizers(script):
        if one.is_told("fused", True):
            yield from lost(script, one)
        elif could_be_fused(script, one):
            yield finding(script, one)


def could_be_fused(script: Script, one: Optimizer) -> bool:
    """Whether a call leaves the choice open, and there is a kernel where the file runs."""
    kinds = [kind for kind in one.kinds if exists(script, one, kind)]
    if not kinds or not all(map(one.is_open, ("fused", "foreach", "differentiable"))):
        return False
    is_named = bool(dotted(one.node.func)) and kinds == [SGD]
    if is_named and not one.is_on_cpu and told_off(one) is None:
        return False
    if SGD in kinds and has_momentum(one) and may_scale(script):
        return False
    return not script.connected.libraries & ACCELERATORS


def exists(script: Script, one: Optimizer, kind: str) -> bool:
    """Whether the version that is declared, if any, has the kernel."""
    target, since = script.settings.target, ON_GPU.get(kind)
    return since is not None and (target is None or target >= (ON_CPU if one.is_on_cpu else since))


def has_momentum(one: Optimizer) -> bool:
    """Whether this is SGD with momentum, or may be."""
    given = one.given[0].get("momentum")
    return SGD in one.kinds and given is not None and given.value != (Number(0),)


def finding(script: Script, one: Optimizer) -> Finding:
    """Return the finding, with the fix where no framework wraps the optimizer."""
    brief, target, told = script.module.brief, script.settings.target, told_off(one)
    name = brief(one.node.func)
    how = f"`{name}` updates its parameters in many small kernels"
    if one.is_on_cpu or told:
        cause = f"`{name}` updates" if told is None else f"`{brief(told)}` makes `{name}` update"
        how = f"{cause} one parameter after the other" + " on the CPU" * (told is None)
    version = max(ON_CPU if one.is_on_cpu else ON_GPU[kind] for kind in one.kinds if kind in ON_GPU)
    since = f" (from torch {version} on)" if target is None else ""
    return Finding(
        one.node,
        f"{how}: `fused=True` does it in one kernel{since}",
        fix(script, one, told),
        help=WRAPPED if script.frameworks else "",
    )


def told_off(one: Optimizer) -> cst.Arg | None:
    """Return the argument that switches the faster ways off."""
    named = {keyword_of(arg): arg for arg in one.node.args}
    off = (word for word in ("fused", "foreach") if one.is_told(word, False))
    return next((named[word] for word in off if word in named), None)


def fix(script: Script, one: Optimizer, told: cst.Arg | None) -> Fix | None:
    """Return the fix: the argument, written into the states that are loaded as well."""
    target = script.settings.target
    is_refused = not all(exists(script, one, kind) for kind in one.kinds)
    is_refused |= target is None and ADAGRAD in one.kinds
    is_refused |= told is None and "fused" in one.given[0]
    if is_refused or script.frameworks or not one.given[1]:
        return None
    rewrites: list[Rewrite] = [AddArgument(one.node, "fused", "True")]
    if told is not None and told.keyword is not None:
        rewrites = [Replace(told.keyword, "fused"), Replace(told.value, "True")]
    changes = "the results differ by rounding"
    if target is None:
        changes += f"; torch below {max(ON_GPU[kind] for kind in one.kinds)} has no such kernel"
    if target is None or target < ON_CPU:
        changes += f"; torch below {ON_CPU} raises where the parameters are made on the CPU"
    if not speaks_of(script, "fused"):
        for load, file in one.calls("load_state_dict"):
            kept = keeping(script, load) if file == script.file else ()
            rewrites += kept
            lost = "; a checkpoint that was saved without it turns it off again"
            changes += lost if not kept else ""
    return Fix("Pass fused=True", Safety.UNSAFE, tuple(rewrites), changes)


def keeping(script: Script, load: cst.Call) -> tuple[Rewrite, ...]:
    """Return the lines that put the flag into a state before it is loaded, if it has a name."""
    line, code = script.module.statement(load), script.module.code
    assert isinstance(load.func, cst.Attribute)
    state = load.args[0].value if load.args and script.is_statement(load) else load
    is_computed = any(True for _ in script.module.index.below(state, cst.Call))
    if is_computed or not isinstance(line, cst.BaseStatement):
        return ()
    name = "group" if script.module.index.scope(load).owner("group") is None else "saved_group"
    return (
        InsertBefore(
            line,
            f'for {name} in {code(state)}["param_groups"]:\n'
            f'    {name}["fused"] = {code(load.func.value)}.defaults["fused"]',
        ),
    )


def lost(script: Script, one: Optimizer) -> Iterator[Finding]:
    """TL601b: the state of another optimizer is loaded into a fused one."""
    if speaks_of(script, "fused") or any(one.calls("state_dict")):
        return
    for load, file in one.calls("load_state_dict"):
        if file == script.file:
            kept = () if script.frameworks else keeping(script, load)
            yield Finding(
                load,
                f"`{script.module.brief(load)}` turns `fused` off again if the state was saved "
                "without it",
                Fix("Put the flag into the state", Safety.UNSAFE, kept, KEPT) if kept else None,
                case="b",
                help='Set group["fused"] = True in the "param_groups" of the state first.',
            )
