"""An optimizer updates in many kernels what one fused kernel updates at once.

## Why
By default `AdamW.step()` runs each of its operations over all parameters before the next one starts
(`foreach`, on a CUDA GPU), or one parameter after the other from Python (on the CPU).  With
`fused=True` a single kernel reads each parameter, its gradient and its moments once, and writes the
result.  How much of a training step that saves depends on how much of it the optimizer takes: much
for many small parameters and on the CPU, little where the backward pass is long.

The flag is part of the optimizer's state: `load_state_dict` of a checkpoint that was saved without
it puts `fused=None` back, and the fused kernel is not used any more, without a word (TL601b).

Of SGD with momentum there is something to know: if the first step of all is one that a
`GradScaler` has to skip, as it often does, the fused kernel leaves the momentum as memory that
nobody wrote, and the next step applies it (TL601c).  Without `fused` nothing of the kind happens.

## Bad
    import torch

    layers = [torch.nn.Linear(512, 512) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for x in batches:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

## Good
    import torch

    layers = [torch.nn.Linear(512, 512) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for x in batches:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

## Leaves alone
- Optimizers without a fused kernel (Adadelta, RMSprop, NAdam and others): they refuse the argument.
- `fused` or `foreach` given, in the call or in a dictionary, and `differentiable`; a literal
  `False` is reported unless a comment stands beside it.
- SGD with momentum in files that may use a gradient scaler, for the reason above.
- Files for the CPU only, unless the project declares torch 2.4 or newer, where the CPU has a fused
  kernel, and the file trains; Adagrad, unless it declares torch 2.13 or newer.
- Sparse gradients, complex parameters, and parameters that are integers (a step counter) unless the
  project declares torch 2.5 or newer.
- Optimizers that are compiled or made before their model is moved to the GPU (in the constructor of
  the model, of a list of its parameters that an object keeps, or where a trainer that gets the
  model moves it, in a class of any file), and files that use FSDP,
  DeepSpeed, apex, Horovod, Opacus, RPC, or a device of another maker; also where a file that uses
  this one wraps its optimizer (`hvd.DistributedOptimizer`) or, for SGD with momentum, has a
  gradient scaler.
- Optimizers from `configure_optimizers` of Lightning in a project that sets `gradient_clip_val`:
  under mixed precision it raises for a fused optimizer whose gradients it is to clip.
- Optimizers of up to four tensors on a GPU (an image, a latent code, a single layer), and SGD
  there: `foreach` needs few kernels for them (SGD three or four, Adam a dozen and more).
- Optimizers that nothing steps: an evaluation makes one to load its state, or not to; also where a
  function of the project loads it (`resume(model, optimizer)`).
- Code that runs only on a torch without the kernel, by what it uses (`torch._six`) or asserts.
- TL601b: files that save the optimizer's state themselves, or set `fused` in its groups.

## Fix safety
Unsafe: the results differ by rounding; on torch below 2.4 a fused optimizer raises for parameters
on the CPU, and below 2.0 (SGD: 2.3) it does not exist.  Where the file may also run without a GPU
and the version does not rule that out, or the model is not seen to be moved to one, the device is
asked, or the model that a function is given or an object keeps
(`next(model.parameters()).is_cuda or None`: `False` would turn `foreach` off for good).  Where the
file loads the state, the flag is also written into the state before it is loaded, so that old
checkpoints do not turn it off.  There is no fix under a training framework, and none where a
README names a torch without the kernel.  TL601c takes the flag out.

## Evidence
`torchlint bench TL601` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 32, layers 24: 4.02 ms and 2.16 ms, 1.86 x (1.82 to 1.90): faster; results
  bitwise equal.
- training step, width 384, layers 8: 8.92 ms and 6.02 ms, 1.48 x (1.41 to 1.56): faster; results as
  E1 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, `torch.optim`: "Algorithms", and `torch.optim.AdamW`
- PyTorch documentation, `torch.optim.Optimizer.load_state_dict`
- PyTorch Performance Tuning Guide, "Fuse operations"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.debugging import in_test
from torchlint.analysis.mentions import words
from torchlint.analysis.optimizer_wrappers import (
    clipped_by_lightning,
    scaled_elsewhere,
    wrapped_elsewhere,
)
from torchlint.analysis.optimizers import (
    is_never_stepped,
    loads,
    model_at_hand,
    moved_later,
    partly_frozen,
    saves,
    scaled_steps,
    sparse_gradients,
    surely_on_gpu,
)
from torchlint.analysis.reasons import refused
from torchlint.analysis.sizes import holds_integers, updates_few
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import (
    AddArgument,
    AddImport,
    InsertBefore,
    RemoveArgument,
    Replace,
    Rewrite,
)
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.arguments import Argument
    from torchlint.analysis.program import Program

ADAGRAD, SGD = "torch.optim.Adagrad", "torch.optim.SGD"
# The first version with a fused kernel, on a CUDA GPU, on the CPU and on Apple's GPU.
ON_GPU = {
    "torch.optim.Adam": Version("2.0"),
    "torch.optim.AdamW": Version("2.0"),
    SGD: Version("2.3"),
    ADAGRAD: Version("2.13"),
}
ON_CPU = Version("2.4")
TAKES_INTEGERS = Version("2.5")  # as parameters that get no gradient
ON_MPS = Version("2.5")  # but for Adagrad
ACCELERATOR = Version("2.6")  # a file that asks torch.accelerator cannot run on an older torch
OTHERS = re.compile(
    r"torch_(xla|npu|directml|mlu|musa)|FSDP|fully_shard|FullyShardedDataParallel"
    rf"|{words('xpu', 'hpu', 'deepspeed', 'apex', 'horovod', 'opacus', 'rpc')}"
    r"|complex(64|128)|cfloat|compile\([\w.]*step\b"
)
SCALED = re.compile(r"scaler|fp16|float16(?<!bfloat16)|\.half\(|autocast")
WRAPPED = (
    "It can be used with a framework; Lightning refuses it with float16 and clipped gradients."
)
KEPT = "the results differ by rounding from those of the kernel that was in use"
SPOILT = "the momentum starts from the first gradients that are finite"
APPLE = re.compile(rf"torch\.accelerator|{words('mps')}")


def optimizer_not_fused(program: Program) -> Iterator[Finding]:
    """Find optimizers that could be fused, and fused ones that lose it or go wrong by it."""
    for call in program.calls_of(*ON_GPU):
        kind = program.qualified(call.func)
        fused = program.argument(call, "fused")
        if fused.literal() == "True":
            yield from lost(program, call)
            yield from uninitialised(program, call, fused)
        elif (
            may_be_fused(program, call, kind, fused)
            and not in_test(program, call)
            and program.reaches(ON_GPU[kind])
        ):
            yield finding(program, call, kind, fused)


def may_be_fused(program: Program, call: cst.Call, kind: str, fused: Argument) -> bool:
    """Whether a call leaves the choice open, and there is a kernel where the file runs."""
    others = [program.argument(call, name) for name in ("foreach", "differentiable")]
    return (
        all(given.absent or refused(program, given) for given in (fused, *others))
        and not OTHERS.search(program.text)
        and not (has_momentum(program, call, kind) is not False and may_be_scaled(program))
        and exists(program, kind)
        and not sparse_gradients(program)
        and not moved_later(program, call)
        and not is_never_stepped(program, call)
        and not refuses_integers(program, call)
        and not (has_little_to_do(program, call, kind) and fused.absent and others[0].absent)
        and not wrapped_elsewhere(program)
        and not clipped_by_lightning(program, call)
    )


def may_be_scaled(program: Program) -> bool:
    """Whether a gradient scaler may skip steps, here or in a file that has the optimizer made."""
    return SCALED.search(program.lowered) is not None or scaled_elsewhere(program)


def refuses_integers(program: Program, call: cst.Call) -> bool:
    """Whether fused kernels may refuse what the model counts with, though it gets no gradient."""
    old = program.target is None or program.target < TAKES_INTEGERS
    return old and holds_integers(program, call)


def has_little_to_do(program: Program, call: cst.Call, kind: str) -> bool:
    """Whether few tensors are updated, or by SGD, on a GPU, where few kernels do it as it is."""
    return program.devices.gpu and (
        kind == SGD or updates_few(program, call) or partly_frozen(program, call)
    )


def has_momentum(program: Program, call: cst.Call, kind: str) -> bool | None:
    """Whether this is SGD with momentum; None where that is not known."""
    given = program.argument(call, "momentum")
    if kind != SGD or given.absent:
        return False
    text = given.literal()
    return None if text is None else float(text) != 0


def exists(program: Program, kind: str) -> bool:
    """Whether every version the project may run on has a kernel, or the finding can say which."""
    target = program.target
    if program.devices.gpu:
        return ON_GPU[kind] < ON_CPU if target is None else target >= ON_GPU[kind]
    return target is not None and works_anywhere(program, kind) and program.loops.leads


def works_anywhere(program: Program, kind: str) -> bool:
    """Whether ``fused=True`` is right on whatever device the file may run on."""
    apple = APPLE.search(program.text) is not None
    since = max(ON_MPS if apple else ON_CPU, Version("0") if kind == ADAGRAD else ON_GPU[kind])
    target = ACCELERATOR if "torch.accelerator." in program.text else program.target
    return target is not None and target >= since and not (apple and kind == ADAGRAD)


def finding(program: Program, call: cst.Call, kind: str, fused: Argument) -> Finding:
    """Return the finding, with the fix where no framework wraps the optimizer."""
    name = program.brief(call.func)
    foreach = program.argument(call, "foreach")
    told = fused.arg or foreach.arg
    if told is not None:
        how = f"`{program.brief(told)}` makes `{name}` update one parameter after the other"
    elif program.devices.gpu:
        how = f"`{name}` updates its parameters in many small kernels"
    else:
        how = f"`{name}` updates one parameter after the other on the CPU"
    since = f" (from torch {ON_GPU[kind]} on)" if program.target is None else ""
    is_old = program.is_named_below(ON_GPU[kind])
    return Finding(
        call,
        f"{how}: `fused=True` does it in one kernel{since}",
        None if program.frameworks or is_old else fix(program, call, kind, told),
        help=WRAPPED if program.frameworks else "",
    )


def fix(program: Program, call: cst.Call, kind: str, told: cst.Arg | None) -> Fix | None:
    """Return the fix: the argument, written into the states that are loaded as well."""
    value = written(program, call, kind)
    if value is None:
        return None
    code, imports = value
    rewrites: list[Rewrite] = [AddArgument(call, "fused", code)]
    if told is not None and told.keyword is not None:
        rewrites = [Replace(told.keyword, "fused"), Replace(told.value, code)]
    changes = "the results differ by rounding"
    if program.target is None:
        changes += f"; torch below {ON_GPU[kind]} has no such kernel"
    if program.target is None or program.target < ON_CPU:
        changes += f"; torch below {ON_CPU} raises where the parameters are made on the CPU"
    for load in loads(program, call):
        kept = keeping(program, load)
        if is_kept(program, load):  # with the optimizer of the other branch
            continue
        if kept is None:
            changes += "; a checkpoint that was saved without it turns it off again"
        else:
            rewrites.append(kept)
    return Fix(f"Pass fused={code}", Safety.UNSAFE, (*rewrites, *imports), changes)


def written(program: Program, call: cst.Call, kind: str) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return the value to pass and the import it needs; None where torch has no name."""
    asks = any(word in program.text for word in ("is_available", "gpu_ids", "use_gpu", "use_cuda"))
    certain = not asks and surely_on_gpu(program, call)
    if certain or works_anywhere(program, kind):
        return "True", ()
    moves = [move.args[0].value for move, _ in program.method_calls("to") if move.args]
    there = program.devices.condition(call, moves)
    if there is None:
        return None
    if there.code.endswith(".cuda.is_available()") and (model := model_at_hand(program, call)):
        return f"next({model}.parameters()).is_cuda or None", ()  # False turns foreach off
    return there.code, (AddImport("torch"),) if there.needs_torch else ()


def keeping(program: Program, load: cst.Call) -> Rewrite | None:
    """Return the lines that put the flag into a state before it is loaded, if it has a name."""
    assert isinstance(load.func, cst.Attribute)
    statement, state = program.parent(load), load.args[0].value
    if not (isinstance(statement, cst.Expr) and len(load.args) == 1 and is_place(state)):
        return None
    name = "group" if program.index.scope(load).owner("group") is None else "saved_group"
    line = program.statement(load)
    assert isinstance(line, cst.BaseStatement)
    return InsertBefore(
        line,
        f'for {name} in {program.code(state)}["param_groups"]:\n'
        f'    {name}["fused"] = {program.code(load.func.value)}.defaults["fused"]',
    )


def is_kept(program: Program, load: cst.Call) -> bool:
    """Whether the file has the lines that `keeping` writes."""
    assert isinstance(load.func, cst.Attribute)
    return f'{program.code(load.func.value)}.defaults["fused"]' in program.text


def is_place(node: cst.BaseExpression) -> bool:
    """Whether an expression names what is kept: ``state``, ``checkpoint["optimizer"]``."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return isinstance(node, cst.Name)


def lost(program: Program, call: cst.Call) -> Iterator[Finding]:
    """TL601b: the state of another optimizer is loaded into a fused one."""
    if "load_state_dict" not in program.text or re.search(r"[\"']fused[\"']\s*\]", program.text):
        return
    for load in loads(program, call) if not saves(program) else ():
        kept = None if program.frameworks else keeping(program, load)
        yield Finding(
            load,
            f"`{program.brief(load)}` turns `fused` off again if the state was saved without it",
            None
            if kept is None
            else Fix("Put the flag into the state", Safety.UNSAFE, (kept,), KEPT),
            case="b",
            help='Set group["fused"] = True in the state\'s "param_groups" before it is loaded.',
        )


def uninitialised(program: Program, call: cst.Call, fused: Argument) -> Iterator[Finding]:
    """TL601c: a gradient scaler that skips the first step of a fused SGD spoils its momentum."""
    if not has_momentum(program, call, program.qualified(call.func)):
        return
    for step, enabled in scaled_steps(program, call):
        remove = None if fused.arg is None else RemoveArgument(call, fused.arg)
        yield Finding(
            call,
            f"if the first `{program.brief(step)}` is skipped for its gradients, the fused kernel "
            f"leaves the momentum of `{program.brief(call.func)}` as memory that nobody wrote",
            None if remove is None else Fix("Leave out the flag", Safety.UNSAFE, (remove,), SPOILT),
            Severity.ERROR if enabled else Severity.WARNING,
            case="c",
            help="Adam and AdamW keep their state when a step is skipped.",
        )
        return
