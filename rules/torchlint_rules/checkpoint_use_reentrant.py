"""Activation checkpointing by its old, reentrant variant.

## Why
The old, reentrant variant of `torch.utils.checkpoint.checkpoint`, still the default, runs the block
under `torch.no_grad()`: if none of its inputs requires a gradient, such as the batch that a model
starts with, the parameters of the block are never trained. It knows no keyword arguments and no
`torch.autograd.grad`, and since torch 2.1 every call that does not choose a variant warns. The
other variant is right, and no faster.

## Bad
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.block = nn.Conv2d(3, 64, 3), nn.Conv2d(64, 64, 3)

        def forward(self, x):
            return checkpoint(self.block, self.stem(x))

## Good
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.block = nn.Conv2d(3, 64, 3), nn.Conv2d(64, 64, 3)

        def forward(self, x):
            return checkpoint(self.block, self.stem(x), use_reentrant=False)

## Leaves alone
- Calls that choose a variant, or may get it from a dictionary (`**kwargs`). But `True` is an error
  where the block is fed with batches as they are loaded.
- Calls under `torch.no_grad()`, and those with keyword arguments for the block.
- Checkpoint functions of other libraries, and versions of torch without the argument.

## Fix safety
Unsafe: parameters that got no gradient are trained from then on. Elsewhere the values are the same,
but hooks and errors in the block come at another time.

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

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, Replace
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Loaded, Tensor
from torchlint.syntax.calls import keyword_of, keywords
from torchlint.training.model_calls import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

# Where the argument came, and what precedes the inputs of the block.
SINCE = {
    "torch.utils.checkpoint.checkpoint": (Version("1.11"), 1),
    "torch.utils.checkpoint.checkpoint_sequential": (Version("2.0"), 2),
}
KNOWN = frozenset(
    """function functions segments input use_reentrant preserve_rng_state context_fn
    determinism_check debug early_stop""".split()
)


def checkpoint_use_reentrant(script: Script) -> Iterator[Finding]:
    """Find checkpoints of the reentrant variant."""
    connected = script.connected
    target = script.settings.target
    for call, name in script.calls_of(*SINCE):
        since, first = SINCE[name]
        if (target is not None and target < since) or not is_reentrant(call, first):
            continue
        recording = connected.model_calls.recording(connected.evaluation.at(call, script.file))
        if recording is Recording.OFF:
            continue
        chosen = keywords(call).get("use_reentrant")
        inputs = [arg for arg in call.args[first:] if keyword_of(arg) in ("", "input")]
        are_raw = bool(inputs) and all(is_raw(script, arg) for arg in inputs)
        gets_none = are_raw and connected.frequencies.effects.train
        if gets_none or chosen is None:
            yield finding(script, call, chosen, inputs[0].value if gets_none else None)


def is_reentrant(call: cst.Call, first: int) -> bool:
    """Whether a call gets the old variant: it does not choose, or chooses that."""
    for place, arg in enumerate(call.args):
        word = keyword_of(arg)
        chosen = word == "use_reentrant" or (first == 2 and place == 3 and not word)
        if chosen and not (isinstance(arg.value, cst.Name) and arg.value.value == "True"):
            return False
        if arg.star == "**" or (word and word not in KNOWN):
            return False  # it may choose, or is the block's own, which the old variant refuses
    return len(call.args) >= first


def is_raw(script: Script, arg: cst.Arg) -> bool:
    """Whether an input is a batch as its loader gave it, which nothing tells to need a gradient."""
    value, modules = script.value(arg.value), script.connected.files.modules
    return (
        not arg.star
        and bool(value)
        and all(isinstance(one, Tensor) and one.loaded is Loaded.YES for one in value)
        and not any("requires_grad_" in module.index.named for module in modules)
    )


def finding(
    script: Script,
    call: cst.Call,
    chosen: cst.BaseExpression | None,
    raw: cst.BaseExpression | None,
) -> Finding:
    """Return the finding: an error where the block gets no gradients, else a doubt."""
    block = script.module.brief(call.args[0].value)
    message = (
        f"the checkpoint of `{block}` does not choose use_reentrant and gets the old variant, "
        "which leaves a block without gradients where none of its inputs requires one"
    )
    if raw is not None:
        message = (
            f"`{script.module.brief(raw)}` requires no gradient, so that this reentrant checkpoint "
            f"leaves the parameters of `{block}` without one"
        )
    choice: Rewrite = AddArgument(call, "use_reentrant", "False")
    if chosen is not None:
        choice = Replace(chosen, "False")
    changes = "parameters that got no gradient are trained; the block is recomputed otherwise"
    return Finding(
        call,
        message,
        Fix("Pass use_reentrant=False", Safety.UNSAFE, (choice,), changes=changes),
        None if raw is None else Severity.ERROR,
        help="use_reentrant=False is what PyTorch recommends, since torch 1.11.",
    )
