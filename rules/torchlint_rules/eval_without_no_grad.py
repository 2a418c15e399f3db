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
- Evaluations that ask for gradients, or call what does: attacks, saliency maps, gradient penalties,
  forces, test-time training; and those that hand the model to code that is not seen.
- Results of which a gradient is asked later, and generators, which run in bits of other code.
- Benchmarks, unit tests, and evaluations that a framework runs.
- `Variable(x, volatile=True)` in code that only torch 0.3 and older run.
- Functions that are only named `test` or `predict`: without `model.eval()` they may be anything.

A second case, TL401b, is a forward pass in a training step of which only the detached result is
used: `fake = generator(z).detach()`, or `features = extractor(x)` of which all that is read is
`features.detach()`.  Its graph is recorded and thrown away, in every step.  A module without
parameters (a spectrogram, a blur with fixed weights in a buffer) records nothing of a batch.

## Fix safety
A function that is named for evaluation and does nothing else gets the decorator `@torch.no_grad()`,
another one, and code for torch 0.4, `with torch.no_grad():` around its loop (for TL401b, around the
statement).

Unsafe in general: without recording some layers run other kernels (`nn.TransformerEncoder`,
`nn.MultiheadAttention` and `nn.LSTM` round differently, and the first fills padding with zeros),
and what leaves the evaluation has no graph.  Safe where every layer of the model is seen and known
to give the same bits either way, nothing else is called that could notice, and nothing but numbers
leaves.

## Evidence
`torchlint bench TL401` on AMD EPYC, 1 thread, torch 2.13.0+cpu, 2026-11-22: time of a step before
and after, and their ratio with its 99% interval.
- evaluation, width 128, batch 32: 355 µs and 310 µs, 1.15 x (1.05 to 1.26): faster; results bitwise
  equal.
- evaluation, width 512, batch 128: 7.62 ms and 7.49 ms, 1.02 x (0.99 to 1.05): no measurable
  change; results bitwise equal.

On a GPU: not measured yet.

## References
- PyTorch documentation, "Autograd mechanics: Locally disabling gradient computation"
- PyTorch Performance Tuning Guide, "Disable gradient calculation for validation or inference"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.analysis.discarded import discarded
from torchlint.analysis.escapes import Way, escapes, feed_backward
from torchlint.analysis.evaluations import differentiates, evaluations, given_away
from torchlint.analysis.index import dotted
from torchlint.analysis.kernels import unnoticed
from torchlint.analysis.parameters import has_parameters
from torchlint.analysis.recording import Recording
from torchlint.analysis.rewrites import AddDecorator, Wrap
from torchlint.analysis.spelling import of_torch
from torchlint.analysis.timing import measures
from torchlint.edits import Fix, Safety
from torchlint.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.escapes import Escape
    from torchlint.analysis.evaluations import Evaluation
    from torchlint.analysis.program import Program
    from torchlint.analysis.rewrites import Rewrite

# Frameworks that leave it to the script to turn gradients off.
LEAVE_IT = frozenset({"accelerate", "deepspeed"})
DECORATES = Version("1.0")  # what ends before it may be for 0.4.0: `no_grad` is a block there
NO_GRAD = Version("0.4")  # before it, `volatile=True` turns gradients off, and nothing else does
TESTING = frozenset({"pytest", "unittest"})


def eval_without_no_grad(program: Program) -> Iterator[Finding]:
    """Find evaluations that are recorded for gradients that nobody asks for."""
    if program.frameworks - LEAVE_IT or imports(program, TESTING):
        return
    seen: set[int] = set()
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
        yield evaluation(program, one, place, left)
    for forward in discarded(program):
        yield dropped(program, forward)


def imports(program: Program, modules: frozenset[str]) -> bool:
    """Whether a file imports one of some modules."""
    root = program.index.root
    names = (program.names.root(name, root) for name in root.bindings)
    return any(name.partition(".")[0] in modules for name in names)


def is_measured(program: Program, one: Evaluation) -> bool:
    """Whether an evaluation is a benchmark."""
    return measures(program, [one.place, one.function or program.module])


def is_volatile(program: Program, place: cst.CSTNode) -> bool:
    """Whether an evaluation for torch 0.3 turns gradients off, as it is done there."""
    return not program.reaches(NO_GRAD) and "volatile" in program.code(place)


def target(program: Program, one: Evaluation) -> cst.FunctionDef | cst.For | cst.While:
    """Return what to turn gradients off for: the function, if all it does is evaluate."""
    function = one.function
    if function is None or not one.named or not is_plain(function):
        return one.place
    if not program.reaches(DECORATES):
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
    place: cst.FunctionDef | cst.For | cst.While,
    left: list[Escape],
) -> Finding:
    """Return the finding of an evaluation."""
    kept = any(way.way is not Way.READ for way in left)
    advice = (
        one.recording is Recording.ASSUMED or bool(program.frameworks) or (kept and not one.named)
    )
    unless = ", unless its caller turns them off" if one.recording is Recording.ASSUMED else ""
    return Finding(
        one.forward,
        f"`{program.brief(one.forward)}` is recorded for gradients that this evaluation never asks "
        f"for{unless}; `eval()` alone does not turn them off",
        None if program.frameworks else fix(program, place, left),
        Severity.INFO if advice else None,
        help=advised(program),
    )


def advised(program: Program) -> str:
    """Say what to know about the finding."""
    if not program.reaches(NO_GRAD):
        return "It is code for torch 0.3: pass `volatile=True` to the Variable of the input."
    if "volatile" in program.text:
        return "`volatile=True` has had no effect since torch 0.4: use torch.no_grad()."
    return "Evaluate under torch.no_grad(): it frees the activations, and allows larger batches."


def fix(
    program: Program, place: cst.FunctionDef | cst.For | cst.While, left: list[Escape]
) -> Fix | None:
    """Return the decorator of the function, or the block around the loop."""
    if not program.reaches(NO_GRAD):
        return None
    spelled = of_torch(program, place, "no_grad")
    if spelled is None:
        return None
    rewrite: Rewrite
    if isinstance(place, cst.FunctionDef):
        title = f"Decorate `{place.name.value}` with @{spelled.code}()"
        rewrite = AddDecorator(place, f"@{spelled.code}()")
    else:
        title = f"Run the loop under {spelled.code}()"
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


def around(program: Program, forward: cst.Call) -> Fix | None:
    """Return the block around a statement that does nothing else."""
    statement = program.smallest_statement(forward)
    spelled = of_torch(program, forward, "no_grad") if program.reaches(NO_GRAD) else None
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
