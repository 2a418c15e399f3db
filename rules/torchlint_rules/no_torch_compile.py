"""A model is trained kernel by kernel, without a compiler.

## Why
Each operation of a model is a kernel that is started from Python, reads its inputs from the GPU's
memory and writes its result there. `torch.compile` (torch 2.0) makes few kernels of many. That
gives much where there are many small operations, little where large products and convolutions take
the time. `model.compile()` compiles in place: the keys of the `state_dict` stay.

## Bad
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            return self.layer(nn.functional.gelu(x / x.norm(dim=1, keepdim=True)))

    model = Net().cuda()
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Good
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            return self.layer(nn.functional.gelu(x / x.norm(dim=1, keepdim=True)))

    model = Net().cuda()
    model.compile()
    for x, y in loader:
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()

## Leaves alone
- Trainings on a CPU, and models that are not seen to go to a GPU.
- Models that are compiled, by torch.compile, TorchScript, TensorRT or XLA. Where an option that is
  off by default compiles them this is said, without a fix.
- torch below 2.0, and models of a single layer, which is a kernel or two.
- What a compiler refuses or gives up on: second derivatives (`create_graph=True`), `DataParallel`,
  and forward passes that count (`self.calls += 1`).

Of transformers and Accelerate their own switch is named.

## Fix safety
Unsafe: results differ by rounding, and dropout draws other random numbers. The first steps take
long, as does each new combination of shapes; a C++ compiler, Triton and a GPU of compute capability
7.0 or newer are needed. Whether it pays has to be measured. There is a fix where the step runs one
model with a `forward` of its own, bound to a local name, without recurrent layers, layers of other
libraries or sparse tensors.

## Evidence
A CPU has nothing to show: on a CPU it needs a C++ compiler, which many machines lack.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.compile` and `torch.nn.Module.compile`
- PyTorch tutorial, "Introduction to torch.compile"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import InsertAfter
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Tensor
from torchlint.syntax.line_layout import default_indent
from torchlint.training.framework_switches import Switch, unset_switches
from torchlint.training.step_models import firsts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script
    from torchlint.training.step_models import StepModel

FIRST, METHOD = Version("2.0"), Version("2.2")  # of torch.compile, and of `Module.compile` for sure
OWN = {
    "transformers.TrainingArguments": Switch("torch_compile", "train", "torch_compile=True"),
    "accelerate.Accelerator": Switch(
        "dynamo_backend dynamo_plugin", "backward", 'dynamo_backend="inductor"'
    ),
}
MEASURE = "The first steps take long: measure whether the rest of the training makes up for it."


def no_torch_compile(script: Script) -> Iterator[Finding]:
    """Find models that are trained without a compiler."""
    if script.settings.target is not None and script.settings.target < FIRST:
        return
    if any(map(script.connected.evaluation.calls, OWN)):
        yield from advice(script)
        return
    compilation = script.connected.compilation
    models = firsts(
        script.connected.step_models,
        script.file,
        lambda one: trains_on_gpu(script, one) and not compilation.is_refused(one),
    )
    since = " (from torch 2.0 on)" if script.settings.target is None else ""
    for model in models:
        compiles = compilation.compiles(model)
        if compiles is not True:
            yield Finding(
                model.node,
                f"`{script.module.brief(model.node)}` runs kernel by kernel in training: "
                f"torch.compile makes few of many{since}",
                fix(script, model) if compiles is False else None,
                help=MEASURE if compiles is False else f"An option compiles it. {MEASURE}",
            )


def trains_on_gpu(script: Script, model: StepModel) -> bool:
    """Whether a model, or what it is given, goes to where there may be a GPU."""
    values = script.connected.evaluation.values
    given = [one for arg in model.run.node.args for one in values.get(id(arg.value), ())]
    is_given = any(isinstance(one, Tensor) and one.device is Device.CUDA for one in given)
    return is_given or bool(script.connected.compilation.moves(model))


def fix(script: Script, model: StepModel) -> Fix | None:
    """Return the line that compiles the model in place."""
    compilation, target = script.connected.compilation, script.settings.target
    models = {id(one.node) for one in script.connected.step_models if one.step is model.step}
    is_old = target is not None and target < METHOD
    is_fit = len(models) == 1 and compilation.is_whole(model)
    if script.frameworks or is_old or not is_fit or script.connected.makes_sparse:
        return None
    place = compilation.place(model)
    if place is None:
        return None
    statement, code, condition = place
    line = f"if {condition}:\n{default_indent(script.module)}{code}" if condition else code
    changes = "rounding, the random numbers of dropout, and the time of the first steps"
    if target is None:
        changes += "; old versions of torch have no such method"
    return Fix(f"Call `{code}`", Safety.UNSAFE, (InsertAfter(statement, line),), changes)


def advice(script: Script) -> Iterator[Finding]:
    """Name the switch that a framework has for it."""
    is_compiled = script.connected.compilation.compiles_anything
    for call, switch in () if is_compiled else unset_switches(script, OWN):
        yield Finding(
            call,
            f"`{script.module.brief(call.func)}` runs the model kernel by kernel: it compiles "
            f"it where it is told to by `{switch.advice}`",
            help=MEASURE,
        )
