"""Mixed precision is called by the names of one device, which are deprecated.

## Why
`torch.cuda.amp` and `torch.cpu.amp` became one module, `torch.amp`, which is told the device. The
old names do the same, but since torch 2.4 each call of them warns.

## Bad
    from torch.cuda.amp import GradScaler, autocast

    def train(model, loader, optimizer, use_amp):
        scaler = GradScaler(enabled=use_amp)
        for x, y in loader:
            with autocast(use_amp):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

## Good
    from torch.amp import GradScaler, autocast

    def train(model, loader, optimizer, use_amp):
        scaler = GradScaler("cuda", enabled=use_amp)
        for x, y in loader:
            with autocast("cuda", enabled=use_amp):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

## Leaves alone
- Projects whose torch has no such name yet: `torch.amp` has `autocast` since 1.12, `GradScaler`
  since 2.3, `custom_fwd` and `custom_bwd` since 2.4.
- Calls under a condition or `try` that has the new name too, and names that may be either.
- Annotations, `isinstance` and base classes: they do not warn.

It is information where torch may be older than 2.4. No fix for calls under another name, imports
that other files take from here or that bring something else, and scalers whose class is asked for.

## Fix safety
Safe: the old names call the new ones with the device. An import changes together with all uses of
what it binds, and what was passed by place is passed by keyword.

Unsafe where the target version is not known, beside TorchScript, for scalers under a framework, and
for `autocast()` without `dtype` in a method of a module: inside of another autocast the new name
takes the type of that one, where the old one took float16.

## Evidence
`torchlint bench TL906` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64: 247 µs and 238 µs, 1.04 x (1.03 to 1.04): faster; results bitwise equal.
- training step, width 512: 1.39 ms and 1.37 ms, 1.01 x (1.00 to 1.03): no measurable change;
  results bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Automatic Mixed Precision package - torch.amp"
- PyTorch documentation, `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix
from torchlint.rule import Finding, Severity
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Truth
from torchlint.training.amp_names import SINCE, Use, amp_names
from torchlint.training.effects import unit_around
from torchlint_rules.amp_renaming import renaming
from torchlint_rules.judging import safety

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.amp_names import AmpNames
    from torchlint.training.script import Script

DEPRECATED = Version("2.4")
COMPILES = ("torch.jit.script", "torch.jit.trace")


def deprecated_cuda_amp(script: Script) -> Iterator[Finding]:
    """Find calls of the old names of mixed precision."""
    names, target = amp_names(script), script.settings.target
    for use in names.uses:
        is_late = target is not None and target < SINCE[use.name]
        if not use.runs or is_late or is_beside_new(script, use):
            continue
        warns = target is not None and target >= DEPRECATED
        text = (
            f"`{script.module.brief(use.place)}` is deprecated and warns since torch {DEPRECATED}"
        )
        if target is None:
            text += (
                f"; its new name needs torch {SINCE[use.name]}: declare yours (`--torch-version`)"
            )
        device = f'"{use.device}"' if use.keywords else f'device_type="{use.device}"'
        yield Finding(
            use.place,
            text,
            fix(script, names, use),
            None if warns else Severity.INFO,
            help=f"`torch.amp.{use.name}({device}, ...)` does the same.",
        )


def is_beside_new(script: Script, use: Use) -> bool:
    """Whether a condition or ``try`` around a call has the new name too."""
    new, index = {f"torch.{use.name}", f"torch.amp.{use.name}"}, script.module.index
    return any(
        script.name(node) in new
        for above in index.ancestors(use.place)
        if isinstance(above, (cst.If, cst.IfExp, cst.Try))
        for node in (*index.below(above, cst.Attribute), *index.below(above, cst.Name))
    )


def fix(script: Script, names: AmpNames, use: Use) -> Fix | None:
    """Return the fix, safe where nothing can tell the new names from the old ones."""
    uses, rewrites = renaming(script, names, use)
    if not rewrites:
        return None
    scales = any(one.name == "GradScaler" for one in uses)
    newest = max(SINCE[one.name] for one in uses)
    doubts = (
        (f"torch below {newest} does not have it", script.settings.target is None),
        ("TorchScript may not compile it", any(map(script.connected.evaluation.calls, COMPILES))),
        ("a framework may ask for the old class", scales and bool(script.frameworks)),
        (
            "inside of another autocast it takes the type of that one",
            any(may_inherit(script, one) for one in uses),
        ),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(f"Use torch.amp.{use.name}", safety(not changes), tuple(rewrites), changes)


def may_inherit(script: Script, use: Use) -> bool:
    """Whether a call may run inside of another autocast and leave the type to it."""
    if use.name != "autocast" or use.call is None or use.decorates:
        return False
    evaluation = script.connected.evaluation
    given = given_to(evaluation, use.call, use.keywords)[0]
    is_off = "enabled" in given and given["enabled"].value == (Truth(False),)
    is_inside = unit_around(evaluation, use.call, script.file).is_module_method
    return is_inside and not is_off and "dtype" not in given
