"""A model is trained kernel by kernel, without a compiler.

## Why
Each operation of a model is a kernel that reads its inputs from the GPU's memory and writes its
result there, and each is started from Python.  `torch.compile` (torch 2.0) follows what the model
does and makes few kernels of many: what one operation computes goes to the next without a way
through memory, and without Python.  How much that gives depends on the model: much where there are
many small operations, little where large products and convolutions take the time.
`model.compile()` compiles a model in place: it keeps its class, its attributes and the keys of its
`state_dict`.

## Bad
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))

        def forward(self, x):
            return self.layers(x / x.norm(dim=1, keepdim=True))

    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))

        def forward(self, x):
            return self.layers(x / x.norm(dim=1, keepdim=True))

    model = Net().cuda()
    model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Leaves alone
- Files that speak of compiling, TorchScript, TensorRT or XLA, as an option too, and files near
  those that call torch.compile.
- Scripts for the CPU, for torch below 2.0 (as declared, or by what they use: `torch._six`), or
  with loops of a few steps only, and files that are not started as a script.
- Models that are not seen to be torch's modules, and those that training calls by a method
  (`model.loss(x)`).
- What the compiler stumbles over or gains nothing from: values read in a module (`.item()`), a
  number that it counts up (`self.calls += 1`), for each value of which it is compiled anew, second
  derivatives, functions with a backward pass of their own, recurrent layers, hooks (those of
  `weight_norm` and `spectral_norm` too, and in files that the model's imports), `DataParallel`,
  sharded, sparse and quantised models, kernels of other libraries.
- Shapes that change from step to step: a `collate_fn`, buckets of sequences of like length
  (torchtext), padded sequences and their lengths, graphs, detection, several scales.

Training frameworks have their own switch, which is advised where there is one:
`TrainingArguments(torch_compile=True)` of transformers, `Accelerator(dynamo_backend="inductor")` of
Accelerate.

## Fix safety
Unsafe: results differ by rounding, and dropout draws other random numbers.  The first steps take
long, as each new combination of shapes does, and a C++ compiler and Triton have to be there, and a
GPU of compute capability 7.0 or newer.  Whether it pays has to be measured.  The line goes behind
what builds and moves the model, before `DistributedDataParallel` wraps it.  There is no fix where
several models are trained, where the model is not a local name, or for a torch that may be too old
for the method.

## Evidence
A CPU has nothing to show: on a CPU it needs a C++ compiler, which many machines lack.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.compile`, `torch.nn.Module.compile`, and "Where to apply
  torch.compile?"
- PyTorch tutorial, "Introduction to torch.compile"
- Transformers documentation, `TrainingArguments`; Accelerate documentation, `Accelerator`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.analysis.compilation import (
    compilable,
    hindered,
    is_called,
    place,
    speaks_of_compiling,
    trains_long,
)
from torchlint.analysis.debugging import in_test
from torchlint.analysis.scripts import is_script
from torchlint.analysis.trained import built_by, trained_models
from torchlint.edits.fix import Fix, Safety
from torchlint.rule import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.trained import Trained

FIRST = Version("2.0")
METHOD = Version("2.2")  # has `Module.compile` for sure
OWN = {
    "transformers.TrainingArguments": (("torch_compile", "use_cpu"), "torch_compile=True"),
    "accelerate.Accelerator": (
        ("dynamo_backend", "dynamo_plugin", "cpu"),
        'dynamo_backend="inductor"',
    ),
}
MEASURE = "The first steps take long: measure whether the rest of the training makes up for it."


def no_torch_compile(program: Program) -> Iterator[Finding]:
    """Find models that are trained without a compiler."""
    if program.target is not None and program.target < FIRST:
        return
    if program.frameworks:
        yield from advice(program)
    else:
        yield from finding(program)


def finding(program: Program) -> Iterator[Finding]:
    """Report the first model that could be compiled."""
    models = list(trained_models(program))
    if not models or speaks_of_compiling(program) or not trains_on_gpu(program):
        return
    could = [model for model in models if compilable(program, model) and is_called(program, model)]
    if not could or in_test(program, could[0].optimizer):
        return
    if not program.reaches(FIRST):
        return
    built = built_by(program, could[0].node)
    are = "and the other models are" if len({program.brief(m.node) for m in models}) > 1 else "is"
    since = " (from torch 2.0 on)" if program.target is None else ""
    yield Finding(
        built or could[0].optimizer,
        f"`{program.brief(built or could[0].node)}` {are} trained kernel by kernel: torch.compile "
        f"makes few of many{since}",
        fix(program, models) if len(could) == len(models) else None,
        help=MEASURE,
    )


def trains_on_gpu(program: Program) -> bool:
    """Whether the file is a script that trains on a GPU, for more than a few steps."""
    if not (program.devices.named and trains_long(program) and is_script(program)):
        return False
    return program.devices.gpu


def fix(program: Program, models: list[Trained]) -> Fix | None:
    """Return the line that compiles the model in place."""
    line = place(program, models)
    if line is None or (program.target is not None and program.target < METHOD):
        return None
    changes = "rounding, the random numbers of dropout, and the time of the first steps"
    if program.target is None:
        changes += "; old versions of torch have no such method"
    return Fix(f"Call `{line.code}`", Safety.UNSAFE, (line,), changes)


def advice(program: Program) -> Iterator[Finding]:
    """Name the switch that a framework has for it."""
    calls = list(program.calls_of(*OWN))
    if not calls or hindered(program) or speaks_of_compiling(program):
        return
    trains = program.loops.training or any(program.method_calls("train"))
    for call in calls if trains else ():
        names, switch = OWN[program.qualified(call.func)]
        given = [program.argument(call, name) for name in names]
        if all(one.absent for one in given) and not in_test(program, call):
            yield Finding(
                call,
                f"`{program.brief(call.func)}` trains the model kernel by kernel: it compiles it "
                f"where it is told to by `{switch}`",
                help=MEASURE,
            )
