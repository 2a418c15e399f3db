"""A layer learns a bias that the normalisation after it subtracts again.

## Why
`BatchNorm` and `InstanceNorm` subtract each channel's mean, so a constant that
was added to the channel just before has no effect.  The bias costs a number a
channel, with its gradient and its state in the optimizer, and one small kernel
in every backward pass, and learns nothing.  Steps do not become measurably faster, so this is
information.

## Bad
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    )

## Good
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    )

## Leaves alone
- `LayerNorm` and `GroupNorm`, which average across channels: there the bias matters; and
  `InstanceNorm` with running statistics.
- An activation, a pooling, a reshape or anything else in between; an output that is used elsewhere
  as well, also by whoever takes layers out of a sequence.
- A bias that is given by position, by a variable or as False.
- Models that only evaluate: put into evaluation where they are made, or where nothing trains; and
  norms that code puts into evaluation one by one.
- Layers that are kept in an attribute which nothing reads.

A norm that a condition adds (`if norm: layers.append(...)`) is reported under that condition; where
it is an argument, the fix is `bias=not norm`.  A `Linear` before `BatchNorm1d` is reported where
both have the same width, which assumes inputs of shape (N, C).

## Fix safety
Unsafe: the layer's `bias` disappears from the state_dict, so checkpoints saved with it no longer
load with `strict=True`; weight decay no longer moves it; and everything made after it starts from
other random numbers under the same seed.  There is no fix where weights are loaded into what may be
such a model, where code reads the bias of such a layer without a check for None, or asks for it by
its name, and where a hook may see what the layer gives.

## Evidence
`torchlint bench TL703` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, channels 8, side 16: 1.95 ms and 1.84 ms, 1.06 x (1.03 to 1.10): faster; results as
  E2 allows.
- training step, channels 32, side 32: 11.6 ms and 11.5 ms, 1.01 x (0.98 to 1.05): no measurable
  change; results as E2 allows.

On a GPU: not measured yet.

## References
PyTorch Performance Tuning Guide, "Disable bias for convolutions directly
followed by a batch norm"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, Replace
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Number, Truth
from torchlint.syntax.calls import keywords, positional
from torchlint.syntax.scopes import Bind
from torchlint.training.biases import freezes_norms, why_needed
from torchlint.training.choices import conditions_around
from torchlint.training.trained import Trained, is_left_over, trained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.semantics.values import At
    from torchlint.training.choices import Condition
    from torchlint.training.script import Script
    from torchlint.training.sequences import Consumer

CONVOLUTIONS = {
    f"torch.nn.{lazy}Conv{transposed}{n}d": n
    for lazy in ("", "Lazy")
    for transposed in ("", "Transpose")
    for n in (1, 2, 3)
}
LINEAR = ("torch.nn.Linear", "torch.nn.LazyLinear")
CHANGES = (
    "the state_dict no longer holds {}: checkpoints that do fail to load with 'Unexpected key(s) "
    "in state_dict'; later layers start from other random numbers"
)


def bias_before_norm(script: Script) -> Iterator[Finding]:
    """Find layers with a bias whose output goes into a norm, and nowhere else."""
    for layer, name in script.calls_of(*CONVOLUTIONS, *LINEAR):
        made = script.connected.evaluation.at(layer, script.file)
        if not has_bias(script, layer):
            continue
        found = taken_away(script, layer, name, made)
        if found is None or is_not_trained(script, made):
            continue
        norm, choice = found
        bias = "False" if choice is None else by_choice(script, layer, choice)
        reason = "" if bias else "no argument of this function decides about the norm alone"
        reason = reason or why_needed(script.connected, script.file, name, made)
        yield Finding(
            layer,
            message(script, layer, name, norm, choice),
            None if reason else without_bias(script, layer, bias),
            help=f"Not fixed, since {reason}." if reason else "",
        )


def has_bias(script: Script, layer: cst.Call) -> bool:
    """Whether a layer has a bias by default, or by the words ``bias=True``."""
    given = keywords(layer)
    if any(arg.star for arg in layer.args):
        stars = [one for arg in layer.args if arg.star for one in script.value(arg.value)]
        known = [dict(getattr(one, "entries", ())) for one in stars]
        if not stars or any("bias" in one or not one for one in known):
            return False
    if "bias" not in given:
        place = 3 if "Linear" in script.name(layer.func) else 8
        return len(positional(layer)) < place
    return script.value(given["bias"]) == (Truth(True),)


def taken_away(
    script: Script, layer: cst.Call, name: str, made: At
) -> tuple[cst.Call, Condition | None] | None:
    """Return the norm that takes a bias away, and on which condition; None where none does."""
    consumers = script.connected.layers.consumers(made)
    norms = [one for one in consumers if subtracts(script, layer, name, one)]
    if not norms or norms[0].at is None:
        return None
    norm = script.connected.evaluation.node(norms[0].at)
    assert isinstance(norm, cst.Call)
    others = [one for one in consumers if one not in norms]
    if not others:
        return norm, None
    own = conditions_around(script.connected.uses, made)
    when = {one: conditions(script, one) - own for one in consumers}
    shared = frozenset.intersection(*(when[one] for one in norms))
    for choice in sorted(shared, key=lambda one: one.test):
        is_possible = choice.always in (None, choice.truth)
        if is_possible and all(choice.opposite() in when[one] for one in others):
            return norm, choice
    return None


def conditions(script: Script, one: Consumer) -> frozenset[Condition]:
    """Return the conditions under which a layer comes next, those under which it is made too."""
    if one.at is None:
        return one.when
    return one.when | conditions_around(script.connected.uses, one.at)


def subtracts(script: Script, layer: cst.Call, name: str, one: Consumer) -> bool:
    """Whether a layer subtracts, from each channel of what it gets, the mean of the batch."""
    if one.at is None:
        return False
    norm = script.connected.evaluation.node(one.at)
    assert isinstance(norm, cst.Call)
    if any(call.name == "eval" for call in script.connected.uses.methods(one.at)):
        return False
    given = {word: script.value(node) for word, node in keywords(norm).items()}
    if given.get("track_running_stats", (Truth(False),)) != (Truth(False),):
        return "BatchNorm" in one.kind and given["track_running_stats"] == (Truth(True),)
    if name in LINEAR:
        return one.kind == "torch.nn.BatchNorm1d" and is_same_width(script, layer, norm)
    rank = CONVOLUTIONS[name]
    return one.kind in (
        f"torch.nn.BatchNorm{rank}d",
        f"torch.nn.LazyBatchNorm{rank}d",
        f"torch.nn.InstanceNorm{rank}d",
        "torch.nn.SyncBatchNorm",
    )


def is_same_width(script: Script, linear: cst.Call, norm: cst.Call) -> bool:
    """Whether a norm runs over the features: over those of (N, L, C) inputs it cannot."""
    names = ("out_features",) if "Lazy" in script.name(linear.func) else ("", "out_features")
    evaluation = script.connected.evaluation
    out = given_to(evaluation, linear, names)[0].get("out_features")
    features = given_to(evaluation, norm, ("num_features",))[0].get("num_features")
    if out is None or features is None:
        return False
    match out.value, features.value:
        case (Number(value=one),), (Number(value=other),) if None not in (one, other):
            return one == other
    if out.node is None or features.node is None:
        return False
    return script.module.same(out.node, features.node)


def is_not_trained(script: Script, made: At) -> bool:
    """Whether the norm uses the means that it has stored, or nothing ever runs the layer."""
    uses = script.connected.uses
    return trained(uses, made) is Trained.NO or is_left_over(uses, made) or freezes_norms(uses)


def message(
    script: Script, layer: cst.Call, name: str, norm: cst.Call, choice: Condition | None
) -> str:
    """Name the layer and the norm as the file does."""
    target = attribute(script, layer)
    what = f"`{target}`" if target else f"this `{script.module.code(layer.func)}`"
    where = f"where {choice}, " if choice else ""
    kind = next(one.name for one in script.value(norm.func) if hasattr(one, "name"))
    shape = ", if its input has the shape (N, C)" if name in LINEAR else ""
    return (
        f"{where}the bias of {what} is subtracted again by the `{kind.replace('torch.nn', 'nn')}` "
        f"after it{shape}: it costs a number a channel, and a small kernel in each step"
    )


def attribute(script: Script, layer: cst.Call) -> str:
    """Return ``self.conv`` where a layer is stored in it."""
    match script.module.parent(layer):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)]):
            return script.module.code(target)
    return ""


def by_choice(script: Script, layer: cst.Call, choice: Condition) -> str:
    """Return the bias by the argument that decides about the norm, "" where it is none."""
    scope = script.module.index.scope(layer)
    owner = scope.owner(choice.test)
    if owner is None or [one.kind for one in owner.bindings[choice.test]] != [Bind.PARAMETER]:
        return ""
    return f"not {choice.test}" if choice.truth else choice.test


def without_bias(script: Script, layer: cst.Call, bias: str) -> Fix:
    """Build the layer without its bias, or without it where the norm is."""
    given = keywords(layer).get("bias")
    rewrite: Rewrite = Replace(given, bias) if given else AddArgument(layer, "bias", bias)
    target = attribute(script, layer).removeprefix("self.")
    changes = CHANGES.format(f"{target}.bias" if target else "its bias")
    return Fix(f"Pass `bias={bias}`", Safety.UNSAFE, (rewrite,), changes)
