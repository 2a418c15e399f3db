"""Activation checkpointing by its old, reentrant variant.

## Why
`torch.utils.checkpoint.checkpoint` has two variants.  The reentrant one, still the default, runs
the block under `torch.no_grad()`: if none of its inputs requires a gradient, as the batch that a
model starts with, every parameter of the block is left without a gradient and is never trained.
It knows no keyword arguments and no `torch.autograd.grad`.  Since torch 2.1 every call that does
not choose a variant warns.  The other variant is right, and no faster: around small blocks its
hooks cost more than they save (see the evidence).

## Bad
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 64, 3)
            self.block = nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU())

        def forward(self, x):
            return checkpoint(self.block, self.stem(x))

## Good
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 64, 3)
            self.block = nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU())

        def forward(self, x):
            return checkpoint(self.block, self.stem(x), use_reentrant=False)

## Leaves alone
- Calls that choose a variant, or may get it from a dictionary (`**kwargs`); `use_reentrant=True` is
  reported only where its block is fed with batches as they are loaded: there it is an error.
- Checkpoint functions of other libraries, and wrappers of this one.
- Calls under `torch.no_grad()`, where nothing is kept, and projects of scripts that never train.
- Calls with keyword arguments for the block: the old variant refuses them, so nobody runs them.
- Projects for a version of torch that does not know the argument (before 1.11;
  `checkpoint_sequential` before 2.0).

Reported as information, and not at all before torch 2.1, where an input surely requires a gradient:
behind `if x.requires_grad:`, or as a layer of a project that freezes none has just made it.
Nothing is lost there; but torch warns of the call, and announces to refuse it.

## Fix safety
Unsafe: parameters that got no gradient are trained from then on.  Elsewhere the values are the
same, but the block is recomputed only as far as it is needed, and hooks and errors in it come at
another time.

## Evidence
`torchlint bench TL407` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 64: 2.35 ms and 2.96 ms, 0.80 x (0.78 to 0.81): slower here; results bitwise
  equal.
- training step, width 256: 8.34 ms and 8.47 ms, 0.98 x (0.95 to 1.02): no measurable change;
  results bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.checkpoint"
- PyTorch pull request 100551, "torch.utils.checkpoint warns if user does not pass use_reentrant"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.analysis.arguments import Given
from torchlint.analysis.raw_inputs import is_raw
from torchlint.analysis.recording import Recording
from torchlint.analysis.required import requires_gradient
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, Replace
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from torchlint.analysis.arguments import Argument
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

# Where the argument came, and what precedes the inputs of the block.
SINCE = {
    "torch.utils.checkpoint.checkpoint": (Version("1.11"), 1),
    "torch.utils.checkpoint.checkpoint_sequential": (Version("2.0"), 2),
}
WARNS = Version("2.1")
KNOWN = (
    "function", "functions", "segments", "input", "use_reentrant", "preserve_rng_state",
    "context_fn", "determinism_check", "debug", "early_stop",
)  # fmt: skip
TRAINS = ("backward(", "Trainer", ".fit(", "lightning", "deepspeed", "accelerate", "autograd.grad")


def checkpoint_use_reentrant(program: Program) -> Iterator[Finding]:
    """Find checkpoints of the reentrant variant."""
    calls = list(program.calls_of(*SINCE))
    for call in calls if calls and not only_infers(program) else ():
        since, first = SINCE[program.qualified(call.func)]
        chosen = program.argument(call, "use_reentrant")
        asked = chosen.given is Given.YES and chosen.literal() == "True" and chosen.arg is not None
        if not (chosen.absent or asked) or (program.target is not None and program.target < since):
            continue
        if not program.reaches(since) or program.recordings.at(call) is Recording.OFF:
            continue
        inputs = [
            arg for arg in call.args[first:] if arg.keyword is None or arg.keyword.value == "input"
        ]
        if not all(arg.keyword is None or arg.keyword.value in KNOWN for arg in call.args):
            continue  # the block's own, which the old variant refuses
        raw = bool(inputs) and all(not arg.star and is_raw(program, arg.value) for arg in inputs)
        if raw or chosen.absent:
            sure = any(not arg.star and requires_gradient(program, arg.value) for arg in inputs)
            if not sure or may_warn(program):
                yield finding(program, call, chosen, inputs[0].value if raw else None, sure=sure)


def only_infers(program: Program) -> bool:
    """Whether the project has scripts, and none of its files trains."""
    if program.project is None:
        return False
    imports = program.project.imports
    return bool(imports.having(("__main__",))) and not imports.having(TRAINS)


def may_warn(program: Program) -> bool:
    """Whether the file may run on a torch that warns of every call without a choice."""
    pinned = program.target is not None and not program.floor and program.target < WARNS
    return program.reaches(WARNS) and not pinned and not program.is_named_below(WARNS)


def finding(
    program: Program,
    call: cst.Call,
    chosen: Argument,
    raw: cst.BaseExpression | None,
    *,
    sure: bool,
) -> Finding:
    """Return the finding: an error where the block gets no gradients, else a doubt or advice."""
    block = program.brief(call.args[0].value)
    if raw is not None:
        message = (
            f"`{program.brief(raw)}` requires no gradient, so that this reentrant checkpoint "
            f"leaves the parameters of `{block}` without one"
        )
    elif sure:
        message = (
            f"the checkpoint of `{block}` does not choose use_reentrant: torch warns of that since "
            "2.1, and announces to refuse it"
        )
    else:
        message = (
            f"the checkpoint of `{block}` does not choose use_reentrant and gets the old variant, "
            "which leaves a block without gradients where none of its inputs requires one"
        )
    return Finding(
        call,
        message,
        fix(call, chosen),
        Severity.ERROR if raw is not None else Severity.INFO if sure else None,
        help="use_reentrant=False is what PyTorch recommends, since torch 1.11.",
    )


def fix(call: cst.Call, chosen: Argument) -> Fix:
    """Return the choice of the other variant."""
    rewrite: Rewrite = AddArgument(call, "use_reentrant", "False")
    if chosen.arg is not None:
        rewrite = Replace(chosen.arg.value, "False")
    return Fix(
        "Pass use_reentrant=False",
        Safety.UNSAFE,
        (rewrite,),
        changes="parameters that got no gradient are trained; the block is recomputed otherwise",
    )
