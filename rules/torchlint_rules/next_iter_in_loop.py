"""Every training step starts a new pass over the data, and drops it after one batch.

## Why
`iter(loader)` starts a pass: it draws a new order of all samples and, with `num_workers`, starts
the worker processes, which then fetch several batches ahead.  `next(iter(loader))` takes one batch
of that and throws the rest away.  In a training loop this is paid in every step; and the passes
are never finished: a step may get samples again that the step before had, or, without shuffling,
the same first batch each time.

## Bad
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer, steps):
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        for step in range(steps):
            x, y = next(iter(loader))
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Good
    import itertools

    import torch
    from torch.utils.data import DataLoader

    def train(dataset, model, optimizer, steps):
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        for step in range(steps):
            x, y = next(batches)
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

## Leaves alone
- A look at one batch: outside of training steps, or now and then (`if step % 100 == 0:`).
- An iterator that is made anew where the last one has ended (`except StopIteration:`, or an `if`
  that counts).
- What is not known to be a DataLoader: the iterator of a generator is the generator itself.
- Training on one batch on purpose: the function speaks of overfitting or of a single batch.
- Loaders whose batch is the whole dataset (`batch_size=len(dataset)`), and those that are made in
  the loop, or whose dataset or sampler is used in it: it may have changed since the last step.

Reported as information: every few steps (`if step % 10 == 0:`), from a loader with workers, which
are started each time.

Reported without a fix: an iterator made at the start of a step and used in it, a step in a
function of its own, to which the iterator would have to be passed, and training that a framework
runs.

## Fix safety
Unsafe: it changes which samples a step gets, on purpose.  Passes are now finished, so that each
sample is seen once before any is seen again.  The iterator is made before the outermost loop of
the training steps and starts the next pass by itself; a loop over `range(len(loader))` gets the
iterator of one pass.  A loader without a single batch now keeps the loop waiting, where it used to
raise StopIteration.

## Evidence
`torchlint bench TL106` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, samples 50000, steps 16, workers 0: 26.0 ms and 7.82 ms, 3.32 x (2.76 to 4.00): faster;
  results as E3 allows.
- epoch, samples 1024, steps 16, workers 0: 7.70 ms and 6.43 ms, 1.20 x (1.17 to 1.23): faster;
  results as E3 allows.
- epoch, samples 1024, steps 4, workers 1: 111 ms and 33.4 ms, 3.34 x (3.25 to 3.43): faster;
  results as E3 allows.

On a GPU: not measured yet.

## References
- PyTorch documentation, "torch.utils.data: Single- and Multi-process Data Loading"
- Python documentation, "itertools.chain.from_iterable"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.epochs import runs_once
from torchlint.analysis.hoisting import free_name, loops_around, mentions, unchanged_in
from torchlint.analysis.importing import texts_of_importers
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.loops import Role
from torchlint.analysis.step_counters import step_counter
from torchlint.analysis.values import Kind
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddImport, InsertBefore, Replace
from torchlint.rule import Finding, Severity
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.hoisting import Loop
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

ON_PURPOSE = re.compile(
    r"over-?_?fit|sanity|smoke|(single|same|fixed)[-_ ](mini-?)?batch", re.IGNORECASE
)
_SOMETIMES = (cst.If, cst.Else, cst.ExceptHandler)
FEW = 20  # steps: starting workers takes as long as some of them
LOADER_NAME = re.compile(r"_?(data|batch)?_?(loader|iter|dl)$")


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A call that takes the first batch of a new iterator over ``source``.

    ``plain``: the call itself is ``next(iter(source))``.
    """

    call: cst.Call
    source: cst.BaseExpression
    plain: bool


def next_iter_in_loop(program: Program) -> Iterator[Finding]:
    """Find iterators over a loader that are made in every training step, or every few."""
    found = [
        draw
        for draw in draws(program)
        if may_repeat(program, draw.call)
        and program.value(draw.source).kind is Kind.LOADER
        and program.context(draw.call).role is Role.TRAIN
    ]
    every = [draw for draw in found if in_every_step(program, draw)]
    for draw in found:
        made = program.value(draw.source).made
        loader = made if isinstance(made, cst.Call) and program.parent(made) else None
        steps = 1 if draw in every else steps_between(program, draw, loader)
        if steps is None or has_reason(program, draw, loader):
            continue
        if steps == 1:
            yield finding(program, draw, loader, every)
        else:
            yield of_few_steps(program, draw, steps)


def draws(program: Program) -> Iterator[Draw]:
    """Find ``next(iter(x))``, in any spelling."""
    for call in program.index.of(cst.Call):
        match call:
            case cst.Call(func=cst.Name(value="next") as func, args=[cst.Arg(value=taken), *_]):
                if not program.is_builtin(func):
                    continue
            case cst.Call(
                func=cst.Attribute(value=taken, attr=cst.Name(value="next" | "__next__")), args=[]
            ):
                pass
            case _:
                continue
        made = made_in_same_turn(program, call, taken) if isinstance(taken, cst.Name) else taken
        source = iterated(program, made)
        if source is not None and not is_of_container(source):
            plain = isinstance(taken, cst.Call) and dotted(taken.func) == "iter"
            yield Draw(call, source, plain and len(call.args) < 2)


def iterated(program: Program, node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return what ``iter(x)`` or ``enumerate(x)`` makes an iterator of."""
    match node:
        case (
            cst.Call(func=cst.Name(value="iter") as func, args=[cst.Arg(value=source)])
            | cst.Call(func=cst.Name(value="enumerate") as func, args=[cst.Arg(value=source), *_])
        ) if program.is_builtin(func):
            return source
        case _:
            return None


def is_of_container(node: cst.BaseExpression) -> bool:
    """``d.values()``, ``model.parameters()``: seen not to be a loader without asking further."""
    return isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in (
        "values", "keys", "items", "parameters", "named_parameters", "children", "modules",
        "buffers",
    )  # fmt: skip


def made_in_same_turn(program: Program, call: cst.Call, name: cst.Name) -> cst.CSTNode | None:
    """Return the value of a name that the turn of the loop gave it in which it is used."""
    match program.flow.reaching(name):
        case (Binding(is_plain=True, value=value, node=node),):
            above = (one for one in program.index.ancestors(node) if isinstance(one, _SOMETIMES))
            if not all(program.index.inside(call, one) for one in above):
                return None  # a new pass where the last one has come to its end
            loop = next(loops_around(program, call), None)
            same = loop is not None and loop is next(loops_around(program, node), None)
            return value if same else None
        case _:
            return None


def may_repeat(program: Program, call: cst.Call) -> bool:
    """Whether a loop is around a call, or its function is named elsewhere: that costs little."""
    if any(loops_around(program, call)):
        return True
    function = program.function(call)
    if function is None or function.name.value.startswith("__"):
        return False
    name = function.name.value
    if program.calls.named(name) or program.project is None:
        return True
    return any(name in text for text in texts_of_importers(program))


def in_every_step(program: Program, draw: Draw) -> bool:
    """Whether a loop of training steps is seen to make the call in each of its turns."""
    context = program.context(draw.call)
    if not context.per_step:
        return False
    if any(runs_once(program, loop) for loop in loops_around(program, draw.call)):
        return False
    if not isinstance(context.loop, cst.FunctionDef):
        return True
    sites = [(program, site) for site in program.calls.sites(context.loop)]
    if program.project is not None:
        sites += program.project.callers(program, context.loop)
    return any(next(loops_around(home, site), None) is not None for home, site in sites)


def steps_between(program: Program, draw: Draw, loader: cst.Call | None) -> int | None:
    """Return every how many steps a draw starts workers, if that is every few of them."""
    loop = next(loops_around(program, draw.call), None)
    if loop is None or loader is None or not starts_workers(program, draw, loader):
        return None
    guards = [one for one in program.index.ancestors(draw.call) if isinstance(one, cst.If)]
    inside = [one for one in guards if program.index.inside(one, loop)]
    if len(inside) != 1 or not program.index.inside(draw.call, inside[0].body):
        return None
    steps = period(program, inside[0], loop)
    return steps if steps is not None and 1 < steps <= FEW else None


def starts_workers(program: Program, draw: Draw, loader: cst.Call) -> bool:
    """Whether a loader is told to have workers, which end with the iterator they are made for."""
    given = program.argument(loader, "num_workers", LOADER).values
    some = bool(given) and all(program.arguments.number(one) != 0 for one in given)
    return some and not keeps_workers(program, draw)


def period(program: Program, guard: cst.If, loop: Loop) -> int | None:
    """Return n where a guard is ``if step % n == 0:`` of what counts the turns of a loop."""
    match guard.test:
        case cst.Comparison(
            left=cst.BinaryOperation(
                operator=cst.Modulo(), left=cst.Name(value=counted), right=cst.Integer() as steps
            ),
            comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Integer())],
        ) if step_counter(program, guard, loop) == counted:
            return program.arguments.number(steps)
        case _:
            return None


def has_reason(program: Program, draw: Draw, loader: cst.Call | None) -> bool:
    """Whether the first batch of a new pass is what is wanted here."""
    home = program.function(draw.call) or [*loops_around(program, draw.call)][-1]
    if ON_PURPOSE.search(program.code(home)):
        return True
    if loader is None:
        return False
    for loop in loops_around(program, draw.call):
        if program.index.inside(loader, loop) or touches(program, draw, loader, loop):
            return True
    return takes_all(program, loader)


def touches(program: Program, draw: Draw, loader: cst.Call, loop: Loop) -> bool:
    """Whether a loop uses the dataset or sampler of a loader, which may then change."""
    for name in ("dataset", "sampler", "batch_sampler"):
        for value in program.argument(loader, name, LOADER).values:
            if any(not measured(program, node) for node in mentions(program, value, loop)):
                return True
    return any(
        node.attr.value in ("dataset", "sampler", "batch_sampler")
        and not measured(program, node)
        and program.code(node.value) == program.code(draw.source)
        for node in program.index.below(loop, cst.Attribute)
    )


def measured(program: Program, node: cst.CSTNode) -> bool:
    """``len(x)``."""
    arg = program.parent(node)
    call = None if arg is None else program.parent(arg)
    return isinstance(call, cst.Call) and dotted(call.func) == "len"


def takes_all(program: Program, loader: cst.Call) -> bool:
    """Whether one batch is the whole dataset."""
    sizes = program.argument(loader, "batch_size", LOADER).values
    return any(isinstance(size, cst.Call) and dotted(size.func) == "len" for size in sizes)


def of_few_steps(program: Program, draw: Draw, steps: int) -> Finding:
    """Tell of workers that are started every few steps: what they load ahead is thrown away."""
    return Finding(
        draw.call,
        f"`{program.brief(draw.call)}` starts the workers anew every {steps} steps, for one batch",
        severity=Severity.INFO,
        help="Make one iterator before the loop, and a new one when it has come to its end.",
    )


def finding(program: Program, draw: Draw, loader: cst.Call | None, found: list[Draw]) -> Finding:
    """Return the finding, with a fix where the iterator can be made before the loop."""
    framework = bool(program.frameworks)
    workers = None if loader is None else workers_of(program, loader)
    started = f" and {workers} worker processes" if workers else ""
    what = f"starts a new pass over the data{started} in every training step, for one batch"
    if loader is not None and in_order(program, loader):
        what += ": each time the first one"
    return Finding(
        draw.call,
        f"`{program.brief(draw.call)}` {what}",
        None if framework else fix(program, draw, found),
        Severity.INFO if framework else None,
        help="Make one iterator before the loop, and a new one when it has come to its end.",
    )


def workers_of(program: Program, loader: cst.Call) -> int | None:
    """Return the number of worker processes that a loader certainly starts."""
    values = program.argument(loader, "num_workers", LOADER).values
    return program.arguments.number(values[0]) if len(values) == 1 else None


def in_order(program: Program, loader: cst.Call) -> bool:
    """Whether a loader certainly gives the samples of a dataset in their order."""
    given = [program.argument(loader, name, LOADER) for name in ("sampler", "batch_sampler")]
    shuffle = program.argument(loader, "shuffle", LOADER)
    dataset = program.value(next(iter(program.argument(loader, "dataset", LOADER).values), None))
    return (
        all(argument.absent for argument in given)
        and (shuffle.absent or shuffle.literal() == "False")
        and dataset.kind is Kind.DATASET
        and not dataset.type.endswith("IterableDataset")
    )


def fix(program: Program, draw: Draw, found: list[Draw]) -> Fix | None:
    """Return the fix: one iterator before the outermost loop of training steps."""
    loop = outermost(program, draw)
    if loop is None or catches_the_end(program, draw.call):
        return None
    text = program.code(draw.source)
    together = [
        one
        for one in found
        if program.code(one.source) == text and program.index.inside(one.call, loop)
    ]
    name = free_name(program, names_for(text), draw.call)
    endless = wanted(program, draw, loop, together)
    if name is None or not all(one.plain for one in together) or endless is None:
        return None
    code, imports = endless
    replaced = (Replace(one.call, f"next({name})") for one in together)
    return Fix(
        f"Take the batches from one iterator, `{name}`",
        Safety.UNSAFE,
        (InsertBefore(loop, f"{name} = {code}"), *replaced, *imports),
        changes="passes over the data are finished, so that a step gets other samples",
    )


def outermost(program: Program, draw: Draw) -> Loop | None:
    """Return the outermost loop of training steps before which the loader is known already."""
    training = [
        loop
        for loop in loops_around(program, draw.call)
        if program.loops.role(loop) is Role.TRAIN and unchanged_in(program, draw.source, loop)
    ]
    return training[-1] if training else None


def catches_the_end(program: Program, call: cst.Call) -> bool:
    """Whether the call stands in a ``try`` that may be there for the end of the data."""
    return any(isinstance(above, cst.Try) for above in program.index.ancestors(call))


def names_for(loader: str) -> tuple[str, ...]:
    """Return names for the iterator: ``train_batches`` for ``self.train_loader``."""
    last = re.findall(r"\w+", loader)[-1]
    stem = LOADER_NAME.sub("", last)
    name = f"{stem}_batches" if stem else "batches"
    return name, f"{last}_batches"


def wanted(
    program: Program, draw: Draw, loop: Loop, together: list[Draw]
) -> tuple[str, tuple[Rewrite, ...]] | None:
    """Return the code of the iterator, of one pass or of one pass after another."""
    text = program.code(draw.source)
    others = [node for node in mentions(program, draw.source, loop) if not measured(program, node)]
    if len(others) > len(together) and keeps_workers(program, draw):
        return None  # all of its iterators are one and the same
    if len(together) == 1 and is_one_pass(program, draw.call, loop, text):
        return f"iter({text})", ()
    scope = program.index.scope(loop)
    if scope.owner("itertools") and program.names.root("itertools", scope) != "itertools":
        return None
    return f"itertools.chain.from_iterable(itertools.repeat({text}))", (AddImport("itertools"),)


def keeps_workers(program: Program, draw: Draw) -> bool:
    """Whether the loader may have persistent workers."""
    made = program.value(draw.source).made
    if not (isinstance(made, cst.Call) and program.parent(made)):
        return True
    kept = program.argument(made, "persistent_workers", LOADER)
    return not (kept.absent or kept.literal() == "False")


def is_one_pass(program: Program, call: cst.Call, loop: Loop, text: str) -> bool:
    """``for i in range(len(loader))``, where each turn takes a batch."""
    match loop:
        case cst.For(
            iter=cst.Call(
                func=cst.Name(value="range"),
                args=[cst.Arg(value=cst.Call(func=cst.Name(value="len"), args=[only]))],
            )
        ):
            straight = program.parent(program.statement(call)) is loop.body
            return straight and program.code(only.value) == text
        case _:
            return False
