"""A script multiplies matrices in full float32 where the GPU has TensorFloat-32.

## Why
GPUs from NVIDIA's Ampere on have units that multiply float32 matrices after rounding their elements
to TensorFloat-32: the range of float32, and 10 bits after the point.  Convolutions use them by
default, matrix products have not since torch 1.12: `torch.set_float32_matmul_precision("high")`
lets them.  Sums are still made in float32, and weights and gradients are still stored in it.

## Bad
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    import torch
    from torch import nn

    torch.set_float32_matmul_precision("high")

    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Leaves alone
- Scripts that choose a precision, by whatever name, and those that use autocast, half precision or
  double precision, as far as this file shows.
- Scripts for the CPU, and files that are not started as a script or do not train.
- Models that are made in other files, and those that are convolutions for the most part: these use
  TensorFloat-32 already, and what is multiplied at their end is small.
- Models of linear layers none of which is seen to hold half a million weights, or to be wider than
  512: a GPU takes longer to start such a product than to compute it.

Full precision that is asked for (`allow_tf32 = False`, `"highest"`) is reported as TL507b where
nothing beside it says why, and without a fix.  TL507c is a file that sets the precision both by the
old names (`allow_tf32`, `set_float32_matmul_precision`) and by those of torch 2.9
(`fp32_precision`): torch raises when it is asked for the one after the other was set.

## Fix safety
Unsafe: products are rounded to about three decimal digits, which training bears and other
computations, such as those of geometry or of small differences, do not.  On a GPU before Ampere,
or another maker's, the line changes nothing.

## Evidence
A CPU has nothing to show: a CPU has no TensorFloat-32.

On a GPU: not measured yet.

## References
- PyTorch documentation, "CUDA semantics: TensorFloat-32 (TF32) on Ampere (and later) devices", and
  `torch.set_float32_matmul_precision`
- PyTorch documentation, "Numerical accuracy"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.debugging import in_test
from torchlint.analysis.float32 import NEW, OLD, Switch, product, switches, turns_off
from torchlint.analysis.mentions import words
from torchlint.analysis.reasons import explained
from torchlint.analysis.scripts import at_the_top, is_script
from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

FIRST = Version("1.12")  # before it, matrix products used TensorFloat-32 by default
CHOSEN = ("float32_matmul_precision", "fp32_precision", "tf32")
OTHER = re.compile(
    rf"autocast|scaler|{words('apex', 'amp')}|f(loat)?16|\.half\(|mixed_precision|precision="
    r"|\.double\((?<!\.detach\(\)\.double\()|torch\.(float64|double|complex)|set_default_dtype"
)
LINE = 'torch.set_float32_matmul_precision("high")'
CHANGES = "matrix products are rounded to about three decimal digits on GPUs from Ampere on"


def tf32_disabled(program: Program) -> Iterator[Finding]:
    """Find scripts that leave TensorFloat-32 off, turn it off, or mix its switches."""
    if any(word in program.lowered for word in CHOSEN):
        found = list(switches(program))
        yield from mixed(program, found)
        yield from asked_for(program, found)
    elif not OTHER.search(program.lowered) and (program.target is None or program.target >= FIRST):
        yield from left_off(program)


def left_off(program: Program) -> Iterator[Finding]:
    """The script says nothing: matrix products are computed in full float32."""
    if not (program.devices.gpu and program.devices.named and program.loops.leads):
        return
    node = product(program) if is_script(program) else None
    if node is None or in_test(program, node) or not program.reaches(FIRST):
        return
    since = " (from torch 1.12 on)" if program.target is None else ""
    yield Finding(
        node,
        f"`{program.brief(node)}` and the other matrix products of this training are computed in "
        f"full float32: TensorFloat-32 is off by default{since}",
        None if program.frameworks else fix(program),
        help=f"For GPUs from Ampere on: {LINE} or, with the Trainer of transformers, "
        "TrainingArguments(tf32=True).",
    )


def fix(program: Program) -> Fix | None:
    """Return the line below the imports; None where torch has no plain name there."""
    line = at_the_top(program, LINE)
    if line is None:
        return None
    return Fix('Set the precision to "high"', Safety.UNSAFE, (line,), CHANGES)


def asked_for(program: Program, found: list[Switch]) -> Iterator[Finding]:
    """TL507b: full precision is asked for, and nothing beside it says why."""
    if OTHER.search(program.lowered) or not program.loops.leads:
        return
    for switch in found:
        node = switch.node
        if turns_off(switch) and always(program, node) and not explained(program, node):
            yield Finding(
                switch.node,
                f"`{program.brief(switch.node)}` keeps TensorFloat-32 from being used in training",
                help="Say why in a comment beside it, or let the GPU use it.",
                case="b",
            )


def always(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node stands under no condition of its module or function."""
    for above in program.index.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return not in_test(program, node)
        if isinstance(above, cst.BaseCompoundStatement):
            return False
    return not in_test(program, node)


def mixed(program: Program, found: list[Switch]) -> Iterator[Finding]:
    """TL507c: the switches of before torch 2.9 beside those of after."""
    news = [switch for switch in found if switch.name in NEW and switch.value is not None]
    for switch in found:
        family = OLD.get(switch.name)
        others = [new for new in news if NEW[new.name] in ("", family)]
        together = [new for new in others if not apart(program, new.node, switch.node)]
        if family is None or not together:
            continue
        yield Finding(
            switch.node,
            f"`{program.brief(switch.node)}` beside `{program.brief(together[0].node)}`: torch "
            "refuses to mix the two ways to set this precision, and raises when it is asked for it",
            severity=Severity.WARNING,
            case="c",
            help="Use one of the two ways in the whole program.",
        )


def apart(program: Program, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether only one of two nodes runs: they stand in two branches of a condition."""
    for above in program.index.ancestors(one):
        if isinstance(above, cst.If | cst.Try) and program.index.inside(other, above):
            return not program.index.inside(other, above.body) or not program.index.inside(
                one, above.body
            )
        if isinstance(above, cst.FunctionDef) and not program.index.inside(other, above):
            return True
    return False
