"""Attention computes weights that nobody reads, and cannot use a fused kernel for it.

## Why
By default `nn.MultiheadAttention` also gives the attention weights: it has to compute the whole
matrix of them and keep it for the backward pass. With `need_weights=False` it uses
`scaled_dot_product_attention` (torch 2.0 and newer), which on a GPU never writes that matrix.

## Bad
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

        def forward(self, x):
            return x + self.attention(x, x, x)[0]

## Good
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

        def forward(self, x):
            return x + self.attention(x, x, x, need_weights=False)[0]

## Leaves alone
- Calls whose second result is read, stored, returned or handed on.
- Calls that pass `need_weights`, by keyword or position, or may do so by a dictionary.
- Layers that are not seen to be torch's own: subclasses and parameters that nobody is seen to pass.
- Layers that have a forward hook, which may read the weights.

It is information where the call is not seen to run in every training step.

## Fix safety
Unsafe: rounding differs. On a GPU the fused kernels draw other random numbers for dropout. Where a
mask allows nothing at all the output is zero (in training) instead of NaN.

## Evidence
`torchlint bench TL713` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, tokens 256, width 64: 10.2 ms and 8.43 ms, 1.21 x (1.16 to 1.25): faster; results
  as E1 allows.
- training step, tokens 32, width 128: 3.46 ms and 3.38 ms, 1.02 x (1.01 to 1.04): no measurable
  change; results as E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.nn.MultiheadAttention`: "Set need_weights=False to use the optimized
  scaled_dot_product_attention and achieve the best performance for MHA"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Number, Object
from torchlint.training.models import made_by
from torchlint_rules.judging import severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

LAYER = "torch.nn.MultiheadAttention"
PARAMETERS = ("query", "key", "value", "key_padding_mask", "need_weights")
CHANGES = "rounding; the random numbers of dropout on a GPU; zero where a mask allows nothing"


def mha_need_weights(script: Script) -> Iterator[Finding]:
    """Find calls of attention layers whose weights are thrown away."""
    uses = script.connected.uses
    for call in script.module.index.of(cst.Call):
        value = script.value(call.func)
        layers = [made_by(one) for one in value if isinstance(one, Object) and one.kind == LAYER]
        if not value or len(layers) < len(value):
            continue
        given, is_sure = given_to(script.connected.evaluation, call, PARAMETERS)
        is_told = not is_sure or "need_weights" in given or "key" not in given
        if is_told or not discards(script, call):
            continue
        if any(
            made is None or any(one.name == "register_forward_hook" for one in uses.methods(made))
            for made in layers
        ):
            continue
        rewrite = AddArgument(call, "need_weights", "False")
        yield Finding(
            call,
            f"`{script.module.brief(call)}` computes attention weights that nobody reads",
            Fix("Pass need_weights=False", Safety.UNSAFE, (rewrite,), changes=CHANGES),
            severity(script.frequency(call)),
            help="Without them it uses scaled_dot_product_attention (torch 2.0 and newer).",
        )


def discards(script: Script, call: cst.Call) -> bool:
    """Whether nobody reads the second result of a call."""
    module = script.module
    match module.parent(call):
        case cst.Subscript() as item:
            return takes_first(script, call, item)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            found = reads(script, name)
            return bool(found) and all(
                takes_first(script, one, module.parent(one)) for one in found
            )
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple(elements=[_, last]))]
            | [cst.AssignTarget(target=cst.List(elements=[_, last]))]
        ):
            return isinstance(last.value, cst.Name) and not reads(script, last.value)
    return False


def reads(script: Script, name: cst.Name) -> list[cst.Name]:
    """Return where a name may be read that is given a value."""
    binding = script.module.index.bound(name)
    return script.connected.uses.reads(binding) if binding else []


def takes_first(script: Script, node: cst.BaseExpression, item: cst.CSTNode | None) -> bool:
    """``node[0]``, read and not stored."""
    match item:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index() as index)]):
            above = script.module.parent(item)
            stored = isinstance(above, (cst.AssignTarget, cst.Del, cst.AugAssign))
            return value is node and script.value(index.value) == (Number(0),) and not stored
    return False
