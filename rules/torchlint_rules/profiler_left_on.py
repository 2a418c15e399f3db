"""A profiler, or a check of gradients, runs along with the whole training.

## Why
A profiler notes every operation with its times, and on request its shapes, its memory and the
Python stack. It slows each step down and keeps what it noted until it ends. A few steps say the
same: `schedule` chooses them, and `prof.step()` tells where one ends.

TL902b: `gradcheck` takes two forward passes for each element of its inputs.

## Bad
    import torch

    def train(model, loader):
        with torch.profiler.profile(with_stack=True) as prof:
            for x, y in loader:
                model(x, y).backward()
        prof.export_chrome_trace("trace.json")

## Good
    import torch

    def train(model, loader):
        steps = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
        with torch.profiler.profile(with_stack=True, schedule=steps) as prof:
            for x, y in loader:
                model(x, y).backward()
                prof.step()
        prof.export_chrome_trace("trace.json")

## Leaves alone
- A profiler with a `schedule`, with `enabled=` anything but `True`, or under a condition.
- Loops of a few steps, 200 at most: `range(20)`, `islice`, `if step == 20: break`.
- Blocks in which no training is seen; profilers between `start()` and `stop()`.
- A check of gradients that runs once.
- `record_function`, NVTX ranges and `cudaProfilerStart`, which cost next to nothing.

It is information under a framework.

## Fix safety
No fix: taking the profiler away takes away its report, which the code around it uses.

## Evidence
`torchlint bench TL902` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, width 64, batches 50: 35.2 ms and 16.3 ms, 2.16 x (1.94 to 2.41): faster; results bitwise
  equal.
- epoch, width 256, batches 20: 21.7 ms and 15.2 ms, 1.43 x (1.30 to 1.56): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.profiler: schedule"
- PyTorch Performance Tuning Guide, "Disable debugging APIs"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.rule import Finding, Severity
from torchlint.semantics.arguments import given_to
from torchlint.semantics.tables.torch_classes import PROFILERS
from torchlint.semantics.values import Nothing, Truth
from torchlint.training.frequency import Rate
from torchlint.training.profiled import trains_while_on
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.training.script import Script

CHECKS = ("torch.autograd.gradcheck", "torch.autograd.gradgradcheck")
FEW = (
    "Profile a few steps: pass schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, "
    "repeat=1) and call `step()` of the profiler after each step."
)


def profiler_left_on(script: Script) -> Iterator[Finding]:
    """Find profilers around whole trainings, and checks of gradients in them."""
    connected, brief = script.connected, script.module.brief
    level = Severity.INFO if script.frameworks else None
    for call, name in script.calls_of(*PROFILERS, *CHECKS):
        if connected.frequencies.on_request(call, script.file):
            continue
        if name in CHECKS:
            yield from gradient_check(script, call)
        elif is_on(script, call) and trains_while_on(
            connected, connected.evaluation.at(call, script.file)
        ):
            what = f"`{brief(call)}` records every step of the training"
            yield Finding(call, what, None, level, help=FEW)


def is_on(script: Script, call: cst.Call) -> bool:
    """Whether a profiler records everything from its start to its end."""
    given, is_sure = given_to(script.connected.evaluation, call, ("enabled",))
    schedule, enabled = given.get("schedule"), given.get("enabled")
    return (
        is_sure
        and (schedule is None or all(isinstance(one, Nothing) for one in schedule.value))
        and (enabled is None or enabled.value == (Truth(True),))
    )


def gradient_check(script: Script, call: cst.Call) -> Iterator[Finding]:
    """TL902b: gradients compared with finite differences in a script that trains."""
    frequency = script.frequency(call)
    if frequency.rate is Rate.ONCE:
        return
    when = often(frequency)
    yield Finding(
        call,
        f"`{script.module.brief(call)}` compares gradients with finite differences{when}",
        None,
        None if frequency.certain and not script.frameworks else Severity.INFO,
        case="b",
        help="Check gradients in a test.",
    )
