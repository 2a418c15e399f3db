"""A tensor is made on the host and then copied to the GPU, where it could have been made.

## Why
`torch.zeros(n).to(device)` allocates and fills memory on the host, then waits for a copy to the
GPU.  `torch.zeros(n, device=device)` starts one small kernel and waits for nothing.  In every
training step the difference is paid again and again.

## Bad
    import torch

    def train(generator, critic, optimizer, steps):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for step in range(steps):
            ones = torch.ones(64, 1).to(device)
            loss = (critic(generator.sample()) - ones).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import torch

    def train(generator, critic, optimizer, steps):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for step in range(steps):
            ones = torch.ones(64, 1, device=device)
            loss = (critic(generator.sample()) - ones).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- Tensors that are given a `device`, a `generator`, `out` or `pin_memory`: where they are made is a
  choice.
- Tensors without elements: `torch.zeros(0, n)`.
- `.to(other)` and `.type_as(other)`, where the other tensor is not known to be on the GPU,
  `.to(dtype)`, and moves to the CPU, to MPS or to XLA.
- `torch.Tensor(x)` and the like of one argument, unless it is a number or the size of a tensor.
- `torch.tensor(values)`: with `device=` it fills memory of the host and copies that as well.  For
  constants see TL301b.
- Tensors that are given to functions that are not seen, or do more than move them.
- What is not seen to run in the steps of a training or an evaluation, or in forward passes: an
  example (also one that a model is exported or measured with), noise to look at, what is called
  every n steps, what an object or an epoch starts with, a metric of all results; what the first
  step makes and keeps (`if self.mask is None: self.mask = ...`, also in a name that is None before
  the loop); and the forward passes of a script that only explains what a model answers to one
  request (gradients in evaluation mode, no steps).
- What only the first steps of a training do (`if step < warmup_steps:`, or the `else` of
  `if step > start_iter:`), what an episode of a simulator starts with, before the loop of its
  steps, what is made once for a whole `model.generate(...)` or `sampler(...)` in an evaluation, and
  what a forward pass does only where it is given no targets (`if labels is None:`): a training
  gives them; and what is done for a batch with nothing in it (`if boxes.size(1) == 0: return ...`).
- Code that runs only on torch 0.4 or older, by what it uses (`loss.data[0]`), and may be for 0.3,
  which has no `device=`; `torch.randperm` in code for a torch before 1.9, by what it uses or its
  project declares: that puts few numbers in order on the host in any case.
- TL301b and TL301c outside of training steps and forward passes.

- Tensors that are moved in a later line, or in one after something was computed of them, where
  anything else may read, fill or change them on the host before.

`torch.FloatTensor(3, n)` of sizes is `torch.empty`, and what `fill_`, `zero_`, `uniform_`,
`normal_` and `random_` fill a tensor with the GPU fills it with as well.

A tensor that a later line moves (`z = torch.rand(n)`, then `z = z.cuda()`), or that is given to a
function of the project that does nothing but move it (`to_var(torch.ones(n))`), is reported where
it is made, without a fix, and as information where the host computes something of it in between.
So is a list of one number (`torch.tensor([1] * n)`, `torch.tensor([number])`), which `torch.full`
needs no list for.

Reported as information for `torch.randperm`, which saves no more than the wait for a small copy,
where it does not run in every training step or forward pass, and where the
file does not name a GPU.

**TL301b**: `torch.tensor(0.5, device=device)`, or with `.to(device)`, copies one number to the GPU
in every step; `torch.full((), 0.5, device=device)` fills it in there.  A literal number only.
`torch.tensor([0.5, 1]).to(device)` in training steps, of numbers that stand there or of a name for
a tuple of such, copies those again and again: made once, before the loop, it is copied once.  No
fix, and information where it is a constant of a library, whose numbers are not seen.  So does a
tensor of a sequence or an array that is there before the loop of the steps, which only reads it
(`torch.from_numpy(weights).cuda()`), also where a later line moves the tensor.  Left alone where
the step may write into the tensor, or hands it to functions that are neither torch's nor seen to
read.

**TL301c**: an array that NumPy fills with a constant or with random numbers, made only to be copied
to the GPU in every step, in the same line or by way of a name that serves nothing else.  As
information, where a one is put into each row of zeros first (`y[range(n), labels] = 1`), which
`torch.nn.functional.one_hot` does there.  No fix: the numbers and their type would be others.

## Fix safety
Safe for zeros, ones, full, empty, eye, a range of whole numbers and one number: the same values.
Unsafe for random numbers, which then come from the random generator of the GPU; for `linspace`
and ranges of fractions, which may differ in the last digit; and with `requires_grad=True`, since
the tensor becomes a leaf, whose gradient is kept.  `torch.full` takes whole numbers and booleans
without a `dtype` since torch 1.7.

No fix where the move also asks for a dtype that other values would be made in, or for that of
another tensor (`.to(other)`, `.type_as(other)`), for a memory format, or for a GPU by a variable
that may be None or by a type of tensors (`.type(torch.cuda.FloatTensor)`). And none after
`.expand(...)`: the move gives each row memory of its own, which may be written into.

## Evidence
A CPU has nothing to show: on a CPU nothing is copied.

On a GPU: not measured yet.

## References
- PyTorch Performance Tuning Guide, "Create tensors directly on the target device"
- PyTorch source code, torch/profiler/_pattern_matcher.py, "ExtraCUDACopyPattern"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.arguments import keywords
from torchlint.analysis.array_uploads import ARRAYS, upload_of
from torchlint.analysis.beginnings import begins
from torchlint.analysis.constants import MAKERS, Constant, constant, is_of_kept
from torchlint.analysis.creation import (
    RANDOM,
    SAME,
    counts,
    created,
    factory,
    goal_of,
    is_drawn,
    is_repeated,
    is_spread,
    unfilled_type,
)
from torchlint.analysis.debugging import in_test
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.importing import importers
from torchlint.analysis.loops import Role
from torchlint.analysis.model_runs import runs_model
from torchlint.analysis.moved_later import made_before
from torchlint.analysis.movers import is_moved_by
from torchlint.analysis.no_data import is_without_data
from torchlint.analysis.once import runs_once
from torchlint.analysis.reach import callee, received
from torchlint.analysis.removed import takes_device
from torchlint.analysis.uses import uses_of
from torchlint.analysis.values import Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, DropMethod, Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.array_uploads import Upload
    from torchlint.analysis.creation import Goal
    from torchlint.analysis.loops import Context
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

FIRST = Version("1.0")  # code that ends before it may be for 0.3, which has no `device=`
SHUFFLES = Version("1.9")  # before it, `randperm` puts few numbers in order on the host
EXAMPLE = re.compile(r"export|onnx|(^|[._])trace|bench|profile|flops|speed|latency", re.IGNORECASE)
TARGETS = re.compile(r"y|(.*_)?(labels?|targets?|tgts?|gts?|ground_truths?)", re.IGNORECASE)
MADE = re.compile(
    r"torch\.(?:zeros|ones|full|empty|eye|arange|linspace|rand\w*|normal|\w*[tT]ensor)\("
)
GENERATES = re.compile(r"generat|sampl|decod|synthesi", re.IGNORECASE)
CHAIN = re.compile(r"generate|\w*sampler|\w*sample_loop\w*")
TYPES = ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Bool")
OF_NUMBERS = (*MAKERS, *(f"torch.{kind}Tensor" for kind in TYPES))
MOVERS = ("to", "cuda", "type", "type_as")
ANY_TYPE = frozenset({"zeros", "ones", "empty", "eye"})  # the same values in every dtype
SHARING = frozenset({"set_", "register_hook"})  # methods after which an argument may be written to
LARGEST = 3e38  # about the largest float32: `full` refuses what is larger


def create_on_cpu_then_move(program: Program) -> Iterator[Finding]:
    """Find tensors that are made on the host only to be copied to the GPU."""
    told = set[int]()
    for move, func in program.method_calls(*MOVERS):
        made = created(program, func.value)
        goal = None if made is None else goal_of(program, move)
        if made is None or goal is None or in_test(program, move) or is_rare(program, move):
            continue
        if has_device(program, made) and not is_empty(program, made):
            told.add(id(made))
            yield moved(program, move, made, goal)
    for finding in later(program):
        told.add(id(finding.node))
        yield finding
    yield from scalars(program)
    yield from (one for one in constants(program) if id(one.node) not in told)
    yield from arrays(program)


# -- torch.zeros(n).to(device) ----------------------------------------------------------------


def moved(program: Program, move: cst.Call, made: cst.Call, goal: Goal) -> Finding:
    """Return the finding for a tensor that is made on the host and moved."""
    context = program.context(move)
    when = f" in every {step(context)}" if every_step(context) else ""
    place = "the GPU" if goal.device is None or '"' in goal.device else f"`{goal.device}`"
    return Finding(
        move,
        f"`{program.brief(made)}` is made on the host and then copied to {place}{when}",
        fix(program, move, made, goal),
        Severity.INFO if factory(program, made) == "randperm" else severity(program, context),
        help=f"make it there: `torch.{maker(program, made)}(..., {asked(goal)}",
    )


def asked(goal: Goal) -> str:
    """Return what to ask of the function that makes a tensor, to the end of the sentence."""
    other = goal.like
    return (
        "device=...)`" if other is None else f"device={other}.device)`, in the dtype of `{other}`"
    )


def later(program: Program) -> Iterator[Finding]:
    """Find tensors that one line makes on the host, only for another to move them to the GPU.

    Or for a function of the project that does nothing but move them: ``to_var(torch.ones(n))``.
    """
    told = set[int]()
    for move, moved in elsewhere(program):
        direct = created(program, moved)
        found = made_before(program, move, moved) if direct is None else (direct, True)
        if found is None or in_test(program, move) or is_rare(program, move):
            continue
        made, plain = found
        if id(made) in told or not has_device(program, made) or is_empty(program, made):
            continue
        moves = is_method(move) or is_moved_by(program, move, moved)
        if moves and not program.unreached.at(move):
            told.add(id(made))
            yield moved_later(program, move, made, plain=plain)


def elsewhere(program: Program) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """Yield the calls that move, or may run what moves, what was made in another place."""
    for move, func in program.method_calls(*MOVERS):
        if created(program, func.value) is None and goal_of(program, move) is not None:
            yield move, func.value
    if MADE.search(program.text) is None:
        return
    for call in program.index.of(cst.Call):
        first = call.args[0] if call.args and not is_method(call) else None
        if first is not None and first.keyword is None and not first.star:
            yield call, first.value


def is_method(call: cst.Call) -> bool:
    """Whether a call is ``x.to(...)``, ``x.cuda(...)``, ``x.type(...)`` or ``x.type_as(...)``."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in MOVERS


def moved_later(program: Program, move: cst.Call, made: cst.Call, *, plain: bool) -> Finding:
    """Return the finding for a tensor that a later line moves.  No fix: it would be of two lines.

    What else is computed on the host in between, the GPU would do in as many kernels: information.
    """
    mover = program.brief(move) if is_method(move) else f"{program.brief(move.func)}(...)"
    context = program.context(move)
    when = f" in every {step(context)}" if every_step(context) else ""
    what = "is made on the host, and" if plain else "is made on the host, and what follows from it"
    small = not plain or factory(program, made) == "randperm"
    return Finding(
        made,
        f"`{program.brief(made)}` {what} then copied to the GPU{when}",
        None,
        Severity.INFO if small else severity(program, context, names_gpu(program, move)),
        help=f"make it there: `torch.{maker(program, made)}(..., device=...)`, without `{mover}`",
    )


def names_gpu(program: Program, move: cst.Call) -> bool:
    """Whether the file of a move names a GPU, or that of the function which moves for it."""
    found = None if is_method(move) else callee(program, move)
    return program.devices.named or (found is not None and found[0].devices.named)


def maker(program: Program, made: cst.Call) -> str:
    """Return the name of the function of torch that makes a tensor on the GPU."""
    return factory(program, made) or "full"


def has_device(program: Program, made: cst.Call) -> bool:
    """Whether the torch that the code runs on can make a tensor on the GPU, and faster."""
    if factory(program, made) == "randperm":
        return program.may_run_on(SHUFFLES)
    return program.reaches(FIRST) or takes_device(program)


def is_empty(program: Program, made: cst.Call) -> bool:
    """``torch.zeros((0, n))``: a size is 0, and there is nothing to copy."""
    if factory(program, made) not in ("zeros", "ones", "empty", "rand", "randn"):
        return False
    sizes = [arg.value for arg in made.args if arg.keyword is None]
    if sizes and isinstance(sizes[0], cst.Tuple | cst.List):
        sizes = [element.value for element in sizes[0].elements]
    return any(isinstance(one, cst.Integer) and one.evaluated_value == 0 for one in sizes)


def is_rare(program: Program, move: cst.Call) -> bool:
    """Whether a line is not seen to run in steps: the copy of a few numbers costs nothing then."""
    context = program.context(move)
    role = context.role
    return (
        role in (Role.EPOCH, Role.OTHER)
        or (role is Role.TRAIN and context.guarded and is_called_rarely(program, move))
        or runs_once(program, move)
        or is_seldom(program, move)
        or (role is Role.EVAL and is_example(program, move))
        or (not every_step(context) and starts_generation(program, move))
    )


def starts_generation(program: Program, move: cst.Call) -> bool:
    """Whether ``model.generate(...)`` follows in the block of a line, or is given what it makes.

    Or ``sampler(noise)``: a pass for each token, or for each step of a diffusion.  Or a loop of a
    function that is named for it.
    """
    index, line = program.index, program.statement(move)
    block, function = program.parent(line), program.function(move)
    if not isinstance(block, cst.IndentedBlock):
        return False
    if function is not None and GENERATES.search(function.name.value) is not None:
        later = (one for one in block.body if index.order(one) > index.order(line))
        loops = (one for one in later if isinstance(one, cst.For | cst.While))
        if any(runs_model(program, one.body) for one in loops):
            return True
    return any(
        CHAIN.fullmatch(dotted(call.func).rpartition(".")[2])
        and index.order(call) > index.order(line)
        for call in index.below(block, cst.Call)
    )


def is_called_rarely(program: Program, move: cst.Call) -> bool:
    """Whether the function of a line is called under a condition that holds now and then.

    Of a function with the loop of the steps in it that says nothing: `if mode == "train": train()`.
    """
    function = program.function(move)
    if function is None or any(
        program.index.inside(one, function) and program.loops.role(one) is Role.TRAIN
        for one in loops_around(program, move)
    ):
        return False
    return program.context(function.body.body[0]).guarded


def is_example(program: Program, move: cst.Call) -> bool:
    """``im = torch.zeros(1, 3, 640, 640).to(device)`` for what exports or measures a model."""
    match program.smallest_statement(move):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            pass
        case _:
            return False
    function = program.function(move)
    if function is None or any(loops_around(program, move)):
        return False
    return EXAMPLE.search(function.name.value) is not None or any(
        EXAMPLE.search(dotted(call.func)) is not None
        for call in program.index.below(function.body, cst.Call)
        if any(isinstance(arg.value, cst.Name) and arg.value.value == name for arg in call.args)
    )


def is_seldom(program: Program, node: cst.CSTNode) -> bool:
    """Whether a line is for first steps, for an inference, one request, or an empty batch."""
    return (
        is_kept(program, node)
        or begins(program, node)
        or lacks_targets(program, node)
        or is_without_data(program, node)
        or (program.context(node).role is Role.FORWARD and answers_requests(program))
    )


def lacks_targets(program: Program, node: cst.CSTNode) -> bool:
    """``if y is None:`` in a forward pass that a training gives ``y`` to, which has a default."""
    function = program.function(node)
    if function is None or program.context(node).role is not Role.FORWARD:
        return False
    left_out = {
        one.name.value
        for one in (*function.params.params, *function.params.kwonly_params)
        if isinstance(one.default, cst.Name) and one.default.value == "None"
    }
    child = node
    for above in program.index.ancestors(node):
        if above is function:
            return False
        match above:
            case cst.If(
                test=cst.Comparison(
                    left=cst.Name(value=name),
                    comparisons=[cst.ComparisonTarget(asked, cst.Name("None"))],
                )
            ) if name in left_out and TARGETS.fullmatch(name):
                without = isinstance(asked, cst.Is) and child is above.body
                if without or (isinstance(asked, cst.IsNot) and child is above.orelse):
                    return True
            case _:
                pass
        child = above
    return False


def answers_requests(program: Program) -> bool:
    """Whether a script explains by gradients what a model answers, to one input at a time."""
    calls = [call for call, _ in program.method_calls("backward")]
    functions = [one for one in map(program.function, calls) if one is not None]
    calls += [site for function in functions for site in program.calls.sites(function)]
    loops = any(any(loops_around(program, call)) for call in calls)
    return program.loops.only_asks and bool(calls) and not loops and not importers(program)


def is_kept(program: Program, node: cst.CSTNode) -> bool:
    """``if self.mask is None: self.mask = torch.ones(n).to(device)``: made by the first step."""
    match program.smallest_statement(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute(attr=name))]) as statement:
            child: cst.CSTNode = statement
        case _:
            return False
    for above in program.index.ancestors(statement):
        if isinstance(above, cst.If) and child is above.body:
            return name.value in program.code(above.test)
        if isinstance(above, cst.FunctionDef):
            return False
        child = above
    return False


def every_step(context: Context) -> bool:
    """Whether something runs in each and every training step or forward pass."""
    return context.role in (Role.TRAIN, Role.FORWARD) and not context.guarded


def step(context: Context) -> str:
    """Return what runs every time, as a phrase for messages."""
    return "forward pass" if context.role is Role.FORWARD else "training step"


def severity(program: Program, context: Context, named: bool | None = None) -> Severity | None:
    """Return a lower severity where the cost is paid once, or no GPU is named."""
    named = program.devices.named if named is None else named
    return None if every_step(context) and named else Severity.INFO


def fix(program: Program, move: cst.Call, made: cst.Call, goal: Goal) -> Fix | None:
    """Return the fix: the tensor is made where it is wanted."""
    if goal.device is None or not goal.plain or is_repeated(program, made):
        return None
    if is_spread(move, made):
        return None
    dtype, renamed = typed(program, move, made, goal), empty(program, made, goal)
    if dtype is None or renamed is None:
        return None
    changes = "; ".join(doubts(program, move, made))
    return Fix(
        "Make it on the device",
        Safety.UNSAFE if changes else Safety.SAFE,
        (DropMethod(move), *renamed, *dtype, AddArgument(made, "device", goal.device)),
        changes=changes,
    )


def typed(
    program: Program, move: cst.Call, made: cst.Call, goal: Goal
) -> tuple[Rewrite, ...] | None:
    """Return what asks for the dtype of the move; None where the values would be others."""
    if goal.dtype is None:
        return ()
    direct = isinstance(move.func, cst.Attribute) and move.func.value is made
    if factory(program, made) not in ANY_TYPE or not direct:
        return None
    given = keywords(made).get("dtype")
    if given is not None:
        return (Replace(given, goal.dtype),)
    return (AddArgument(made, "dtype", goal.dtype),)


def empty(program: Program, made: cst.Call, goal: Goal) -> tuple[Rewrite, ...] | None:
    """Return what makes ``torch.empty(3)`` of ``torch.FloatTensor(3)``, which takes no device."""
    kind = unfilled_type(program, made)
    if kind is None:
        return ()
    if not isinstance(made.func, cst.Attribute):
        return None
    torch = program.code(made.func.value)
    named = Replace(made.func, f"{torch}.empty")
    if not kind or goal.dtype is not None:
        return (named,)
    return (named, AddArgument(made, "dtype", f"{torch}.{kind}"))


def doubts(program: Program, move: cst.Call, made: cst.Call) -> Iterator[str]:
    """Yield what is not the same when the tensor is made on the GPU."""
    name = factory(program, made)
    if name in RANDOM or is_drawn(move, made):
        yield "the numbers come from the random generator of the GPU"
    if name == "linspace" or (name == "arange" and not counts(program, made)):
        yield "the numbers may differ in the last digit"
    wanted = keywords(made).get("requires_grad")
    if wanted is not None and literal(wanted) != "False":
        yield "the tensor becomes a leaf, whose gradient is kept"


# -- torch.tensor(0.5, device=device) ---------------------------------------------------------


def scalars(program: Program) -> Iterator[Finding]:
    """Find single numbers that are copied to the GPU in every step."""
    for call in program.calls_of("torch.tensor"):
        words = keywords(call)
        number = words.get("data", call.args[0].value if call.args else None)
        if not is_number(number) or any(arg.star for arg in call.args):
            continue
        if not words.keys() <= {"data", "dtype", "device"}:
            continue
        whole, device = placed(program, call)
        context = program.context(call)
        if device is not None and every_step(context) and not is_seldom(program, call):
            yield Finding(
                whole,
                f"`{program.brief(call)}` copies a number to the GPU in every {step(context)}",
                filled(program, whole, call, device),
                severity(program, context),
                case="b",
                help="`torch.full((), number, device=...)` fills it in there",
            )


def is_number(node: cst.BaseExpression | None) -> bool:
    """Whether an expression is a literal number or boolean that ``full`` takes in every dtype."""
    match node:
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
            return isinstance(inner, cst.Integer | cst.Float) and is_number(inner)
        case cst.Name(value="True" | "False"):
            return True
        case cst.Integer() | cst.Float():
            return abs(node.evaluated_value) < LARGEST
        case _:
            return False


def placed(program: Program, call: cst.Call) -> tuple[cst.Call, str | None]:
    """Return the expression that puts a tensor on the GPU, and the device as code."""
    given = keywords(call).get("device")
    if given is not None:
        found = program.values.device(given)
        return call, program.code(given) if found is not None and found.gpu else None
    above = program.parent(program.parent(call) or call)
    match above:
        case cst.Call(func=cst.Attribute(value=moved, attr=cst.Name(value="to" | "cuda"))):
            goal = goal_of(program, above) if moved is call else None
            if goal is not None and goal.plain and goal.dtype is None:
                return above, goal.device
    return call, None


def filled(program: Program, whole: cst.Call, call: cst.Call, device: str) -> Fix | None:
    """Return the fix: the number is filled in on the GPU."""
    if not isinstance(call.func, cst.Attribute) or any("\n" in program.code(a) for a in call.args):
        return None
    words = keywords(call)
    number = program.code(words.get("data") or call.args[0].value)
    dtype = f", dtype={program.code(words['dtype'])}" if "dtype" in words else ""
    torch = program.code(call.func.value)
    code = f"{torch}.full((), {number}{dtype}, device={device})"
    return Fix("Fill it in on the device", Safety.SAFE, (Replace(whole, code),))


# -- torch.tensor(MEAN).to(device) ------------------------------------------------------------


def constants(program: Program) -> Iterator[Finding]:
    """Find constants, of several numbers each, that are copied to the GPU in every step."""
    for call in program.calls_of(*OF_NUMBERS):
        first = call.args[0] if call.args else None
        known = None if first is None or first.star else constant(program, first.value)
        context = program.context(call)
        if known is None and not is_of_kept(program, call):
            continue
        if context.role is not Role.TRAIN or not is_for_steps(program, call):
            continue
        if is_changed(program, call) or in_test(program, call):
            continue
        if not (is_uploaded(program, call) or is_uploaded_later(program, call)):
            continue
        yield Finding(
            call,
            f"`{program.brief(call)}` copies the same numbers to the GPU in every training step",
            None,
            Severity.INFO if known is Constant.NAMED else severity(program, context),
            case="b",
            help="make the tensor once, before the loop",
        )


def is_uploaded(program: Program, call: cst.Call) -> bool:
    """Whether a tensor is made on the GPU, or moved there as soon as it is made."""
    words = keywords(call)
    if "device" in words:
        found = program.values.device(words["device"])
        return found is not None and found.gpu
    return is_moved(program, call)


def is_moved(program: Program, node: cst.CSTNode) -> bool:
    """Whether a tensor is moved to the GPU where it stands, in another form perhaps."""
    while True:
        above = program.parent(program.parent(node) or node)
        match above:
            case cst.Call(func=cst.Attribute(value=moved, attr=attr)) if moved is node:
                if attr.value in ("to", "cuda") and goal_of(program, above) is not None:
                    return True
                if attr.value not in SAME and attr.value != "to":
                    return False
            case _:
                return False
        node = above


def is_uploaded_later(program: Program, call: cst.Call) -> bool:
    """``w = torch.from_numpy(w)``, and then ``w = w.cuda()``, in a branch perhaps."""
    match program.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            binding = program.index.bound(name)
        case _:
            return False
    loops = list(loops_around(program, call))
    return any(
        list(loops_around(program, use)) == loops and is_moved(program, use)
        for use in (() if binding is None else uses_of(program, binding))
    )


def is_changed(program: Program, call: cst.Call) -> bool:
    """Whether the tensor gets gradients, or the turn may write into it: each needs its own."""
    return "requires_grad" in keywords(call) or may_write(program, call)


def may_write(program: Program, use: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether what uses a tensor writes into it, or hands it to what may."""
    above = program.parent(use)
    match above:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if depth < 3:
            binding = program.index.bound(name)
            uses = [] if binding is None else uses_of(program, binding)
            return binding is None or any(may_write(program, one, depth + 1) for one in uses)
        case cst.Assign() | cst.AnnAssign() | cst.AugAssign() | cst.AssignTarget() | cst.Return():
            return True
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is use:
            call = program.parent(above)
            if isinstance(call, cst.Call):
                return name.endswith("_") or may_write(program, call, depth)
            return name in ("requires_grad", "grad", "data")
        case cst.Subscript(value=value) if value is use:
            return may_write(program, above, depth)
        case cst.Arg():
            call = program.parent(above)
            return not (
                isinstance(call, cst.Call)
                and (only_reads(program, call) or is_read_by(program, use, call, depth))
            )
        case _:
            return False


def is_read_by(program: Program, use: cst.BaseExpression, call: cst.Call, depth: int) -> bool:
    """Whether a call runs a function that is seen, and which only reads what it is given."""
    taken = received(program, call, use) if depth <= 2 else None
    if taken is None:
        return False
    home, binding = taken
    return not any(may_write(home, one, depth + 1) for one in uses_of(home, binding))


def only_reads(program: Program, call: cst.Call) -> bool:
    """Whether a call is of a model, or of what torch has that writes into no argument.

    A method that writes does so into its own tensor: ``x.masked_scatter_(mask, y)``.
    """
    name = program.qualified(call.func)
    if name.startswith("torch."):
        return not (name.startswith("torch.distributed.") or name.endswith("_"))
    if isinstance(call.func, cst.Attribute) and program.value(call.func.value).is_tensor:
        return call.func.attr.value not in SHARING and "out" not in keywords(call)
    method = isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("_")
    return not method and program.value(call.func).kind is Kind.MODULE


# -- torch.tensor(np.zeros(n)).to(device) -----------------------------------------------------


def arrays(program: Program) -> Iterator[Finding]:
    """Find arrays that NumPy makes in every step only for a tensor on the GPU."""
    for call in program.calls_of(*ARRAYS):
        found = upload_of(program, call) if is_for_steps(program, call) else None
        if found is not None and is_for_steps(program, found.tensor):
            yield uploaded(program, call, found)


def is_for_steps(program: Program, node: cst.CSTNode) -> bool:
    """Whether each step runs something, and for more than the first of them."""
    return every_step(program.context(node)) and not is_seldom(program, node)


def uploaded(program: Program, array: cst.Call, found: Upload) -> Finding:
    """Return the finding for an array; as information where a one is put into each row."""
    context = program.context(array)
    what = (
        "is made on the host and then"
        if found.plain
        else "is made and filled on the host, and then"
    )
    makes = "torch has functions like this one, with `device=`"
    return Finding(
        found.tensor,
        f"`{program.brief(array)}` {what} copied to the GPU in every {step(context)}",
        None,
        severity(program, context) if found.plain else Severity.INFO,
        case="c",
        help=f"make it there: {makes if found.plain else '`torch.nn.functional.one_hot`'}",
    )
