"""A moving average of the parameters is kept by a Python loop over them.

## Why
A target network, a teacher or the averaged weights of a diffusion model follow the parameters that
are trained: `average = decay * average + (1 - decay) * parameter`, after each step.  Written as a
loop that is two to four small kernels for each parameter, and the interpreter between them: a
network of 300 parameters costs a thousand kernels that the GPU waits for.  torch has the update of
all of them at once, in a few kernels: `get_ema_multi_avg_fn(decay)` makes a function of two lists
of tensors, which `AveragedModel` can be given as well (`multi_avg_fn=`).

## Bad
    import torch

    def train(model, teacher, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for average, parameter in zip(teacher.parameters(), model.parameters()):
                average.data.mul_(0.99).add_(parameter.data, alpha=0.01)

## Good
    import torch
    from torch.optim.swa_utils import get_ema_multi_avg_fn

    def train(model, teacher, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            get_ema_multi_avg_fn(0.99)(list(teacher.parameters()), list(model.parameters()), None)

## Leaves alone
- Averages that no training step is seen to keep: once an epoch, and in functions that nobody is
  seen to call.
- Loops that copy (`load_state_dict` does that), add up gradients, or mix by two weights that are
  not seen to be one together: other averages than the exponential one.
- Averages that the loop moves to another device.
- Scripts for the CPU only, where the step itself takes most of the time.
- Projects that declare a torch older than 2.1.

## Fix safety
Unsafe: the results differ by rounding, and the two models must have the same parameters, one by
one, in the same dtype: where `zip` stops at the shorter list, or the loop converts, the function
raises.  There is a fix where the loop runs over `parameters()` of two models, and does nothing but
update the average.  There is none for a `state_dict()`, which holds counters as well
(`AveragedModel(model, multi_avg_fn=..., use_buffers=True)` takes them apart by dtype), nor in files
that convert models to another dtype, shard them or use a training framework.

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
- PyTorch documentation, `torch.optim.swa_utils.AveragedModel`
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddImport, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import Array, Library, Tensor
from torchlint.syntax.calls import keyword_of
from torchlint.syntax.chains import dotted
from torchlint.syntax.line_layout import default_indent, indent_of
from torchlint.training.averaging import averagings, rest_of_one
from torchlint.training.frequency import Rate
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.averaging import Averaging
    from torchlint.training.script import Script

SINCE = Version("2.1")  # came with pytorch pull request 94820, a month after torch 2.0
MODULE, FUNCTION = "torch.optim.swa_utils", "get_ema_multi_avg_fn"
# Models that others hold a part of, or convert.
OTHERS = (
    "torch.distributed.fsdp",
    "torch.distributed._composable",
    "deepspeed",
    "torch_xla",
    "apex",
)
CONVERTS = ("half", "bfloat16", "double", "type", "to")
MAX_LINE = 100
HELP = (
    f"Give `{MODULE}.{FUNCTION}(decay)` two lists of tensors of one dtype, or keep an "
    f"`AveragedModel` with `multi_avg_fn={FUNCTION}(decay)`."
)
CHANGES = "the results differ by rounding, and the two must have the same parameters"


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
    lists, decay = models(found), written(script, found)
    if lists is None or decay is None or not found.alone or is_refused(script, found.loop):
        return None
    args = [f"list({script.module.code(one)})" for one in lists]
    old = f"; torch below {SINCE} has no such function" if script.settings.target is None else ""
    return Fix(
        f"Call `{FUNCTION}`",
        Safety.UNSAFE,
        (
            Replace(found.loop, laid_out(script, found.loop, f"{FUNCTION}({decay})", args)),
            AddImport(MODULE, FUNCTION),
        ),
        CHANGES + old,
    )


def is_refused(script: Script, loop: cst.For) -> bool:
    """Whether the function may not be had, or not do the same, or the loop is needed after it."""
    named = script.module.index.named.get(FUNCTION, ())
    return bool(
        script.frameworks
        or any(name.startswith(OTHERS) for name in imported(script))
        or converts(script)
        or any(
            script.name(name) != f"{MODULE}.{FUNCTION}"
            for name in named
            if not isinstance(script.module.parent(name), cst.ImportAlias)
        )
        or is_used_after(script, loop)
    )


def imported(script: Script) -> Iterator[str]:
    """Yield the names of what the file imports."""
    for alias in script.module.index.of(cst.ImportAlias):
        parent = script.module.parent(alias)
        home = parent.module if isinstance(parent, cst.ImportFrom) else None
        yield dotted(alias.name) if home is None else f"{dotted(home)}.{dotted(alias.name)}"


def converts(script: Script) -> bool:
    """Whether something that may be a model gets another dtype: its average may keep its own."""
    for name in (one for word in CONVERTS for one in script.module.index.named.get(word, ())):
        func = script.module.parent(name)
        call = func and script.module.parent(func)
        if isinstance(func, cst.Attribute) and isinstance(call, cst.Call) and call.func is func:
            is_dtyped = name.value != "to" or any(is_dtype(script, arg) for arg in call.args)
            if is_dtyped and not is_array(script, func.value):
                return True
    return False


def is_array(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression may be a tensor or an array."""
    return any(isinstance(one, (Tensor, Array)) for one in script.value(node))


def is_dtype(script: Script, arg: cst.Arg) -> bool:
    """Whether an argument of `to` is a dtype, by its keyword or its value."""
    named = keyword_of(arg) == "dtype"
    return named or any(
        isinstance(one, Library) and one.name.startswith("torch.")
        for one in script.value(arg.value)
    )


def is_used_after(script: Script, loop: cst.For) -> bool:
    """Whether the last tensors of a loop are used behind it."""
    return any(
        not script.module.index.inside(use, loop)
        and script.module.index.bound(use) is None
        and any(
            script.module.index.inside(one.node, loop)
            for one in script.connected.evaluation.bindings(use)
        )
        for name in script.module.index.below(loop.target, cst.Name)
        for use in script.module.index.named.get(name.value, ())
    )


def models(found: Averaging) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``average.parameters()`` and ``model.parameters()`` of a loop over just these."""
    match found.loop.target, found.loop.iter:
        case (
            cst.Tuple(elements=[cst.Element(cst.Name(first)), cst.Element(cst.Name(second))]),
            cst.Call(func=cst.Name("zip"), args=[cst.Arg(one), cst.Arg(two), *strict]),
        ) if is_parameters(one) and is_parameters(two) and all(arg.keyword for arg in strict):
            names = found.mix.target, found.mix.source
            if names == (second, first):
                return two, one
            return (one, two) if names == (first, second) else None
        case _:
            return None


def is_parameters(node: cst.BaseExpression) -> bool:
    """``model.parameters()``: floating-point tensors, but for a rare counter."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("parameters")), args=[]):
            return True
        case _:
            return False


def written(script: Script, found: Averaging) -> str | None:
    """Return the decay as code, if it is a number that is the same in all turns of the loop."""
    weight = found.mix.weight
    rest = rest_of_one(weight)
    if not is_number(script, rest or weight):
        return None
    if not found.mix.of_source:
        return bare(script, weight)
    if isinstance(weight, cst.Float):
        return str(1 - Decimal(str(weight.evaluated_value)))
    return bare(script, rest) if rest is not None else f"1 - {bare(script, weight)}"


def is_number(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is a literal or names a value that nothing says is a tensor."""
    if isinstance(node, cst.Integer | cst.Float):
        return True
    return isinstance(node, cst.Name | cst.Attribute | cst.Subscript) and (
        not is_array(script, node)
        and not any(True for _ in script.module.index.below(node, cst.Call))
    )


def bare(script: Script, node: cst.BaseExpression) -> str:
    """Return the code of an expression on one line, without brackets around it."""
    return " ".join(script.module.bare(node).split())


def laid_out(script: Script, loop: cst.For, func: str, args: list[str]) -> str:
    """Return a call as code, on several lines where one is too long."""
    args = [*args, "None"]
    line = f"{func}({', '.join(args)})"
    indent = indent_of(script.module, loop)
    if len(indent + line) <= MAX_LINE:
        return line
    newline = script.module.concrete.module.default_newline
    inner = f"{newline}{indent}{default_indent(script.module)}"
    return f"{func}({inner}{', '.join(args)}{newline}{indent})"
