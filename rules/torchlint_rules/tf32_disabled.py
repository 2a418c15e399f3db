"""A script multiplies matrices in full float32 where the GPU has TensorFloat-32.

## Why
GPUs from NVIDIA's Ampere on have units that multiply float32 matrices after rounding their elements
to TensorFloat-32: the range of float32, and 10 bits after the point. Sums, weights and gradients
stay in float32. Convolutions use them by default, matrix products have not since torch 1.12:
`torch.set_float32_matmul_precision("high")` lets them.

TL507b is full precision that is asked for (`allow_tf32 = False`, `"highest"`): it may be meant.

## Bad
    import torch
    from torch import nn

    model = nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda()
    for x, y in loader:
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()

## Good
    import torch
    from torch import nn

    torch.set_float32_matmul_precision("high")

    model = nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda()
    for x, y in loader:
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()

## Leaves alone
- Trainings for which a precision is set, also by an option or in a connected file, and those with
  mixed precision or another default type.
- Models that are cast to half or double precision, that run on the host, or in which no layer or
  function is seen to multiply matrices.

No fix where no product is seen to be large (convolutions use TensorFloat-32 already; a linear layer
needs half a million weights), for TL507b, and with a framework.

## Fix safety
Unsafe: products are rounded to about three decimal digits, which training bears and other
computations, such as those of geometry or of small differences, do not. On a GPU before Ampere, or
another maker's, the line changes nothing.

## Evidence
A CPU has nothing to show: a CPU has no TensorFloat-32.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.set_float32_matmul_precision`, and "CUDA semantics: TensorFloat-32
  (TF32) on Ampere (and later) devices"
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Number
from torchlint.training.step_models import firsts
from torchlint_rules.top_line import at_the_top

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.parts import Part
    from torchlint.training.script import Script
    from torchlint.training.settings import Setting
    from torchlint.training.step_models import StepModel

FIRST = Version("1.12")  # before it, matrix products used TensorFloat-32 by default
SWITCHES = (
    "torch.set_float32_matmul_precision",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.fp32_precision",
)
LINEAR = "torch.nn.Linear"
PRODUCTS = frozenset(
    """
    Linear matmul mm bmm addmm baddbmm einsum scaled_dot_product_attention
    multi_head_attention_forward MultiheadAttention Transformer TransformerEncoder
    TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer
    """.split()
)
# Weights of a layer from which on the product takes longer than its launch, and the larger side.
LARGE, WIDE = 512 * 1024, 512
LINE = 'torch.set_float32_matmul_precision("high")'
CHANGES = "matrix products are rounded to about three decimal digits on GPUs from Ampere on"


def tf32_disabled(script: Script) -> Iterator[Finding]:
    """Find scripts that leave TensorFloat-32 off, or turn it off."""
    told, target = told_in(script), script.settings.target
    if all(one.is_off for one in told):
        yield from asked_for(script, told)
    if target is None or target >= FIRST:
        yield from left_off(script)


def told_in(script: Script, *files: int) -> list[Setting]:
    """Return what a script, other files, or what runs with them, say of TensorFloat-32."""
    told = script.connected.switches(script.file, *files)
    return [one for one in told if one.name in SWITCHES]


def left_off(script: Script) -> Iterator[Finding]:
    """The script says nothing: matrix products are computed in full float32."""
    precisions = script.connected.precisions
    models = firsts(
        script.connected.step_models,
        script.file,
        lambda one: (
            bool(products(script, one))
            and precisions.in_float32(one)
            and not told_in(script, one.run.file)
        ),
    )
    since = " (from torch 1.12 on)" if script.settings.target is None else ""
    for model in models:
        is_large = any(is_large_product(script, part) for part in products(script, model))
        line = at_the_top(script, LINE) if is_large and not script.frameworks else None
        yield Finding(
            model.node,
            f"the matrix products of `{script.module.brief(model.node)}` are computed in "
            f"full float32: TensorFloat-32 is off by default{since}",
            Fix('Set the precision to "high"', Safety.UNSAFE, (line,), CHANGES) if line else None,
            help=f"For GPUs from Ampere on: {LINE} or, with the Trainer of transformers, "
            "TrainingArguments(tf32=True).",
        )


def products(script: Script, model: StepModel) -> list[Part]:
    """Return what multiplies matrices in a model."""
    return [
        one
        for one in script.connected.parts.of(model.value)
        if one.name.startswith("transformers.")
        or (one.name.startswith("torch.") and one.name.rpartition(".")[2] in PRODUCTS)
    ]


def is_large_product(script: Script, part: Part) -> bool:
    """Whether a linear layer is seen to be large; other products mostly are."""
    if part.name != LINEAR or part.call is None:
        return part.name != LINEAR
    call, names = script.connected.evaluation.node(part.call), ("in_features", "out_features")
    assert isinstance(call, cst.Call)
    given = given_to(script.connected.evaluation, call, names)[0]
    values = [one for name in names if name in given for one in given[name].value]
    sides = [one.value or 0 for one in values if isinstance(one, Number)]
    return len(sides) == len(names) and math.prod(sides) >= LARGE and max(sides) > WIDE


def asked_for(script: Script, told: list[Setting]) -> Iterator[Finding]:
    """TL507b: full precision is asked for, and nothing else is."""
    connected = script.connected
    together = connected.files.together(script.file)
    trains = any(step.file in together for step in connected.steps)
    if connected.precisions.are_mixed(script.file) or not trains:
        return
    for one in told:
        if one.file == script.file and script.frequency(one.node).guard is None:
            yield Finding(
                one.node,
                f"`{script.module.brief(one.node)}` keeps TensorFloat-32 from being used in "
                "training",
                help="Let the GPU use it where three decimal digits of each factor are enough.",
                case="b",
            )
