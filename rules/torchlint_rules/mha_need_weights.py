"""Attention computes weights that nobody reads, and cannot use a fused kernel for it.

## Why
`nn.MultiheadAttention` gives the output and, by default, the attention weights, averaged over the
heads.  To give them it has to compute the whole matrix of weights and keep it for the backward
pass.  With `need_weights=False` it uses `scaled_dot_product_attention` (torch 2.0 and newer), whose
kernels for a GPU never write that matrix to memory; older versions save the average.

## Bad
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

        def forward(self, x):
            attended, _ = self.attention(x, x, x)
            return x + attended

## Good
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

        def forward(self, x):
            attended, _ = self.attention(x, x, x, need_weights=False)
            return x + attended

## Leaves alone
- Calls whose second result is read, stored, returned or handed on.
- Calls that pass `need_weights`, by keyword or position, or may do so by a dictionary.
- Layers that are not seen to be torch's own: subclasses and parameters that nobody is seen to pass.
- Layers that have a forward hook, which may read the weights.

Where a hook is registered on what nobody knows, and where the call is not seen to run in every
training step, it is information; in the first case without a fix.

## Fix safety
Unsafe: rounding differs.  On a GPU the fused kernels draw other random numbers for dropout.  Where
a mask allows nothing at all the output is zero (in training) instead of NaN.

## Evidence
`torchlint bench TL713` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, tokens 256, width 64: 10.2 ms and 8.43 ms, 1.21 x (1.16 to 1.25): faster; results
  as E1 allows.
- training step, tokens 32, width 128: 3.46 ms and 3.38 ms, 1.02 x (1.01 to 1.04): no measurable
  change; results as E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.nn.MultiheadAttention`: "Set need_weights=False to use the
  optimized scaled_dot_product_attention and achieve the best performance for MHA"
- PyTorch documentation, `torch.nn.functional.scaled_dot_product_attention`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.semantics.values import Dictionary, Number, Object, Unknown
from torchlint.syntax.calls import keywords, positional
from torchlint.training.models import made_by
from torchlint_rules.judging import severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script

LAYER = "torch.nn.MultiheadAttention"
PLACE, FEWEST = 4, 2  # of `need_weights`; query and key at least
HOOKS = ("register_forward_hook", "register_module_forward_hook")
CHANGES = "rounding; the random numbers of dropout on a GPU; zero where a mask allows nothing"


def mha_need_weights(script: Script) -> Iterator[Finding]:
    """Find calls of attention layers whose weights are thrown away."""
    for call in script.module.index.of(cst.Call):
        value = script.value(call.func)
        if not value or not all(isinstance(one, Object) and one.kind == LAYER for one in value):
            continue
        if any(one.call is None for one in value if isinstance(one, Object)):
            continue
        if takes_weights(script, call) or not discards(script, call):
            continue
        hooked = is_hooked(script, call)
        if hooked:
            continue
        yield Finding(
            call,
            f"`{script.module.brief(call)}` computes attention weights that nobody reads",
            None if hooked is None else fix(call),
            severity(script.frequency(call), hooked is False),
            help="Without them it uses scaled_dot_product_attention (torch 2.0 and newer).",
        )


def takes_weights(script: Script, call: cst.Call) -> bool:
    """Whether a call says whether it needs the weights, or may do so."""
    named = set(keywords(call))
    for arg in call.args:
        if arg.star:
            match script.value(arg.value):
                case (Dictionary(entries=entries, element=()),) if entries:
                    named |= {key for key, _ in entries}
                case _:
                    return True
    return len(positional(call)) > PLACE or "need_weights" in named or len(call.args) < FEWEST


def discards(script: Script, call: cst.Call) -> bool:
    """Whether nobody reads the second result of a call."""
    module = script.module
    match module.parent(call):
        case cst.Subscript() as item:
            return takes_first(script, call, item)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            uses = reads(script, name)
            return bool(uses) and all(takes_first(script, one, module.parent(one)) for one in uses)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() | cst.List() as pair)]):
            last = pair.elements[-1]
            is_pair = len(pair.elements) == 2
            return is_pair and isinstance(last.value, cst.Name) and not reads(script, last.value)
    return False


def reads(script: Script, name: cst.Name) -> list[cst.Name]:
    """Return where a name may be read that is given a value, in functions inside as well."""
    index = script.module.index
    binding = index.bound(name)
    assert binding is not None
    word, owner = name.value, binding.scope
    own = script.connected.uses.reads(binding)
    inner = [
        one
        for one in index.named[word]
        if index.scope(one) is not owner and index.scope(one).owner(word) is owner
    ]
    return [*own, *(one for one in inner if one not in own)]


def takes_first(script: Script, node: cst.BaseExpression, item: cst.CSTNode | None) -> bool:
    """``node[0]``, read and not stored."""
    match item:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index() as index)]):
            above = script.module.parent(item)
            stored = isinstance(above, (cst.AssignTarget, cst.Del, cst.AugAssign))
            return value is node and script.value(index.value) == (Number(0),) and not stored
    return False


def is_hooked(script: Script, call: cst.Call) -> bool | None:
    """Whether a hook sees what a layer gives; None where one is put on what nobody knows."""
    uses = script.connected.uses
    layers = [made_by(one) for one in script.value(call.func)]
    found: bool | None = False
    for module in script.connected.files.modules:
        for name in (name for hook in HOOKS for name in module.index.named.get(hook, ())):
            above = module.parent(name)
            value = uses.value(above.value) if isinstance(above, cst.Attribute) else ()
            if any(made_by(one) in layers for one in value if made_by(one) is not None):
                return True
            if not value or any(isinstance(one, Unknown) for one in value):
                found = None
    return found


def fix(call: cst.Call) -> Fix:
    """Return the call that asks for no weights."""
    rewrite = AddArgument(call, "need_weights", "False")
    return Fix("Pass need_weights=False", Safety.UNSAFE, (rewrite,), changes=CHANGES)
