"""A model is evaluated with gradients on, which nobody asks for.

## Why
Unless told otherwise, autograd records every operation on a model's parameters, and keeps the
activations of every layer until the result is gone. `model.eval()` does not change that. A recorded
evaluation needs several times the memory, and what it adds up (`total += loss`) keeps the graph of
every batch alive. TL401b is such a run in a training step (`fake = generator(z).detach()`).

## Bad
    import torch
    from torch import nn

    def evaluate(model, batches):
        model.eval()
        return sum((model(x).argmax(1) == y).sum().item() for x, y in batches)

    print(evaluate(nn.Linear(8, 2), batches))

## Good
    import torch
    from torch import nn

    @torch.no_grad()
    def evaluate(model, batches):
        model.eval()
        return sum((model(x).argmax(1) == y).sum().item() for x, y in batches)

    print(evaluate(nn.Linear(8, 2), batches))

## Leaves alone
- What runs under `torch.no_grad()`, `torch.inference_mode()` or `torch.set_grad_enabled(False)`,
  here or wherever it is called, or under a context or decorator that is not known.
- Results that a gradient is asked of, later or elsewhere: losses, attacks, gradient penalties.
- Results that code gets which is not seen, unless `eval()` says what they are for.
- Models without parameters that require gradients, and what a framework evaluates.

It is information outside of steps, beside a framework, and where a caller may turn gradients off.

## Fix safety
A function that only evaluates gets `@torch.no_grad()`; else the loop or statement goes into a
`with`. Unsafe: some layers then run other kernels, which round differently
(`nn.TransformerEncoder`, `nn.LSTM`), and what leaves the evaluation has no graph.

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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from packaging.version import Version

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddDecorator, AddImport, Wrap
from torchlint.rule import Finding, Severity
from torchlint.training.frequency import Rate
from torchlint.training.model_calls import Recording
from torchlint.training.spelling import name_at
from torchlint.training.unused_graphs import leaves, place_without
from torchlint_rules.judging import often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.script import Script
    from torchlint.training.unused_graphs import Place, UnusedGraph

DECORATES = Version("0.4.1")  # in 0.4.0 `no_grad` is a block, and no decorator
UNLESS = {
    Recording.ASSUMED: ", unless its caller turns them off",
    Recording.SOME: ", unless its caller turns them off, as only some do",
}
KERNELS = "some layers run other kernels without gradients"


def eval_without_no_grad(script: Script) -> Iterator[Finding]:
    """Find runs of models that are recorded for gradients that nobody asks for."""
    graphs, told = script.connected.unused_graphs, set[int]()
    decorates = script.settings.target is None or script.settings.target >= DECORATES
    for one in graphs.found:
        if one.file != script.file:
            continue
        place = place_without(graphs, one, decorates=decorates)
        if id(place or one.node) in told:
            continue
        told.add(id(place or one.node))
        frequency = script.frequency(one.node)
        is_sure = one.sees and one.knows and one.recording is Recording.ON and frequency.certain
        is_costly = is_sure and frequency.rate >= Rate.EVAL_STEP and not script.frameworks
        yield Finding(
            one.node,
            f"`{script.module.brief(one.node)}` is recorded{often(frequency)} for gradients that "
            f"nothing asks for{UNLESS.get(one.recording, '')}",
            None if script.frameworks or place is None else fix(script, one, place),
            None if is_costly else Severity.INFO,
            "b" if frequency.rate is Rate.STEP else "",
            help="Run it under torch.no_grad(): activations are then freed layer by layer; "
            "`eval()` alone does not turn gradients off.",
        )


def fix(script: Script, one: UnusedGraph, place: Place) -> Fix | None:
    """Return the decorator of the function, or the block around the loop or statement."""
    rewrite: AddDecorator | Wrap
    if not (code := name_at(script, one.node, "torch", "no_grad")):
        return None
    if isinstance(place, cst.FunctionDef):
        title, rewrite = f"Decorate `{place.name.value}` with", AddDecorator(place, f"@{code}()")
    else:
        what = "the loop" if isinstance(place, (cst.For, cst.While)) else "it"
        title, rewrite = f"Run {what} under", Wrap((place,), f"with {code}():")
    ends = leaves(script.connected.unused_graphs, one, place)
    changes = KERNELS + (", and what leaves the evaluation has no graph" if ends else "")
    is_new = code.partition(".")[0] not in script.module.index.root.bindings
    return Fix(
        f"{title} {code}()",
        Safety.UNSAFE,
        (rewrite, *([AddImport("torch")] if is_new else [])),
        changes=changes,
    )
