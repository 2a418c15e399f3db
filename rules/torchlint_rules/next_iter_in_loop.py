"""Every training step starts a new pass over the data, and drops it after one batch.

## Why
`iter(loader)` starts a pass: it draws a new order of all samples and, with `num_workers`, starts
the worker processes, which then fetch several batches ahead. `next(iter(loader))` takes one batch
of that and throws the rest away. A step may get samples again that the step before had, or, without
shuffling, the same first batch each time.

## Bad
    from torch.utils.data import DataLoader

    def train(dataset, model, steps):
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        for step in range(steps):
            x, y = next(iter(loader))
            model(x, y).backward()

## Good
    import itertools

    from torch.utils.data import DataLoader

    def train(dataset, model, steps):
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        for step in range(steps):
            x, y = next(batches)
            model(x, y).backward()

## Leaves alone
- A look at one batch outside of steps, or in one of them (`if step == 0:`).
- An iterator that is made anew where the last one has ended, or that gives several batches.
- What is not known to be a DataLoader: the iterator of a generator is the generator itself.
- Loaders that are made, or whose dataset is changed, in the loop.

It is information for steps that do not train or that nothing is seen to repeat, and for draws in
some steps. No fix for an iterator with a name, in a function of its own, and under a framework.

## Fix safety
Unsafe: it changes which samples a step gets, on purpose: each is seen once before any is seen
again. The iterator is made before the outermost loop of the steps and starts the next pass by
itself. Where workers are persistent, other passes over the loader begin it anew.

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

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddImport, InsertBefore, Replace
from torchlint.rule import Finding
from torchlint.semantics.values import UNKNOWN
from torchlint.training.draws import Draw, draws, loops_around
from torchlint.training.frequency import Rate
from torchlint.training.guards import Guard
from torchlint.training.hoisting import free_name, is_unchanged, named_after
from torchlint.training.loaders import loaders_in
from torchlint.training.passes import loops_making
from torchlint.training.spelling import name_at
from torchlint.training.turns import most_turns
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator as Several

    from torchlint.training.frequency import Frequency
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

NOW_AND_THEN = (Guard.PERIODIC, Guard.CLOCK)


def next_iter_in_loop(script: Script) -> Several[Finding]:
    """Find iterators over a loader that are made in every step."""
    found = [(draw, script.frequency(draw.made)) for draw in draws(script)]
    every = [draw for draw, often in found if often.rate in judging.STEPS and often.guard is None]
    for draw, often in found:
        made = loaders_in(script.value(draw.source))
        loaders = [one for one in script.connected.loaders if one.at in made]
        is_rare = often.rate in judging.STEPS and often.guard in NOW_AND_THEN
        starts = [o for o in loaders if o.has_workers is not False]  # processes that end with it
        counts = draw in every or (
            is_rare and not all(one.value("persistent_workers") for one in starts)
        )
        if counts and not any(has_reason(script, draw, often, one) for one in loaders):
            yield finding(script, draw, often, loaders, every)


def has_reason(script: Script, draw: Draw, frequency: Frequency, loader: Loader) -> bool:
    """Whether the first batch of a new pass is what is wanted here."""
    connected, loop = script.connected, frequency.loop
    if loop is None:  # a step that nothing is seen to repeat
        around = script.module.function(draw.made)
        home = connected.evaluation.module(loader.at.file)
        return around is not None and home.function(loader.node) is around
    node = connected.evaluation.node(loop)
    made = loops_making(connected.evaluation, loader.node, loader.at.file)
    if id(node) in made or most_turns(connected.evaluation, node, loop.file) == 1:
        return True
    scopes = connected.steps.region(node, loop.file).scopes
    return script.datasets(loader).is_changed_in(scopes)


def finding(
    script: Script, draw: Draw, frequency: Frequency, loaders: list[Loader], every: list[Draw]
) -> Finding:
    """Return the finding, with a fix where the iterator can be made before the loop."""
    workers = max((int(one.told("num_workers") or 0) for one in loaders), default=0)
    started = f" and {workers} worker process{'es' if workers > 1 else ''}" if workers else ""
    is_certain = frequency.guard is None and frequency.decided
    when = judging.every(frequency) if is_certain else f"some {judging.STEPS[frequency.rate]}s"
    first = loaders and all(in_order(script, one) for one in loaders)
    is_known = bool(loaders) and UNKNOWN not in script.value(draw.source)
    may_go = draw in every and not script.frameworks
    return Finding(
        draw.call,
        f"`{script.module.brief(draw.call)}` starts a new pass over the data{started} in {when}, "
        f"for one batch{': each time the first one' if first else ''}",
        fix(script, draw, every) if may_go else None,
        judging.severity(frequency, is_known, not script.frameworks),
        help="Make one iterator before the loop, and a new one when it has come to its end.",
    )


def in_order(script: Script, loader: Loader) -> bool:
    """Whether a loader certainly gives the samples of a dataset in their order."""
    is_plain = loader.told("shuffle", default=False) is False
    datasets = script.datasets(loader)
    return is_plain and loader.lacks("sampler", "batch_sampler") and datasets.is_iterable is False


def fix(script: Script, draw: Draw, found: list[Draw]) -> Fix | None:
    """Return the fix: one iterator before the outermost loop of training steps."""
    module = script.module
    loop, text = outermost(script, draw), module.code(draw.source)
    if loop is None or module.index.nearest(draw.call, cst.Try) is not None:
        return None
    together = [
        one
        for one in found
        if module.code(one.source) == text and module.index.inside(one.call, loop)
    ]
    name = free_name(module, named_after(text, "batches"), draw.call)
    chain, repeat = (name_at(script, loop, "itertools", one) for one in ("chain", "repeat"))
    if not (name and chain and repeat) or not all(one.plain for one in together):
        return None
    over = getattr(loop, "iter", None)
    is_one = len(together) == 1 and loops_around(script, draw.call)[-1] is loop
    is_one_pass = is_one and over is not None and module.code(over) == f"range(len({text}))"
    code = f"iter({text})" if is_one_pass else f"{chain}.from_iterable({repeat}({text}))"
    return Fix(
        f"Take the batches from one iterator, `{name}`",
        Safety.UNSAFE,
        (
            InsertBefore(loop, f"{name} = {code}"),
            *(Replace(one.call, f"next({name})") for one in together),
            *((AddImport("itertools"),) if "itertools." in code else ()),
        ),
        changes="passes over the data are finished, so that a step gets other samples",
    )


def outermost(script: Script, draw: Draw) -> cst.For | cst.While | None:
    """Return the outermost loop of steps before which the loader is known already."""
    connected = script.connected
    for loop in loops_around(script, draw.call):
        rate = connected.frequencies.rate_of(connected.evaluation.at(loop, script.file))
        match loop:
            case cst.For() | cst.While() if rate is Rate.STEP:
                if is_unchanged(script.module, draw.source, loop):
                    return loop
    return None
