"""Gradients are filled with zeros where they could be dropped.

## Why
`zero_grad(set_to_none=False)` writes zeros into every gradient, and the next
backward pass reads them again to add to them.  With `set_to_none=True` the
gradients are dropped, and the backward pass writes new ones: less memory
traffic, fewer kernels, and a lower peak between the two.

Since torch 2.0 that is what a plain `zero_grad()` does (where Accelerate wraps
the optimizer, its version decides instead).  It is therefore only
reported for projects that may run on an older torch; a project says which
one it uses with `torch-version` in its configuration, or on the command line
with `--torch-version`.

## Bad
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=False)
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()

## Good
    import torch

    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(1, 512)).sum().backward()
        optimizer.step()

## Leaves alone
A plain `zero_grad()` where torch is known to be 2.0 or newer, or older than 1.8 by
what the project uses (`loss.data[0]` runs up to 0.4, `correct[:k].view(-1)` of a transposed
tensor up to 1.6) or older than 1.7 by what its README names; what runs before the
loop with the optimizer's steps or right after the optimizer is made (once an epoch, but with
`--torch-version any`), at the end of a training (`def after_fit`,
`def on_train_end`), in a test, once in a script, before there is a gradient to fill (each
turn makes the model anew), or after a change
(`if task != self.task: ...; self.task = task`); loops in which nothing goes back
(`torch.autograd.grad` adds to no gradient); gradients that are only looked at (a
heat map of a model in evaluation mode), and those of a few
tensors: an optimizer that lists them (`SGD([image])`), or parameters that a script asserts
(`assert len(parameters) == 2`); those of a network that is seen to hold no more than 512 numbers,
or one layer of up to 65,536; a condition as the argument
(`set_to_none=args.none`); objects whose class has
a `zero_grad` of its own, those that may be of such a class in a file near by (where only an option
puts that around an optimizer of torch, without a fix and with `--torch-version any`), and those of
unknown origin that have methods torch's optimizers have not (`optimizer.update(epoch)`);
an optimizer that may be one of apex, Horovod or DeepSpeed, whose `zero_grad` takes no argument
(where only another file of the project makes such, an option of timm may choose one of apex, or
a script calls `amp.initialize` of apex under a condition, there is no fix, and with
`--torch-version any` a finding); a plain `zero_grad()` in files that use
what only torch 2 has (`torch.compile`), or
run a module that imports it (`torch.distributed.tensor`, `torchao`);
files that capture CUDA graphs, whose gradients must stay where they are; those that make the
gradients themselves (`p.grad = torch.zeros_like(p)`) and add to them by hand; files where a
parameter
keeps the gradient of another (`shared.grad = local.grad`), which zeros clear for both, or one
import away from such a file; and, for
zeros that are asked for, files that add to gradients by hand and need the buffers.
A plain `zero_grad()` is reported as information where the project only says that it needs
torch 1.7 or a later 1.x *or newer* (`torch>=1.8`), and where it runs once an epoch before steps
that are not seen.
Loops that zero the gradients of parameters one by one are reported as well, but for those
where the file makes the model itself and says nothing of a GPU: on a CPU they launch no kernels.
Those that also do something else are not.

## Fix safety
Unsafe: a parameter that gets no gradient in a step is left alone by the
optimizer when its gradient is None, while momentum and weight decay move it when
its gradient is zero.  There is no fix where the file reads `.grad` without a
check for None, where the object is not known to be torch's, where the file uses apex, or where a
training framework wraps the optimizer.

## Evidence
`torchlint bench TL602` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, width 256, layers 8: 1.49 ms and 1.27 ms, 1.18 x (1.16 to 1.20): faster; results
  bitwise equal.
- training step, width 1024, layers 4: 12.5 ms and 8.64 ms, 1.45 x (1.25 to 1.69): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
PyTorch documentation, `torch.optim.Optimizer.zero_grad`; PyTorch Performance
Tuning Guide, "Set gradients to None"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.added import needs_2
from torchlint.analysis.arguments import Given
from torchlint.analysis.debugging import in_test
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.filled import may_be_filled
from torchlint.analysis.gradients import Gradients, gradients, shares_gradients
from torchlint.analysis.loops import Role
from torchlint.analysis.once import runs_once
from torchlint.analysis.optimizer_wrappers import (
    may_be_anothers,
    may_be_chosen,
    may_be_wrapped,
    may_refuse_arguments,
)
from torchlint.analysis.origins import origins
from torchlint.analysis.own_wrappers import defining_zero_grad, wraps_by_option
from torchlint.analysis.rare import follows_change
from torchlint.analysis.reach import class_of
from torchlint.analysis.renewed import clears_renewed, has_no_gradients
from torchlint.analysis.sizes import is_little, updates_little
from torchlint.analysis.values import Kind
from torchlint.analysis.zeroing import ZeroingLoop, zeroing_loops
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, RemoveArgument, Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value
    from torchlint.edits.rewrites import Rewrite

IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
FIRST = Version("1.7")  # has `set_to_none`
SECOND = Version("1.8")  # what runs on no newer one than the first has little to gain
DEFAULT = Version("2.0")  # and it is True
# What a training runs at its end, by the names that frameworks give it.
ENDS = re.compile(r"after_(?:fit|train(?:ing)?)$|(?:on_)?(?:fit|train(?:ing)?)_end$")
# Methods of optimizers around torch's, whose `zero_grad` may take no argument.
OTHERS = (
    "update", "pre_forward", "pre_backward", "post_step", "backward", "step_and_update_lr",
    "update_lr", "update_learning_rate", "set_lr", "clip_master_grads", "update_master_grads",
    "adjust_lr", "get_lr", "set_learning_rate",
)  # fmt: skip
CHANGES = (
    "a parameter without a gradient in a step is skipped by the optimizer; zeros let momentum "
    "and weight decay move it"
)
UNDECLARED = (
    "Declare the version the project uses, with `torch-version` in the configuration or "
    "`--torch-version`: from 2.0 on there is nothing to do."
)
CHOSEN = (
    "The optimizer may be one of apex, by an option of timm: its `zero_grad` takes no argument."
)
WRAPPED = (
    "An option may have apex change the optimizer, by `amp.initialize`: its `zero_grad` then takes "
    "no argument."
)
AROUND = (
    "An option may put a class of the project around the optimizer, whose `zero_grad` may take no "
    "argument."
)
ANOTHERS = (
    "The optimizer may come from a file that uses apex, Horovod or DeepSpeed: their `zero_grad` "
    "takes no argument."
)
READS = "no fix: the file reads `.grad` without a check for None, which it would then meet"


def zero_grad_not_none(program: Program) -> Iterator[Finding]:
    """Yield calls and loops that fill gradients with zeros."""
    grads = gradients(program)
    if grads.captured or shares_gradients(program):
        return
    for call, func in program.method_calls("zero_grad"):
        known = is_torchs(program, func.value)
        given = program.argument(call, "set_to_none", "torch.optim.Optimizer.zero_grad")
        if known is None or given.given is Given.UNSURE:
            continue
        plain = given.absent and not call.args
        if not plain and (given.literal() != "False" or grads.fills):
            continue
        if grads.made and grads.fills:
            continue
        if gains_nothing(program, call):
            continue
        if plain:
            yield from bare(program, call, func.value, grads, known=known)
        else:
            yield explicit(program, call, given.arg, grads)
    loops = list(zeroing_loops(program))
    stray = [
        node
        for node in (*grads.reads, *grads.fills)
        if not any(program.index.inside(node, loop.node) for loop in loops)
    ]
    if not stray:
        yield from (
            one_by_one(program, loop) for loop in loops if not stays_on_host(program, loop.node)
        )


def gains_nothing(program: Program, call: cst.Call) -> bool:
    """Whether a call is made before the loop with the steps, once, or before any gradient.

    Or where something has changed (`if task != self.task:`), which it seldom has; or no step is
    taken with the gradients, or with next to none.
    """
    if in_test(program, call) or follows_change(program, call):
        return True
    if has_few(program, call) or (program.loops.only_looks(call) and looks_back(program, call)):
        return True
    if has_no_gradients(program, call) or not may_be_filled(
        program, over_optimizers(program, call)
    ):
        return True
    function, place = program.function(call), program.index.order(call)
    if function is not None and ENDS.match(function.name.value) is not None:
        return True
    role = program.context(over_optimizers(program, call)).role
    seldom = role is Role.OTHER or (role is Role.EPOCH and not program.every_version)
    if seldom and (clears_renewed(program, call) or before_steps(program, function, place)):
        return True
    return runs_once(program, call)


def looks_back(program: Program, call: cst.Call) -> bool:
    """Whether a function may go back at all: not after ``torch.set_grad_enabled(False)``.

    An evaluation that clears gradients has none to look at, and clears those of training.
    """
    function = program.function(call)
    return not any(
        program.function(one) is function
        and isinstance(program.parent(one), cst.Expr)
        and [literal(arg.value) for arg in one.args] == ["False"]
        for one in program.calls_of("torch.set_grad_enabled")
    )


def has_few(program: Program, call: cst.Call) -> bool:
    """Whether there is next to nothing to fill: an image, a probe, a network for a lesson."""
    assert isinstance(call.func, cst.Attribute)
    value = program.value(call.func.value)
    if value.kind is Kind.MODULE:
        return is_little(program, value)
    return isinstance(value.made, cst.Call) and updates_little(program, value.made)


def over_optimizers(program: Program, call: cst.Call) -> cst.CSTNode:
    """Return the loop ``for one in optimizers: one.zero_grad()`` of a call, else the call."""
    match program.index.nearest(call, cst.For), call.func:
        case cst.For(target=cst.Name(value=one)) as loop, cst.Attribute(value=cst.Name(value=name)):
            return loop if one == name else call
        case _:
            return call


def before_steps(program: Program, function: cst.FunctionDef | None, place: int) -> bool:
    """Whether a function comes to a loop only later in which an optimizer takes its steps."""
    index = program.index
    return any(
        program.function(step) is function
        and any(
            isinstance(above, cst.For | cst.While) and index.order(above) > place
            for above in index.ancestors(step)
        )
        for step, func in program.method_calls("step")
        if "opt" in program.brief(func.value).lower() or "opt" in program.brief(step).lower()
    )


def is_torchs(program: Program, receiver: cst.BaseExpression) -> bool | None:
    """Whether ``zero_grad`` is torch's: True if proved, False if likely, None if it is not."""
    value = program.value(receiver)
    classes = program.classes
    owner = classes.named(value.type) or classes.get(value.made)
    if owner is not None and classes.method(owner, "zero_grad") is not None:
        return None
    match value.kind:
        case Kind.OPTIMIZER if not isinstance(value.made, cst.Call) and wraps(program):
            return False if wraps_by_option(program) else None
        case Kind.OPTIMIZER | Kind.MODULE:
            return True
        case Kind.INSTANCE if owner is not None:
            bases = [base for c in classes.lineage(owner) for base in c.bases]
            return True if any(base.startswith("torch.optim.") for base in bases) else None
        case Kind.INSTANCE if not _is_self(receiver):
            return False if inherits(program, value) or all_inherit(program, receiver) else None
        case Kind.UNKNOWN if not _is_self(receiver):
            own = any("zero_grad" in other.methods for other in classes)
            own = own or (wraps(program) and not wraps_by_option(program))
            own = own or is_wrapper(program, receiver) or does_more(program, receiver)
            return False if uses_torch(program) and not own else None
        case _:
            return None


def wraps(program: Program) -> bool:
    """Whether a file near by defines a ``zero_grad``: an optimizer of its own, or one around it."""
    return bool(defining_zero_grad(program))


def is_wrapper(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether a class of another file, given no parameters, made the receiver.

    One that is an optimizer of torch itself, and leaves `zero_grad` as it is, is none.
    """
    made: list[cst.CSTNode | None] = []
    match receiver:
        case cst.Name():
            made = [binding.value for binding in program.flow.reaching(receiver)]
        case cst.Attribute(value=cst.Name(value="self"), attr=attr):
            owner = program.classes.around(receiver)
            stores = [] if owner is None else program.classes.stores(owner, attr.value)
            made = [store.value for store in stores]
        case _:
            pass
    calls = [node for node in made if isinstance(node, cst.Call)]
    return any(
        dotted(call.func).rpartition(".")[2][:1].isupper()
        and not any("param" in program.code(arg).lower() for arg in call.args)
        and program.value(call).kind is not Kind.MODULE  # `DataParallel(self.net)`
        and not inherits(program, program.value(call))
        for call in calls
    )


def inherits(program: Program, value: Value) -> bool:
    """Whether the class of an object leaves the `zero_grad` of torch's optimizers as it is."""
    found = class_of(program, value)
    if found is None or found[0].classes.method(found[1], "zero_grad") is not None:
        return False
    bases = [base for one in found[0].classes.lineage(found[1]) for base in one.bases]
    return any(base.startswith("torch.optim.") for base in bases)


def all_inherit(program: Program, receiver: cst.BaseExpression) -> bool:
    """Whether a name is an instance of one of several classes, by an option, that all do so."""
    made = origins(program, receiver) if isinstance(receiver, cst.Name) else []
    values = [program.value(one) for one in made if isinstance(one, cst.Call)]
    return len(values) == len(made) > 1 and all(
        value.kind is Kind.OPTIMIZER or inherits(program, value) for value in values
    )


def does_more(program: Program, receiver: cst.BaseExpression) -> bool:
    """``optimizer.update(epoch, steps)``: it has a method that no optimizer of torch has."""
    name = dotted(receiver)
    return bool(name) and any(
        dotted(func.value) == name for _, func in program.method_calls(*OTHERS)
    )


def _is_self(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Name(value="self") | cst.Call(func=cst.Name(value="super")):
            return True
        case _:
            return False


def uses_torch(program: Program) -> bool:
    """Whether the file uses torch, or what it imports does: other libraries have a `zero_grad`."""
    if any(name.startswith("torch") for name in program.names.imported()):
        return True
    if program.project is None or program.path is None:
        return False
    imports = program.project.imports
    return any(IMPORTS.search(imports.text(one)) for one in imports.targets(str(program.path)))


def bare(
    program: Program, call: cst.Call, receiver: cst.BaseExpression, grads: Gradients, *, known: bool
) -> Iterator[Finding]:
    """``zero_grad()``: fills with zeros below torch 2.0."""
    target = program.target
    if target is not None and not FIRST <= target < DEFAULT:
        return
    if program.floor:
        target = None  # newer versions are in use as well
    accelerated = "accelerate" in program.frameworks and "prepare" in program.text
    refuses = not accelerated and may_refuse_arguments(program, receiver)
    others = not accelerated and may_be_anothers(program, receiver)
    wrapped = refuses and may_be_wrapped(program)
    around = not known and wraps(program)
    if (others or wrapped or around) and not program.every_version:
        return
    refuses = refuses and not wrapped
    if refuses or not program.reaches(SECOND) or program.is_named_below(FIRST):
        return
    chosen = may_be_chosen(program, receiver)
    if target is None and not program.every_version and (chosen or is_for_2(program)):
        return
    text = program.brief(call)
    if accelerated:
        message = (
            f"`{text}` leaves it to Accelerate whether the gradients are dropped, and older "
            "versions of it fill them with zeros: pass `set_to_none=True`"
        )
    elif target is None and not program.reaches(DEFAULT) and program.limit is not None:
        message = (
            f"`{text}` fills the gradients with zeros on torch below 2.0, which "
            f"`{program.limit.code}` needs: `set_to_none=True` drops them (from torch 1.7 on)"
        )
    elif target is None:
        message = (
            f"`{text}` fills the gradients with zeros on torch below 2.0: `set_to_none=True` "
            "drops them (from torch 1.7 on)"
        )
    else:
        message = (
            f"`{text}` fills the gradients with zeros on torch {target} (before 2.0), only for "
            "the backward pass to add to them"
        )
    add = AddArgument(call, "set_to_none", "True")
    old = "; torch below 1.7 has no such argument" if program.target is None else ""
    kinds = ((wrapped, WRAPPED), (around, AROUND), (chosen, CHOSEN), (others, ANOTHERS))
    told = next((text for holds, text in kinds if holds), "")
    takes = known and not told and not grads.reads and "apex" not in program.text
    fix = _fix(program, "Pass `set_to_none=True`", add, CHANGES + old) if takes else None
    info = target is None or program.frameworks or program.context(call).role is Role.EPOCH
    severity = Severity.INFO if info else Severity.WARNING
    if not told and target is None and program.reaches(DEFAULT):
        told = UNDECLARED
    yield Finding(call, message, fix, severity, help=READS if grads.reads else told)


def is_for_2(program: Program) -> bool:
    """Whether a project that declares nothing is for torch 2, by its README or what it uses."""
    named = program.named
    return (named is not None and named >= DEFAULT) or needs_2(program)


def explicit(program: Program, call: cst.Call, arg: cst.Arg | None, grads: Gradients) -> Finding:
    """``zero_grad(set_to_none=False)``: fills with zeros on every version."""
    message = f"`{program.brief(call)}` fills the gradients with zeros instead of dropping them"
    fix = None
    if arg is not None and not grads.reads:
        if program.target is not None and program.target >= DEFAULT:
            fix = _fix(program, "Leave out the argument", RemoveArgument(call, arg))
        else:
            fix = _fix(program, "Pass `set_to_none=True`", Replace(arg.value, "True"))
    severity = Severity.INFO if program.frameworks else None
    return Finding(call, message, fix, severity, help=READS if grads.reads else "")


def one_by_one(program: Program, loop: ZeroingLoop) -> Finding:
    """Report a loop over parameters that zeroes each gradient."""
    message = (
        f"the loop zeroes the gradients of `{program.brief(loop.node.iter)}` one by one, only for "
        "the backward pass to add to them"
    )
    if loop.optimizer is None:
        advice = "set each `.grad` to None instead"
        return Finding(loop.node, message, help=advice)
    new = program.target is not None and program.target >= DEFAULT
    code = f"{loop.optimizer}.zero_grad({'' if new else 'set_to_none=True'})"
    fix = _fix(program, f"Call `{code}`", Replace(loop.node, code))
    return Finding(loop.node, message, fix)


def stays_on_host(program: Program, loop: cst.For) -> bool:
    """Whether a file that says nothing of a GPU makes the model of a loop over parameters itself.

    There the loop launches no kernels: it costs what the gradients take to fill.
    """
    models = [
        func.value
        for call, func in program.method_calls("parameters")
        if program.index.inside(call, loop.iter)
    ]
    made = [one for model in models for one in origins(program, model)]
    return bool(made) and not program.devices.gpu and all(isinstance(one, cst.Call) for one in made)


def _fix(program: Program, title: str, rewrite: Rewrite, changes: str = CHANGES) -> Fix | None:
    """Give the fix, unless a framework wraps the optimizer."""
    if program.frameworks:
        return None
    return Fix(title, Safety.UNSAFE, (rewrite,), changes)
