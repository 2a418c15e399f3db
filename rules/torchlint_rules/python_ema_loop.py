"""A moving average of the parameters is kept by a Python loop over them.

## Why
A target network, a teacher or the averaged weights of a diffusion model follow the trained
parameters: `average = decay * average + (1 - decay) * parameter`, after each step. Written as a
loop, that is two to four small kernels for each parameter. `get_ema_multi_avg_fn(decay)` makes a
function that updates two lists of tensors in a few kernels; `AveragedModel` takes it too.

## Bad
    import torch

    def train(model, teacher, loader, optimizer):
        for x, y in loader:
            model(x.cuda(), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
            for average, parameter in zip(teacher.parameters(), model.parameters()):
                average.data.mul_(0.99).add_(parameter.data, alpha=0.01)

## Good
    import torch
    from torch.optim.swa_utils import get_ema_multi_avg_fn

    def train(model, teacher, loader, optimizer):
        for x, y in loader:
            model(x.cuda(), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
            get_ema_multi_avg_fn(0.99)(list(teacher.parameters()), list(model.parameters()), None)

## Leaves alone
- Averages that no training step is seen to keep, such as those that are kept once an epoch.
- Loops that copy, add up gradients, or mix by two weights that are not seen to be one together.
- Scripts for the CPU only, and projects that declare a torch older than 2.1.

## Fix safety
Unsafe: the results differ by rounding, and the function raises unless both models have the same
parameters, in the same dtype. There is a fix where the loop runs over `parameters()` of two models
and does nothing but update the average; none for a `state_dict()`, which holds counters as well,
nor under a training framework.

## Evidence
`torchlint bench TL604` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 32, layers 24: 2.90 ms and 2.23 ms, 1.30 x (1.28 to 1.32): faster; results as
  E1 allows.
- training step, width 384, layers 8: 6.82 ms and 6.08 ms, 1.12 x (1.08 to 1.16): faster; results as
  E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.optim`: "Weight Averaging (SWA and EMA)"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddImport, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import Tensor
from torchlint.syntax.line_layout import default_indent, indent_of, newline_of
from torchlint.training.averaging import averagings
from torchlint.training.frequency import Rate
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.averaging import Averaging
    from torchlint.training.script import Script

SINCE = Version("2.1")  # came with pytorch pull request 94820, a month after torch 2.0
MODULE, FUNCTION = "torch.optim.swa_utils", "get_ema_multi_avg_fn"
MAX_LINE = 100
HELP = (
    f"Give `{MODULE}.{FUNCTION}(decay)` two lists of tensors of one dtype, or keep an "
    f"`AveragedModel` with `multi_avg_fn={FUNCTION}(decay)`."
)
CHANGES = "the results differ by rounding, and the two must have the same parameters of one dtype"


def python_ema_loop(script: Script) -> Iterator[Finding]:
    """Find loops that update a moving average one parameter after the other, in every step."""
    target = script.settings.target
    if (target is not None and target < SINCE) or not script.connected.uses_gpu:
        return
    since = f" (from torch {SINCE} on)" if target is None else ""
    for found in averagings(script):
        frequency = script.frequency(found.loop)
        if frequency.rate is Rate.STEP:
            yield Finding(
                found.loop,
                f"the loop over `{script.module.brief(found.loop.iter)}` updates a moving average "
                f"one tensor after the other{often(frequency).replace(' ', ', ', 1)}: "
                f"`{FUNCTION}` does it in a few kernels{since}",
                fix(script, found),
                help=HELP,
            )


def fix(script: Script, found: Averaging) -> Fix | None:
    """Return the call that does what the loop does, where it does nothing else."""
    models, weight = parameters(found), found.weight
    is_anew = any(True for _ in script.module.index.below(weight, cst.Call))
    is_tensor = any(isinstance(one, Tensor) for one in script.value(weight))
    if not (models and found.alone) or is_anew or is_tensor or script.frameworks:
        return None
    average, model = (f"list({script.module.code(one)})" for one in models)
    code = laid_out(script, found.loop, f"{FUNCTION}({found.decay})", f"{average}, {model}, None")
    old = f"; torch below {SINCE} has no such function" if script.settings.target is None else ""
    rewrites = (Replace(found.loop, code), AddImport(MODULE, FUNCTION))
    return Fix(f"Call `{FUNCTION}`", Safety.UNSAFE, rewrites, CHANGES + old)


def parameters(found: Averaging) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``average.parameters()`` and ``model.parameters()`` of a loop over just these."""
    match found.loop.target, found.loop.iter:
        case (
            cst.Tuple(elements=[cst.Element(cst.Name(first)), cst.Element(cst.Name(second))]),
            cst.Call(
                func=cst.Name("zip"),
                args=[
                    cst.Arg(cst.Call(func=cst.Attribute(attr=cst.Name("parameters"))) as one),
                    cst.Arg(cst.Call(func=cst.Attribute(attr=cst.Name("parameters"))) as two),
                    *_,
                ],
            ),
        ):
            names = {first: one, second: two}
            if {found.target, found.source} == names.keys():
                return names[found.target], names[found.source]
    return None


def laid_out(script: Script, loop: cst.For, func: str, args: str) -> str:
    """Return a call as code, on several lines where one is too long."""
    indent = indent_of(script.module, loop)
    if len(f"{indent}{func}({args})") <= MAX_LINE:
        return f"{func}({args})"
    newline = newline_of(script.module)
    inner = f"{newline}{indent}{default_indent(script.module)}"
    return f"{func}({inner}{args}{newline}{indent})"
