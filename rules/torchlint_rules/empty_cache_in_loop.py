"""Memory is cleaned up in every training step.

## Why
PyTorch keeps freed GPU memory: the next step asks for blocks of the same sizes and gets them at
once. `torch.cuda.empty_cache()` gives them back to the driver, which waits for the GPU and is then
asked for every block anew. `gc.collect()` walks through all objects of Python; tensors are freed
without it, as soon as nothing refers to them.

## Bad
    import torch

    def train(model, loader, device):
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()
            torch.cuda.empty_cache()

## Good
    import torch

    def train(model, loader, device):
        for x, y in loader:
            model(x.to(device), y.to(device)).backward()

## Leaves alone
- Calls once an epoch, between phases, every n steps, in `except`, or under an option that is off.
- Functions that delete a model or an optimizer, or that measure memory.
- `gc.collect(0)`, and files that turn the collector off to run it when it suits them.

It is information under a condition of which nothing is known, in a step that does not train, with a
framework, and for `torch.cuda.ipc_collect()`.

## Fix safety
Unsafe: the values are the same, but where memory is so short, or in so many pieces, that the calls
kept the script alive, it may run out. `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` is made
for that. The statement is deleted, with an `if` that only asked for the device.

## Evidence
`torchlint bench TL209` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 512, batch 64: 107 ms and 4.22 ms, 25.38 x (24.70 to 26.08): faster; results
  bitwise equal.
- training step, width 1024, batch 64: 125 ms and 19.0 ms, 6.60 x (5.85 to 7.43): faster; results
  bitwise equal.

On a GPU: not measured yet.

`gc.collect()` in a process that has imported torch 2.13.0 and nothing else, AMD EPYC, Python 3.11:
72 ms of CPU time (`python -c "import gc, time, torch; gc.collect(); t = time.process_time();
[gc.collect() for _ in range(20)]; print((time.process_time() - t) / 20)"`).  `empty_cache` was not
measured yet.

## References
- PyTorch documentation, "CUDA semantics: Memory management", and `torch.cuda.empty_cache`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.imports import unneeded
from torchlint.edits.rewrites import DeleteStatement
from torchlint.rule import Finding, Severity
from torchlint.semantics.sets import is_known
from torchlint.training.conditions import whole_statement
from torchlint.training.frequency import Rate
from torchlint_rules.judging import every

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

_HAVE_CACHES = "cuda xpu mps npu accelerator cuda.memory accelerator.memory"
EMPTIES = tuple(f"torch.{one}.empty_cache" for one in _HAVE_CACHES.split())
COLLECTS, SHARES = "gc.collect", "torch.cuda.ipc_collect"
GIVES = "gives away memory that the next one needs"
DOES = {
    COLLECTS: "walks through all objects",
    SHARES: "looks for memory that other processes were given",
}
BY_HAND = ("gc.disable", "gc.freeze", "gc.set_threshold")
MEASURES = tuple(
    f"torch.cuda.{module}{name}"
    for module in ("", "memory.")
    for name in ("reset_peak_memory_stats", "reset_max_memory_allocated")
)
LARGE = ("module", "model", "optimizer")
STEPS = {Rate.STEP: "training step", Rate.EVAL_STEP: "step that does not train"}


def empty_cache_in_loop(script: Script) -> Iterator[Finding]:
    """Find calls that clean up memory in every step."""
    for call, name in script.calls_of(*EMPTIES, COLLECTS, SHARES):
        frequency = script.frequency(call)
        if frequency.rate not in STEPS or frequency.guard or not script.is_statement(call):
            continue
        if needed := is_needed(script, call, name):
            continue
        may_go = frequency.decided and needed is not None and not script.frameworks
        is_plain = may_go and frequency.in_every_step and name != SHARES
        yield Finding(
            call,
            f"`{script.module.brief(call)}` {DOES.get(name, GIVES)}, in {every(frequency, STEPS)}",
            fix(script, call, name) if may_go else None,
            None if is_plain else Severity.INFO,
            help="PyTorch uses freed memory again by itself; clean up between phases, "
            "or every n steps",
        )


def is_needed(script: Script, call: cst.Call, name: str) -> bool | None:
    """Whether the call does what nothing else would do, None where nobody knows."""
    module = script.module
    if name == COLLECTS and (call.args or any(script.calls_of(*BY_HAND))):
        return True
    function = module.function(call)
    if any(module.function(other) is function for other, _ in script.calls_of(*MEASURES)):
        return True
    deleted = [
        name
        for statement in module.index.below(function or module.tree, cst.Del)
        for name in module.index.below(statement, cst.Name)
    ]
    if any(script.kind(name) in LARGE for name in deleted):
        return True
    return None if any(not is_known(script.value(name)) for name in deleted) else False


def fix(script: Script, call: cst.Call, name: str) -> Fix:
    """Return the deletion of the statement, with the condition that holds nothing else."""
    calls = [one for one, _ in script.calls_of(*EMPTIES, COLLECTS, SHARES)]
    rewrites: list[Rewrite] = [DeleteStatement(whole_statement(script, calls, call))]
    if name == COLLECTS and (line := unneeded(script.module, "gc")):
        rewrites.append(DeleteStatement(line))
    return Fix(
        "Delete the call",
        Safety.UNSAFE,
        tuple(rewrites),
        changes="a script that is short of memory may run out of it",
    )
