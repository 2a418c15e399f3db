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
- Layers that are not seen to be torch's own: subclasses, parameters, members of a `ModuleList`.
- Files that register forward hooks, which may read the weights, and layers that another file of the
  project names which does so.

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

from torchlint.analysis.arguments import literal
from torchlint.analysis.hooks import HOOKS, is_hooked_elsewhere
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

KIND = "MultiheadAttention"
LAYER = f"torch.nn.{KIND}"
CHANGES = "rounding; the random numbers of dropout on a GPU; zero where a mask allows nothing"


def mha_need_weights(program: Program) -> Iterator[Finding]:
    """Find calls of attention layers whose weights are thrown away."""
    if any(hook in program.text for hook in HOOKS):
        return
    names = set(layer_names(program))
    for call in program.index.of(cst.Call) if names else ():
        if not is_candidate(program, call, names) or not is_attention(program, call):
            continue
        if (
            program.argument(call, "need_weights", f"{LAYER}.forward").absent
            and discards(program, call)
            and not is_hooked_elsewhere(program, dotted(call.func).rpartition(".")[2], KIND)
        ):
            yield Finding(
                call,
                f"`{program.brief(call)}` computes attention weights that nobody reads",
                Fix(
                    "Pass need_weights=False",
                    Safety.UNSAFE,
                    (AddArgument(call, "need_weights", "False"),),
                    changes=CHANGES,
                ),
                help="Without them it uses scaled_dot_product_attention (torch 2.0 and newer).",
            )


def layer_names(program: Program) -> Iterator[str]:
    """Yield the names that attention layers of the file are kept under."""
    for layer in program.calls_of(LAYER):
        for above in program.index.ancestors(layer):
            targets = above.targets if isinstance(above, cst.Assign) else ()
            yield from (dotted(item.target).rpartition(".")[2] for item in targets)


def is_candidate(program: Program, call: cst.Call, names: set[str]) -> bool:
    """Whether a call may be one of a layer of these names, and its result is taken apart."""
    return (
        len(call.args) > 1
        and dotted(call.func).rpartition(".")[2] in names
        and isinstance(program.parent(call), cst.Assign | cst.Subscript)
    )


def is_attention(program: Program, call: cst.Call) -> bool:
    """Whether torch's own attention layer is called: one that this file makes."""
    value = program.value(call.func)
    return value.kind is Kind.MODULE and value.type == LAYER and value.made is not None


def discards(program: Program, call: cst.Call) -> bool:
    """Whether nobody reads the second result of a call."""
    match program.parent(call):
        case cst.Subscript() as item:
            return takes_first(program, call, item)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            return uses_first_only(program, name)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() | cst.List() as pair)]):
            return len(pair.elements) == 2 and is_unread(program, pair.elements[1])
        case _:
            return False


def takes_first(program: Program, node: cst.BaseExpression, item: cst.CSTNode | None) -> bool:
    """``node[0]``, read and not stored."""
    match item:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index() as index)]):
            stored = isinstance(program.parent(item), cst.AssignTarget | cst.Del | cst.AugAssign)
            return value is node and literal(index.value) == "0" and not stored
        case _:
            return False


def uses_first_only(program: Program, name: cst.Name) -> bool:
    """Whether a pair that is kept under a name is only ever used as ``name[0]``."""
    binding = program.index.bound(name)
    uses = [] if binding is None else list(uses_of(program, binding))
    return bool(uses) and all(takes_first(program, use, program.parent(use)) for use in uses)


def is_unread(program: Program, element: cst.BaseElement) -> bool:
    """Whether a target is a name that nobody reads."""
    target = element.value
    binding = program.index.bound(target) if isinstance(target, cst.Name) else None
    return binding is not None and not any(uses_of(program, binding))
