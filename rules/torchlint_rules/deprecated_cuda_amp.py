"""Mixed precision is called by the names of one device, which are deprecated.

## Why
`torch.cuda.amp` and `torch.cpu.amp` became one module, `torch.amp`, which is told the device.  The
old names do the same, but since torch 2.4 each of them warns when it is called, and will be removed
one day.

## Bad
    import torch
    from torch.cuda.amp import GradScaler, autocast

    def train(model, loader, optimizer, use_amp):
        scaler = GradScaler(enabled=use_amp)
        for x, y in loader:
            optimizer.zero_grad()
            with autocast(use_amp):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

## Good
    import torch
    from torch.amp import GradScaler, autocast

    def train(model, loader, optimizer, use_amp):
        scaler = GradScaler("cuda", enabled=use_amp)
        for x, y in loader:
            optimizer.zero_grad()
            with autocast("cuda", enabled=use_amp):
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

## Leaves alone
- Projects whose torch has no such name yet: `torch.amp` has `autocast` since 1.12, `GradScaler`
  since 2.3, `custom_fwd` and `custom_bwd` since 2.4.  The same holds for code that uses what such a
  torch no longer has (`torch._six`).
- Code for old versions: under a condition on the version, `hasattr` or `try`, beside the new name.
- Annotations, `isinstance` and base classes: they do not warn.

Reported as information where torch may be older than 2.4, which does not warn.  Reported without a
fix: calls under another name (`cast = torch.cuda.amp.autocast`; where that may be something else as
well, as in `cast = suppress` before `if amp:`, or is a `functools.partial` of it, the old name is
reported in place of the call), imports that the file also uses in such a way or lists in `__all__`,
and scalers where the file asks for their class or inherits from it.

## Fix safety
Safe: the old names call the new ones with the device.  An import changes together with everything
that uses what it binds.  What was passed by place is passed by keyword: the first parameter of the
old `autocast` is `enabled`, of the new one `device_type`.

There is none where a README names a torch without the new name and no version is declared.

Unsafe where the target version is not known; in a file that is compiled by TorchScript; where a
training framework is imported or a related file asks for the class of a scaler, which may be the
old one; and for `autocast()` without `dtype` in a method of a module or beside
`torch.set_autocast_dtype`: inside of another autocast the new name takes the type of that one,
where the old one took float16.

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

from torchlint.analysis.amp_names import SINCE, AmpNames, Form, Use
from torchlint.analysis.arguments import keywords
from torchlint.analysis.dictionaries import literal
from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

DEPRECATED = Version("2.4")


def deprecated_cuda_amp(program: Program) -> Iterator[Finding]:
    """Find calls of the old names of mixed precision."""
    names = AmpNames(program)
    target = program.target
    for use in names.uses():
        if target is not None and target < SINCE[use.name]:
            continue
        if not program.reaches(SINCE[use.name]):
            continue
        warns = target is not None and target >= DEPRECATED
        yield Finding(
            use.place,
            message(program, use),
            fix(program, names, use),
            None if warns else Severity.INFO,
            help=advice(use),
        )


def message(program: Program, use: Use) -> str:
    """Say what is deprecated, and from which version on."""
    text = f"`{program.brief(use.place)}` is deprecated and warns since torch {DEPRECATED}"
    if program.target is not None:
        return text
    return f"{text}; its new name needs torch {SINCE[use.name]}: declare yours (`--torch-version`)"


def advice(use: Use) -> str:
    """Name what to call instead."""
    if use.form is Form.CHOSEN:
        return f'`functools.partial(torch.amp.{use.name}, "{use.device}")` does the same.'
    device = f'"{use.device}"' if use.keywords else f'device_type="{use.device}"'
    return f"`torch.amp.{use.name}({device}, ...)` does the same."


def fix(program: Program, names: AmpNames, use: Use) -> Fix | None:
    """Return the fix, safe where nothing can tell the new names from the old ones."""
    renaming = names.renaming(use)
    if renaming is None:
        return None
    scaler = any(one.name == "GradScaler" for one in renaming.uses)
    newest = max(SINCE[one.name] for one in renaming.uses)
    if program.is_named_below(newest):
        return None
    doubts = (
        (f"torch below {newest} does not have it", program.target is None),
        ("TorchScript may not compile it", "torch.jit" in program.text),
        ("a framework may ask for the old class", scaler and bool(program.frameworks)),
        ("another file asks for the old class", scaler and names.compared_nearby),
        (
            "inside of another autocast it takes the type of that one",
            any(may_inherit(program, one) for one in renaming.uses),
        ),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    safety = Safety.UNSAFE if changes else Safety.SAFE
    return Fix(f"Use torch.amp.{use.name}", safety, renaming.rewrites, changes)


def may_inherit(program: Program, use: Use) -> bool:
    """Whether a call may run inside of another autocast and leave the type to it."""
    if use.name != "autocast" or use.call is None or is_decorator(program, use.call):
        return False
    given = keywords(use.call)
    by_place = [arg.value for arg in use.call.args if arg.keyword is None]
    given.update(zip(use.keywords, by_place, strict=False))
    enabled = given.get("enabled")
    if "dtype" in given or (enabled is not None and literal(enabled) == "False"):
        return False
    owner = program.classes.around(use.call)
    return "set_autocast" in program.text or (owner is not None and owner.is_module)


def is_decorator(program: Program, call: cst.Call) -> bool:
    """Whether a call makes a decorator, which is done before anything runs."""
    return isinstance(program.parent(call), cst.Decorator)
