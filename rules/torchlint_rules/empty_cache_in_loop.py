"""Memory is cleaned up in every training step.

## Why
PyTorch keeps freed GPU memory to use it again: the next step asks for blocks of the same sizes and
gets them at once.  `torch.cuda.empty_cache()` gives them back to the driver, which waits for the
GPU, and the next step has to ask the driver for every block anew.  `gc.collect()` walks through
all objects of Python, of which `import torch` alone makes more than a hundred thousand; tensors are
freed without it, as soon as nothing refers to them.

## Bad
    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()

## Good
    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            loss = model(x.to(device), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Calls once an epoch, between phases, every n steps, or under any condition but one that asks for
  the device; in `except`, and where a model, a layer or an optimizer was just deleted.
- Turns without gradients that loop over batches themselves: each is a phase.
- `gc.collect(0)`, and files that turn the collector off to run it when it suits them.
- Code that measures memory: `reset_peak_memory_stats` in the same function.

Calls in an evaluation step or in a forward pass are reported as information, since memory may be
what they are about, and so are those in a file that uses a framework (the Trainer of Transformers
has `torch_empty_cache_steps`).  So is `torch.cuda.ipc_collect()`, which gives nothing away: it only
cleans up after tensors that were sent to other processes.

## Fix safety
Unsafe: the statement is deleted, with an `if` that only asked for the device; a comment on its line
stays, and may have to go by hand.  The values computed are the same.  Where memory is so short, or
in so many pieces, that the calls kept the script alive, it may run out of memory;
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` is made for that.

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
- PyTorch documentation, "CUDA semantics: Memory management"
- PyTorch documentation, `torch.cuda.empty_cache`
- PyTorch forum, "About torch.cuda.empty_cache()"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.conditions import (
    asks_for_device,
    is_statement,
    past_device_checks,
    whole_statement,
)
from torchlint.analysis.loops import Role
from torchlint.analysis.model_runs import runs_model
from torchlint.analysis.values import Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import DeleteStatement
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Context
    from torchlint.analysis.program import Program

EMPTIES = (
    *(f"torch.{device}.empty_cache" for device in ("cuda", "xpu", "mps", "npu", "accelerator")),
    "torch.cuda.memory.empty_cache", "torch.accelerator.memory.empty_cache",
)  # fmt: skip
COLLECTS, SHARES = "gc.collect", "torch.cuda.ipc_collect"
DOES = {
    COLLECTS: "walks through all objects",
    SHARES: "looks for memory that other processes were given",
}
BY_HAND = ("gc.disable", "gc.freeze", "gc.set_threshold")
MEASURES = ("reset_peak_memory_stats", "reset_max_memory_allocated")
GC = r"""["']gc["']|\bimport gc[^\S\n]*[#;]"""  # handed on by its name, or with a reason
PART = re.compile(r"(^|_)(layer|block|module|model)s?$")
STEPS = {
    Role.TRAIN: "training step",
    Role.EVAL: "step that does not train",
    Role.FORWARD: "forward pass",
}


def empty_cache_in_loop(program: Program) -> Iterator[Finding]:
    """Find calls that clean up memory in every step."""
    calls = [
        call for call in program.calls_of(*EMPTIES, COLLECTS, SHARES) if is_statement(program, call)
    ]
    for call in calls:
        if has_reason(program, call):
            continue
        context = program.context(past_device_checks(program, call))
        if context.role not in STEPS or context.guarded:
            continue
        if not is_conditional(program, call, context) and not is_phase(program, context):
            yield finding(program, call, calls, context)


def is_conditional(program: Program, call: cst.Call, context: Context) -> bool:
    """Whether the call stands, in its step, under a condition that asks for more than a device."""
    for above in program.index.ancestors(call):
        if isinstance(above, cst.If) and not asks_for_device(program, above.test):
            return True
        if above is context.loop or isinstance(above, cst.FunctionDef):
            return False
    return False


def is_phase(program: Program, context: Context) -> bool:
    """Whether a turn that does not train runs a model in loops of its own, outside of which it is.

    It evaluates, or quantises a layer.
    """
    if context.role is not Role.EVAL or not isinstance(context.loop, cst.For | cst.While):
        return False
    inner = program.index.below(context.loop.body, cst.For)
    return any(runs_model(program, loop.body) for loop in inner)


def has_reason(program: Program, call: cst.Call) -> bool:
    """Whether the call does what nothing else would do."""
    if program.qualified(call.func) == COLLECTS and (call.args or any(program.calls_of(*BY_HAND))):
        return True
    place = program.function(call) or program.module
    words = (name.value for name in program.index.below(place, cst.Name))
    return any(word in MEASURES for word in words) or follows_deletion(program, call)


def follows_deletion(program: Program, call: cst.Call) -> bool:
    """Whether a model, a part of it, or an optimizer is deleted in the same block."""
    block = program.parent(program.statement(past_device_checks(program, call)))
    if block is None or isinstance(block, cst.Module):
        return False
    return any(
        PART.search(name.value) is not None
        or program.values.binding(binding).kind in (Kind.MODULE, Kind.OPTIMIZER)
        for deleted in program.index.below(block, cst.Del)
        for name in program.index.below(deleted, cst.Name)
        for binding in program.flow.before(deleted, name.value)
    )


def finding(program: Program, call: cst.Call, calls: list[cst.Call], context: Context) -> Finding:
    """Return the finding: the call can go."""
    step = STEPS[context.role]
    name = program.qualified(call.func)
    does = DOES.get(name, "gives away memory that the next one needs")
    framework = bool(program.frameworks)
    advice = framework or context.role is not Role.TRAIN or name == SHARES
    return Finding(
        call,
        f"`{program.brief(call)}` {does}, in every {step}",
        None if framework else fix(program, call, calls),
        Severity.INFO if advice else None,
        help="PyTorch uses freed memory again by itself; clean up between phases, or every n steps",
    )


def fix(program: Program, call: cst.Call, calls: list[cst.Call]) -> Fix:
    """Return the deletion of the statement, with the condition that holds nothing else."""
    return Fix(
        "Delete the call",
        Safety.UNSAFE,
        (DeleteStatement(whole_statement(program, calls, call)), *without_import(program, call)),
        changes="a script that is short of memory may run out of it",
    )


def without_import(program: Program, call: cst.Call) -> Iterator[DeleteStatement]:
    """Delete ``import gc`` where this call was all that needed it."""
    names = program.index.named.get("gc", [])
    if program.qualified(call.func) != COLLECTS or len(names) != 2 or re.search(GC, program.text):
        return
    for statement in program.index.of(cst.Import):
        line = program.parent(statement)
        named = [alias.evaluated_name for alias in statement.names if alias.asname is None]
        if named != ["gc"] or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
            continue
        if isinstance(program.parent(line), cst.Module):
            yield DeleteStatement(statement)
