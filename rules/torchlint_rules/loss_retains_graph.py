"""A running total or a list keeps the graph of every step alive.

## Why
A loss is a tensor that knows how it was computed. Adding it to a total, a list or a meter of the
project (`meter.update(loss, n)`) keeps that graph, one more in every step, so that memory grows
until the loop ends. After a backward pass little is left of a graph; in an evaluation that runs
none it holds the activations of every layer.

## Bad
    import torch.nn.functional as F

    def train(model, batches):
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total += loss
        return total / len(batches)

## Good
    import torch.nn.functional as F

    def train(model, batches):
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total += loss.detach()
        return total / len(batches)

## Leaves alone
- Totals and containers of which a gradient is asked: losses that are added up for one backward
  pass, returns of a policy, a memory bank that learns.
- What is detached, a number (`.item()`), a count, or made under `torch.no_grad()`.
- What starts anew in the loop, is emptied in it, or takes something now and then only.
- `deque(maxlen=...)`, and objects of classes that are not in the project.

It is information where an unknown condition or caller decides, and beside a framework.

## Fix safety
Safe: `.detach()` gives the same numbers on the same device, and after the backward pass nobody can
ask a gradient of them. Unsafe in files that keep graphs (`retain_graph`), where a caller may ask a
gradient of an evaluation, and where the total or container itself is shown, with its `grad_fn`.

## Evidence
`torchlint bench TL402` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- epoch, width 64, batches 16: 5.21 ms and 4.81 ms, 1.08 x (1.05 to 1.11): faster; results bitwise
  equal.
- epoch, width 512, batches 8: 15.3 ms and 14.5 ms, 1.05 x (1.03 to 1.08): faster; results bitwise
  equal.

On a GPU: not measured yet.

## References
- PyTorch FAQ, "My model reports cuda runtime error(2): out of memory"
- PyTorch documentation, "Autograd mechanics"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import Replace
from torchlint.rule import Finding, Severity
from torchlint.semantics.values import Library
from torchlint.training.frequency import Rate
from torchlint.training.model_calls import Recording
from torchlint_rules.judging import safety

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.graphs import Growth
    from torchlint.training.script import Script

SHOWS = frozenset({"builtins.print", "builtins.str", "builtins.repr", "builtins.format"})


def loss_retains_graph(script: Script) -> Iterator[Finding]:
    """Find totals and containers that keep a graph of every step."""
    for one in script.connected.graphs.growths.values():
        if one.file != script.file or recordings(script, one) == {Recording.UNKNOWN}:
            continue
        named = ", ".join(f"`{script.module.brief(leaf)}`" for leaf in one.leaves)
        is_training = one.frequency.rate is Rate.STEP
        what = "training step alive" if is_training else "batch alive, with all of its activations"
        yield Finding(
            one.node,
            f"`{script.module.brief(one.node)}` keeps the graph of {named} of every {what}",
            None if script.frameworks else fix(script, one),
            severity(script, one),
            help="Keep `.detach()` of it: the same numbers, without the graph.",
        )


def severity(script: Script, one: Growth) -> Severity | None:
    """Tell how bad it is: in an evaluation the memory runs out."""
    if script.frameworks or not (
        one.frequency.certain and one.decided and is_recorded(script, one)
    ):
        return Severity.INFO
    return None if one.frequency.rate is Rate.STEP else Severity.ERROR


def is_recorded(script: Script, one: Growth) -> bool:
    """Whether gradients are on in the evaluation, for all that is seen."""
    if one.frequency.rate is Rate.STEP:
        return True
    return recordings(script, one) == {Recording.ON}


def recordings(script: Script, one: Growth) -> set[Recording]:
    """Return whether the runs of models are recorded whose results are kept."""
    models = script.connected.model_calls
    return set(map(models.recording, models.behind(one.leaves)))


def fix(script: Script, one: Growth) -> Fix:
    """Return the replacement of each tensor by itself without its graph."""
    words = script.module.index.named.keys()
    doubts = (
        ("the graph may be kept on purpose", words & {"retain_graph", "create_graph"}),
        ("a caller may ask a gradient of it", not is_recorded(script, one)),
        ("what is printed shows no grad_fn", is_shown(script, script.module.code(one.keeper))),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    rewrites = tuple(Replace(leaf, f"{script.module.bare(leaf)}.detach()") for leaf in one.leaves)
    return Fix("Keep it without its graph", safety(not changes), rewrites, changes=changes)


def is_shown(script: Script, keeper: str) -> bool:
    """Whether a carrier, or what it holds, is shown as it is, or given to what may show it."""
    module = script.module
    shown = [part.expression for part in module.index.of(cst.FormattedStringExpression)]
    for call in module.index.of(cst.Call):
        known = [one.name for one in script.value(call.func) if isinstance(one, Library)]
        if not known or SHOWS.intersection(known):
            shown += [arg.value for arg in call.args]
    return any(f"{module.code(one)}.".startswith(f"{keeper}.") for one in shown)
