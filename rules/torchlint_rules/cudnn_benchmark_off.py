"""Convolutions on inputs of one size use the algorithms that cuDNN guesses.

## Why
cuDNN has several algorithms for a convolution, and which is the fastest depends on the shapes and
on the GPU.  By default it chooses by a rule of thumb.  With `torch.backends.cudnn.benchmark = True`
the first call with new shapes tries the algorithms, and the fastest is remembered.  That pays where
the shapes stay the same, as in a training on images of one size.

## Bad
    import torch
    from torch import nn
    from torchvision import datasets, transforms

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)

    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    import torch
    from torch import nn
    from torchvision import datasets, transforms

    torch.backends.cudnn.benchmark = True

    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.Flatten(), nn.Linear(21632, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, 64, num_workers=4, drop_last=True)

    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Leaves alone
- Scripts that speak of cuDNN or of determinism, here or in a file that they import, and those
  that call a function to make runs repeatable which is not seen.
- Inputs that are not seen to have one size (a data set of such images, a crop, a resize of both
  sides), or may have several: a `collate_fn`, several scales, detection.
- Models without convolutions in two or three dimensions, or with the few that cut an image into
  parts for a transformer.
- Scripts for the CPU, and files that are not started as a script, or do not train.
- `benchmark = False` beside `deterministic`, a seed, a condition or a comment: that is meant.

## Fix safety
Unsafe: which algorithm is the fastest can differ from run to run, and the results with it, by
rounding.  The first step with each shape takes longer, that of a last and smaller batch as well
(`drop_last=True` avoids it), and a faster algorithm may take more memory.

## Evidence
A CPU has nothing to show: cuDNN runs on a GPU only.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Enable cuDNN auto-tuner"
- PyTorch documentation, `torch.backends.cudnn.benchmark`, and "Reproducibility: CUDA convolution
  benchmarking"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.convolutions import convolutional, fixed_shapes
from torchlint.analysis.debugging import in_test, on_request
from torchlint.analysis.loops import Role
from torchlint.analysis.reasons import explained
from torchlint.analysis.scripts import at_the_top, is_script
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.loops import Loop
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

SWITCH = "torch.backends.cudnn.benchmark"
LINE = f"{SWITCH} = True"
CHOSEN = re.compile(r"cudnn|deterministic|max.autotune")
REPEATABLE = re.compile(r"seed|determin|reproduc", re.IGNORECASE)
CHANGES = (
    "which algorithm is the fastest can differ from run to run, and the rounding with it; the "
    "first step with each shape takes longer, as does a smaller last batch; it may need more memory"
)


def cudnn_benchmark_off(program: Program) -> Iterator[Finding]:
    """Find trainings of convolutions for which cuDNN may not look for the fastest algorithm."""
    if not CHOSEN.search(program.text):
        yield from left_off(program)
    elif "deterministic" not in program.text:
        yield from told(program)


def left_off(program: Program) -> Iterator[Finding]:
    """The script says nothing."""
    model = model_for_it(program)
    if model is None or chosen_elsewhere(program):
        return
    line = at_the_top(program, LINE)
    yield Finding(
        model,
        f"the convolutions of `{program.brief(model)}` use the algorithms that cuDNN guesses, "
        "though their inputs have one size",
        None if line is None else fix(program, f"Set `{LINE}`", line),
        help=f"{LINE} tries the algorithms once for each shape, and keeps the fastest.",
    )


def told(program: Program) -> Iterator[Finding]:
    """``benchmark = False``, and nothing says why."""
    for node in program.index.of(cst.Attribute):
        if node.attr.value != "benchmark" or program.qualified(node) != SWITCH:
            continue
        target = program.parent(node)
        statement = None if target is None else program.parent(target)
        if not isinstance(statement, cst.Assign) or literal(statement.value) != "False":
            continue
        if is_meant(program, statement) or (model := model_for_it(program)) is None:
            continue
        yield Finding(
            statement,
            f"`{program.brief(statement)}` keeps cuDNN from trying which algorithm is the fastest "
            f"for the convolutions of `{program.brief(model)}`, though their inputs have one size",
            fix(program, "Set it to True", Replace(statement.value, "True")),
            help="Say why in a comment beside it, or let cuDNN try.",
        )


def model_for_it(program: Program) -> cst.Call | None:
    """Return the call that builds a model of convolutions which the script trains on a GPU."""
    if not (program.devices.named and fixed_shapes(program)):
        return None
    model = convolutional(program)
    if model is None or in_test(program, model):
        return None
    return model if trains(program) and is_script(program) and program.devices.gpu else None


def trains(program: Program) -> bool:
    """Whether a loop of the file trains, by itself or by what it calls."""
    loops: list[Loop] = [*program.index.of(cst.For), *program.index.of(cst.While)]
    return any(program.loops.role(loop) in (Role.TRAIN, Role.EPOCH) for loop in loops)


def chosen_elsewhere(program: Program) -> bool:
    """Whether another file may make the choice: one of this project near by, or one not seen."""
    for call in program.index.of(cst.Call):
        last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        if isinstance(last, cst.Name) and REPEATABLE.search(last.value) and unseen(program, call):
            return True
    if program.project is None or program.path is None:
        return False
    imports = program.project.imports
    return any(CHOSEN.search(imports.text(path)) for path in imports.related(str(program.path)))


def unseen(program: Program, call: cst.Call) -> bool:
    """Whether a call runs a function that is neither torch's nor one that can be read."""
    name = program.qualified(call.func)
    if not name or name.startswith(("torch.", "numpy.", "random.", ".")):
        return False
    return program.calls.target(call) is None and program.calls.elsewhere(call) is None


def is_meant(program: Program, statement: cst.Assign) -> bool:
    """Whether the switch was turned off for a reason."""
    function = program.function(statement)
    place: cst.CSTNode = program.module if function is None else function
    seeds = any(
        REPEATABLE.search(program.code(call.func)) for call in program.index.below(place, cst.Call)
    )
    named = function is not None and REPEATABLE.search(function.name.value) is not None
    return seeds or named or on_request(program, statement) or explained(program, statement)


def fix(program: Program, title: str, rewrite: Rewrite) -> Fix | None:
    """Return the fix; a framework has its own switch."""
    if program.frameworks:
        return None
    return Fix(title, Safety.UNSAFE, (rewrite,), CHANGES)
