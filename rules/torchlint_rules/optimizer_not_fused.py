"""An optimizer updates in many kernels what one fused kernel updates at once.

## Why
By default `AdamW.step()` runs each of its operations over all parameters before the next one starts
(`foreach`, on a CUDA GPU), or one parameter after the other from Python (on the CPU).  With
`fused=True` a single kernel does it all.  That saves much for many small parameters and on the CPU,
little where the backward pass is long.

The flag is part of the optimizer's state: `load_state_dict` of a checkpoint that was saved without
it puts `fused=None` back, without a word (TL601b).  Of SGD with momentum, if the first step of all
is one that a `GradScaler` has to skip, as it often does, the fused kernel leaves the momentum as
memory that nobody wrote, and the next step applies it (TL601c).

## Bad
    import torch

    layers = [torch.nn.Linear(512, 512) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for x in batches:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

## Good
    import torch

    layers = [torch.nn.Linear(512, 512) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for x in batches:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

## Leaves alone
- Optimizers without a fused kernel (Adadelta, RMSprop, NAdam and others): they refuse the argument.
- `fused`, `foreach` or `differentiable` given, but for a literal `False`.
- SGD on a GPU, where `foreach` needs three or four kernels for all parameters.
- SGD with momentum beside a gradient scaler, for the reason above.
- Sparse gradients, complex parameters, and devices of other makers.
- Optimizers that nothing steps, and those whose step is compiled.
- Versions of torch that are declared and have no such kernel.
- TL601b: connected files that save the optimizer's state themselves, or set `fused` in its groups.

## Fix safety
Unsafe: the results differ by rounding; on torch below 2.4 a fused optimizer raises for parameters
on the CPU, and below 2.0 (SGD: 2.3) it does not exist.  Where the model may also be on the CPU the
device is asked, or the model (`next(model.parameters()).is_cuda or None`: `False` would turn
`foreach` off for good).  Where a state is loaded, the flag is written into it before, so that old
checkpoints do not turn it off.  TL601c takes the flag out.

There is no fix under a training framework, where code that is not seen takes the optimizer in
hand, where the model is moved after the optimizer is made, where the class is one of several of
which some have no such kernel, and on the CPU and for Adagrad where the version is not declared.

## Evidence
`torchlint bench TL601` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 32, layers 24: 4.02 ms and 2.16 ms, 1.86 x (1.82 to 1.90): faster; results
  bitwise equal.
- training step, width 384, layers 8: 8.92 ms and 6.02 ms, 1.48 x (1.41 to 1.56): faster; results as
  E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.optim`: "Algorithms", and `torch.optim.AdamW`
- PyTorch documentation, `torch.optim.Optimizer.load_state_dict`
- PyTorch Performance Tuning Guide, "Fuse operations"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import (
    AddArgument,
    RemoveArgument,
    Replace,
    Rewrite,
)
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Number
from torchlint.training.updates import is_enabled, may_be_refused, may_scale, optimizers
from torchlint_rules.fused_flag import ADAGRAD, ON_CPU, ON_MPS, keeping, sets_flag, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.training.script import Script
    from torchlint.training.updates import Optimizer

SGD = "torch.optim.SGD"
# The first version with a fused kernel on a CUDA GPU.
ON_GPU = {
    "torch.optim.Adam": Version("2.0"),
    "torch.optim.AdamW": Version("2.0"),
    SGD: Version("2.3"),
    ADAGRAD: Version("2.13"),
}
WRAPPED = (
    "It can be used with a framework; Lightning refuses it with float16 and clipped gradients."
)
KEPT = "the results differ by rounding from those of the kernel that was in use"
SPOILT = "the momentum starts from the first gradients that are finite"


def optimizer_not_fused(script: Script) -> Iterator[Finding]:
    """Find optimizers that could be fused, and fused ones that lose it or go wrong by it."""
    for one in optimizers(script):
        if one.is_on("fused"):
            yield from lost(script, one)
            yield from uninitialised(script, one)
        elif could_be_fused(script, one):
            yield finding(script, one)


def could_be_fused(script: Script, one: Optimizer) -> bool:
    """Whether a call leaves the choice open, and there is a kernel where the file runs."""
    kinds = [kind for kind in one.kinds if kind in ON_GPU and exists(script, one, kind)]
    if not kinds or not all(map(one.is_open, ("fused", "foreach", "differentiable"))):
        return False
    is_slow = one.is_off("fused") or one.is_off("foreach")
    if kinds == [SGD] and one.on_gpu is not False and not is_slow:
        return False
    if SGD in kinds and has_momentum(one) and may_scale(script):
        return False
    return one.may_step and not one.is_compiled and not may_be_refused(script)


def exists(script: Script, one: Optimizer, kind: str) -> bool:
    """Whether the version that is declared, if any, has the kernel."""
    target = script.settings.target
    return target is None or target >= (ON_CPU if one.on_gpu is False else ON_GPU[kind])


def has_momentum(one: Optimizer) -> bool:
    """Whether this is SGD with momentum, or may be."""
    given = one.given[0].get("momentum")
    return SGD in one.kinds and given is not None and given.value != (Number(0),)


def finding(script: Script, one: Optimizer) -> Finding:
    """Return the finding, with the fix where no framework wraps the optimizer."""
    brief, target = script.module.brief, script.settings.target
    name, kinds = brief(one.node.func), [kind for kind in one.kinds if kind in ON_GPU]
    told = told_off(one)
    if told is not None:
        how = f"`{brief(told)}` makes `{name}` update one parameter after the other"
    elif one.on_gpu is False:
        how = f"`{name}` updates one parameter after the other on the CPU"
    else:
        how = f"`{name}` updates its parameters in many small kernels"
    version = ON_CPU if one.on_gpu is False else max(ON_GPU[kind] for kind in kinds)
    since = f" (from torch {version} on)" if target is None else ""
    return Finding(
        one.node,
        f"{how}: `fused=True` does it in one kernel{since}",
        fix(script, one, told),
        help=WRAPPED if script.frameworks else "",
    )


def told_off(one: Optimizer) -> cst.Arg | None:
    """Return the argument that switches the faster ways off."""
    named = {arg.keyword.value: arg for arg in one.node.args if arg.keyword}
    return next((named[n] for n in ("fused", "foreach") if n in named and one.is_off(n)), None)


def fix(script: Script, one: Optimizer, told: cst.Arg | None) -> Fix | None:
    """Return the fix: the argument, written into the states that are loaded as well."""
    target, since = script.settings.target, max(ON_GPU.get(kind, ON_MPS) for kind in one.kinds)
    value = written(script, one)
    is_refused = any(kind not in ON_GPU or not exists(script, one, kind) for kind in one.kinds)
    is_refused |= target is None and ADAGRAD in one.kinds
    is_refused |= told is None and "fused" in one.given[0]
    if value is None or is_refused or script.frameworks or one.is_wrapped or not one.given[1]:
        return None
    code, imports = value
    rewrites: list[Rewrite] = [AddArgument(one.node, "fused", code)]
    if told is not None and told.keyword is not None:
        rewrites = [Replace(told.keyword, "fused"), Replace(told.value, code)]
    changes = "the results differ by rounding"
    if target is None:
        changes += f"; torch below {since} has no such kernel"
    if target is None or target < ON_CPU:
        changes += f"; torch below {ON_CPU} raises where the parameters are made on the CPU"
    for load, file in one.loads():
        kept = keeping(script, load) if file == script.file else None
        if kept is not None:
            rewrites.append(kept)
        elif not sets_flag(script):
            changes += "; a checkpoint that was saved without it turns it off again"
    return Fix(f"Pass fused={code}", Safety.UNSAFE, (*rewrites, *imports), changes)


def lost(script: Script, one: Optimizer) -> Iterator[Finding]:
    """TL601b: the state of another optimizer is loaded into a fused one."""
    saves = any(call.name == "state_dict" for call in script.connected.uses.methods(one.at))
    if saves or sets_flag(script):
        return
    for load, file in one.loads():
        if file == script.file:
            kept = None if script.frameworks else keeping(script, load)
            title = "Put the flag into the state"
            yield Finding(
                load,
                f"`{script.module.brief(load)}` turns `fused` off again if the state was saved "
                "without it",
                None if kept is None else Fix(title, Safety.UNSAFE, (kept,), KEPT),
                case="b",
                help='Set group["fused"] = True in the "param_groups" of the state first.',
            )


def uninitialised(script: Script, one: Optimizer) -> Iterator[Finding]:
    """TL601c: a gradient scaler that skips the first step of a fused SGD spoils its momentum."""
    if not has_momentum(one):
        return
    is_known = all(isinstance(each, Number) for each in one.given[0]["momentum"].value)
    for step, scaler, file in one.steps:
        enabled = is_enabled(script, script.value(scaler)) if scaler else False
        if enabled is False:
            continue
        named = {arg.keyword.value: arg for arg in one.node.args if arg.keyword}
        remove = RemoveArgument(one.node, named["fused"]) if "fused" in named else None
        text = script.connected.files.modules[file].brief(step)
        yield Finding(
            one.node,
            f"if the first `{text}` is skipped for its gradients, the fused kernel leaves the "
            f"momentum of `{script.module.brief(one.node.func)}` as memory that nobody wrote",
            None if remove is None else Fix("Leave out the flag", Safety.UNSAFE, (remove,), SPOILT),
            Severity.ERROR if enabled and is_known else Severity.WARNING,
            case="c",
            help="Adam and AdamW keep their state when a step is skipped.",
        )
        return
