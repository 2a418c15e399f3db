"""A model is evaluated with gradients on, which nobody asks for.

## Why
Unless it is told otherwise, autograd records every operation on a model's parameters, and keeps
the activations of every layer until the result is gone.  `model.eval()` does not change that: it
switches dropout and batch normalisation.  An evaluation that is recorded needs several times the
memory, and what is added up or collected in it (`total += loss`) keeps every batch's graph alive.

## Bad
    import torch
    import torch.nn.functional as F

    def train(model, batches, optimizer):
        model.train()
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def evaluate(model, batches):
        model.eval()
        correct = 0
        for x, y in batches:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct

    def main(model, batches, optimizer):
        for epoch in range(10):
            train(model, batches, optimizer)
            print(evaluate(model, batches))

## Good
    import torch
    import torch.nn.functional as F

    def train(model, batches, optimizer):
        model.train()
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def evaluate(model, batches):
        model.eval()
        correct = 0
        for x, y in batches:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct

    def main(model, batches, optimizer):
        for epoch in range(10):
            train(model, batches, optimizer)
            print(evaluate(model, batches))

## Leaves alone
- What runs under `torch.no_grad()`, `torch.inference_mode()` or `torch.set_grad_enabled(False)`,
  here or where the function is called, and what is under a context or decorator that is not known.
  Where only some of the calls that are seen turn gradients off, it is a note.
- Evaluations that ask for gradients, or call what does: attacks, saliency maps, gradient penalties,
  forces, test-time training; and those that hand the model to code that is not seen.  Of a model
  whose forward pass is not seen, all in a project with a module that asks for gradients itself.
- Results of which a gradient is asked later, and generators, which run in bits of other code.
- Benchmarks, unit tests, and evaluations that a framework runs.  An evaluation that reads a clock
  beside what it does with the output is no benchmark.
- A single forward pass outside of loops (a graph or a data set in one batch), unless all that is
  read of its output are numbers, labels and losses; at the end of a script it is a note.
- `Variable(x, volatile=True)` in code that only torch 0.3 and older run, or that is declared to be
  for those; also in a function that the evaluation calls, by what it passes
  (`volatile=mode != "train"`).  It has had no effect since torch 0.4: elsewhere a forward pass of
  such a variable is reported, wherever it stands.
- Functions that are only named `test` or `predict`: without `model.eval()` they may be anything.

A function that is handed the model after `model.eval()` is part of that evaluation, where nothing
that calls it asks for gradients; it is a note where it returns what may have a graph.  So is one
that a training calls, where each call stands after `model.eval()` in its block and nothing between
it and `model.train()` asks for gradients, and what such a function hands the model on to.  Where
training steps call a function as well that only runs the model, which it is handed or which its
object has (`self.loss_of(batch)`), the call in the evaluation is reported.  A loop after the epochs
is an evaluation where each epoch ends with `model.eval()`.

A function that trains or evaluates by a flag (`if train: loss.backward()`, `if not validating:`, or
`if validating: continue` before it), or by what it is passed (`train = phase == "train"`), is
reported where a call passes by that branch and leaves gradients on; nothing is where it keeps or
returns what has a graph.

A second case, TL401b, is a forward pass in a training step of which only the detached result is
used: `fake = generator(z).detach()`, or `features = extractor(x)` of which all that is read is
`features.detach()`, or of which only numbers and labels are read: `q_values.argmax()`, and what is
drawn, as in `Categorical(policy(state)).sample()`.  A method that runs layers of its module is a
forward pass as well: `value = policy.value(state).item()`.  Its graph is recorded and thrown away,
in every step, or in those where an option asks for one more term of the loss
(`if args.perceptual: ...`); what runs now and then is a note, where it is given something other
than the batch of the step, and so is what runs between the epochs, whatever its function is called:
`images = generator(fixed).cpu().data.numpy()`, what runs beside `torch.autograd.grad()` in a
loop, wherever that loop is (some models are tuned before they are tested), and what runs in a loop
of a function that is named for an evaluation, but does not call `eval()`.  A module without
parameters (a spectrogram, a blur with fixed weights in a buffer) records nothing of a batch, and a
single layer without any (`nn.Softmax(dim=1)(out).argmax(1)`) little that is worth a line.

TL401b is also a forward pass, whose result goes into a loss, of a network that nobody trains, such
as a target network: all that is done with it is to run it and to copy or load its parameters
(`target.load_state_dict(net.state_dict())`), and no other network computes what it is given.

## Fix safety
A function that is named for evaluation and does nothing else gets the decorator `@torch.no_grad()`,
another one, and code that may run on torch 0.4.0, where it is no decorator, `with torch.no_grad():`
around its loop (for TL401b and a single forward pass, around the statement).

Unsafe in general: without recording some layers run other kernels (`nn.TransformerEncoder`,
`nn.MultiheadAttention` and `nn.LSTM` round differently, and the first fills padding with zeros),
and what leaves the evaluation has no graph.  Safe where every layer of the model is seen and known
to give the same bits either way, nothing else is called that could notice, and nothing but numbers
leaves.

## Evidence
`torchlint bench TL401` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- evaluation, width 128, batch 32: 242 µs and 213 µs, 1.13 x (1.12 to 1.15): faster; results bitwise
  equal.
- evaluation, width 512, batch 128: 4.20 ms and 4.06 ms, 1.04 x (1.02 to 1.05): faster; results
  bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Autograd mechanics: Locally disabling gradient computation"
- PyTorch Performance Tuning Guide, "Disable gradient calculation for validation or inference"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.asked import differentiates
from torchlint.analysis.copied import copied
from torchlint.analysis.discarded import discarded, model_of, read_off
from torchlint.analysis.escapes import Way, escapes, feed_backward
from torchlint.analysis.evaluations import evaluations, given_away
from torchlint.analysis.kernels import unnoticed
from torchlint.analysis.parameters import has_parameters
from torchlint.analysis.recording import Recording
from torchlint.analysis.shared_passes import shared_passes
from torchlint.analysis.spelling import of_torch
from torchlint.analysis.timing import is_named_for_it, measures
from torchlint.analysis.uses import uses_of
from torchlint.analysis.volatile import (
    asks_for_volatile,
    is_given_volatile,
    makes_volatile,
    volatile_passes,
)
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddDecorator, Wrap
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.escapes import Escape
    from torchlint.analysis.evaluations import Evaluation, Place
    from torchlint.analysis.program import Program
    from torchlint.analysis.shared_passes import SharedPass
    from torchlint.edits.rewrites import Rewrite

# Frameworks that leave it to the script to turn gradients off.
LEAVE_IT = frozenset({"accelerate", "deepspeed"})
DECORATES = Version("0.4.1")  # in 0.4.0 `no_grad` is a block, and no decorator
ENDS = Version("1.0")  # what ends before it may be for 0.4.0
NO_GRAD = Version("0.4")  # before it, `volatile=True` turns gradients off, and nothing else does
UNLESS = {
    Recording.ASSUMED: ", unless its caller turns them off",
    Recording.SOME: ", unless its caller turns them off, as only some do",
}
TESTING = frozenset({"pytest", "unittest"})


def eval_without_no_grad(program: Program) -> Iterator[Finding]:
    """Find evaluations that are recorded for gradients that nobody asks for."""
    if program.frameworks - LEAVE_IT or imports(program, TESTING):
        return
    seen: set[int] = set()
    reported: list[cst.CSTNode] = []
    for one in evaluations(program):
        if id(one.function) in seen or is_measured(program, one):
            continue
        place = target(program, one)
        if is_volatile(program, place):
            continue
        left = list(escapes(program, place))
        if feed_backward(program, left, one.function):
            continue
        if isinstance(place, cst.FunctionDef):
            seen.add(id(place))  # its decorator is for all of its loops
        reported.append(place)
        yield evaluation(program, one, place, left)
    for shared in shared_passes(program):
        if passes_volatile(program, shared):
            continue
        reported.append(shared.forward)
        yield also_evaluated(program, shared)
    for forward in discarded(program):
        if not has_no_grad(program) and is_given_volatile(program, forward):
            continue
        reported.append(forward)
        yield dropped(program, forward)
    for forward in read_off(program):
        told = any(program.index.inside(forward, place) for place in reported)
        if not told and not is_volatile(program, program.function(forward) or program.module):
            reported.append(forward)
            yield only_looked_at(program, forward)
    copies: list[cst.CSTNode] = []
    for forward in copied(program):
        told = any(program.index.inside(forward, place) for place in reported)
        if not told and not is_volatile(program, program.function(forward) or program.module):
            copies.append(forward)
            yield of_copy(program, forward)
    for forward in volatile_passes(program) if has_no_grad(program) else ():
        if not any(program.index.inside(forward, place) for place in (*reported, *copies)):
            yield of_volatile(program, forward)


def imports(program: Program, modules: frozenset[str]) -> bool:
    """Whether a file imports one of some modules."""
    return any(name.partition(".")[0] in modules for name in program.names.imported())


def is_measured(program: Program, one: Evaluation) -> bool:
    """Whether an evaluation is a benchmark: it is named so, or only its time is of use.

    Many evaluations read a clock for their log; they use what the model says as well.
    """
    places: list[cst.CSTNode] = [one.place, one.function or program.module]
    if is_named_for_it(program, places):
        return True
    return measures(program, places) and not is_used(program, one.forward)


def is_used(program: Program, forward: cst.Call) -> bool:
    """Whether something is done with what a model returns."""
    statement = program.parent(forward)
    if isinstance(statement, cst.Expr):
        return False
    if not isinstance(statement, cst.Assign):
        return True
    targets = (program.index.below(one, cst.Name) for one in statement.targets)
    bound = (program.index.bound(name) for names in targets for name in names)
    return any(any(True for _ in uses_of(program, one)) for one in bound if one is not None)


def has_no_grad(program: Program) -> bool:
    """Whether code is for torch 0.4 or newer: by what it uses, and what its project declares."""
    return program.may_run_on(NO_GRAD)


def has_decorator(program: Program) -> bool:
    """Whether `no_grad` is a decorator in every torch that code is for, as far as it is known."""
    oldest = program.target or program.named
    return program.reaches(ENDS) and (oldest is None or oldest >= DECORATES)


def is_volatile(program: Program, place: cst.CSTNode) -> bool:
    """Whether an evaluation for torch 0.3 turns gradients off, as it is done there."""
    return not has_no_grad(program) and asks_for_volatile(program, place)


def passes_volatile(program: Program, shared: SharedPass) -> bool:
    """Whether code for torch 0.3 turns gradients off by what the call that evaluates passes."""
    function = program.function(shared.forward)
    assert function is not None
    return not has_no_grad(program) and makes_volatile(program, function, shared.site)


def target(program: Program, one: Evaluation) -> Place:
    """Return what to turn gradients off for: the function, if all it does is evaluate."""
    function = one.function
    if function is None or not one.named or not is_plain(function):
        return one.place
    if not has_decorator(program):
        return one.place
    name = dotted(one.forward.func).removesuffix(".forward").removesuffix(".module")
    if differentiates(program, function) or given_away(program, function, name):
        return one.place
    return function


def is_plain(function: cst.FunctionDef) -> bool:
    """Whether a function has no decorators that a further one could disturb."""
    known = ("staticmethod", "classmethod")
    return all(dotted(item.decorator) in known for item in function.decorators)


# -- evaluations --------------------------------------------------------------------------------


def evaluation(
    program: Program,
    one: Evaluation,
    place: Place,
    left: list[Escape],
) -> Finding:
    """Return the finding of an evaluation."""
    kept = any(way.way is not Way.READ for way in left)
    advice = (
        one.recording is not Recording.ON
        or bool(program.frameworks)
        or (kept and not one.named)
        or not one.repeated
    )
    unless = UNLESS.get(one.recording, "")
    return Finding(
        one.forward,
        f"`{program.brief(one.forward)}` is recorded for gradients that this evaluation never asks "
        f"for{unless}; `eval()` alone does not turn them off",
        None if program.frameworks else fix(program, place, left),
        Severity.INFO if advice else None,
        help=advised(program),
    )


def also_evaluated(program: Program, one: SharedPass) -> Finding:
    """Return the finding of a function that trains or evaluates, by a flag."""
    assumed = one.home.recordings.at(one.site) is Recording.ASSUMED
    unless = ", unless its caller turns gradients off" if assumed else ""
    return Finding(
        one.forward,
        f"`{program.brief(one.forward)}` is recorded also where `{one.home.brief(one.site)}` "
        f"runs it, which asks for no gradients{unless}",
        severity=Severity.INFO if assumed or program.frameworks else None,
        help="Make that call under torch.no_grad(), or ask torch.set_grad_enabled by the flag.",
    )


def advised(program: Program) -> str:
    """Say what to know about the finding."""
    if not has_no_grad(program):
        return "It is code for torch 0.3: pass `volatile=True` to the Variable of the input."
    if "volatile" in program.text:
        return "`volatile=True` has had no effect since torch 0.4: use torch.no_grad()."
    return "Evaluate under torch.no_grad(): it frees the activations, and allows larger batches."


def fix(program: Program, place: Place, left: list[Escape]) -> Fix | None:
    """Return the decorator of the function, or the block around the loop."""
    if not has_no_grad(program):
        return None
    spelled = of_torch(program, place, "no_grad")
    if spelled is None:
        return None
    rewrite: Rewrite
    if isinstance(place, cst.FunctionDef):
        if not has_decorator(program):
            return None
        title = f"Decorate `{place.name.value}` with @{spelled.code}()"
        rewrite = AddDecorator(place, f"@{spelled.code}()")
    else:
        what = "the loop" if isinstance(place, cst.For | cst.While) else "it"
        title = f"Run {what} under {spelled.code}()"
        rewrite = Wrap((place,), f"with {spelled.code}():")
    proven = not left and unnoticed(program, place)
    changes = "some layers run other kernels without gradients"
    if left:
        changes += ", and what leaves the evaluation has no graph"
    return Fix(
        title,
        Safety.SAFE if proven else Safety.UNSAFE,
        (rewrite, *spelled.imports),
        changes="" if proven else changes,
    )


# -- what is only used detached -------------------------------------------------------------------


def dropped(program: Program, forward: cst.Call) -> Finding:
    """Return the finding of a forward pass whose graph is thrown away."""
    known = has_parameters(program, program.value(forward.func))
    return Finding(
        forward,
        f"`{program.brief(forward)}` is recorded in every training step, but only its detached "
        "result is used",
        None if program.frameworks else around(program, forward),
        None if known and not program.frameworks else Severity.INFO,
        case="b",
        help="Run it under torch.no_grad(): its activations are then freed layer by layer.",
    )


def only_looked_at(program: Program, forward: cst.Call) -> Finding:
    """Return the finding of a forward pass of which nothing is used that has a graph."""
    model = model_of(program, forward)
    known = model is not None and has_parameters(program, model)
    often = program.context(forward).per_step
    when = "in every training step" if often else "whenever it runs"
    return Finding(
        forward,
        f"`{program.brief(forward)}` is recorded {when}, but nothing that is used "
        "of its result has a graph",
        None if program.frameworks else around(program, forward),
        None if known and often and not program.frameworks else Severity.INFO,
        case="b",
        help="Run it under torch.no_grad(): its activations are then freed layer by layer.",
    )


def of_copy(program: Program, forward: cst.Call) -> Finding:
    """Return the finding of a forward pass of a network that nobody trains, within a loss."""
    name = dotted(forward.func)
    return Finding(
        forward,
        f"`{program.brief(forward)}` is recorded in every training step, but `{name}` is never "
        "trained: its parameters are only copied or loaded",
        None if program.frameworks else around(program, forward),
        Severity.INFO if program.frameworks else None,
        case="b",
        help="Run it under torch.no_grad(): backward() then need not go through it, either.",
    )


def of_volatile(program: Program, forward: cst.Call) -> Finding:
    """Return the finding of a forward pass that was to be recorded for nothing."""
    assumed = program.recordings.at(forward) is Recording.ASSUMED
    unless = ", unless its caller turns gradients off" if assumed else ""
    return Finding(
        forward,
        f"`{program.brief(forward)}` is recorded{unless}: `volatile=True` has had no effect since "
        "torch 0.4",
        None if program.frameworks else around(program, forward),
        Severity.INFO if assumed or program.frameworks else None,
        help="Run it under torch.no_grad().",
    )


def around(program: Program, forward: cst.Call) -> Fix | None:
    """Return the block around a statement that does nothing else."""
    statement = program.smallest_statement(forward)
    spelled = of_torch(program, forward, "no_grad") if has_no_grad(program) else None
    if spelled is None or not isinstance(statement, cst.Assign | cst.AnnAssign):
        return None
    value = statement.value
    match value:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("detach"))):
            value = inner
        case _:
            pass
    if value is not forward:
        return None
    return Fix(
        f"Run it under {spelled.code}()",
        Safety.UNSAFE,
        (Wrap((statement,), f"with {spelled.code}():"), *spelled.imports),
        changes="some layers run other kernels without gradients",
    )
