"""A layer learns a bias that the normalisation after it subtracts again.

## Why
`BatchNorm` and `InstanceNorm` subtract each channel's mean, so a constant added to the channel just
before has no effect. The bias costs one number a channel and a small kernel in every backward pass,
and learns nothing. Steps do not become measurably faster, so this is information.

## Bad
    from torch import nn

    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())

## Good
    from torch import nn

    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())

## Leaves alone
- `LayerNorm` and `GroupNorm`, which average across channels: there the bias matters.
- Anything between the two layers, and an output that is used elsewhere as well.
- A bias that is given by a variable or as False; an `InstanceNorm` with running statistics.
- Models that nothing trains, and norms that are put into evaluation one by one.

Where an argument decides whether there is a norm, the fix is `bias=not norm`. A `Linear` before a
`BatchNorm1d` of its width counts, which assumes inputs of shape (N, C).

## Fix safety
Unsafe: the `bias` disappears from the state_dict, so that checkpoints saved with it no longer load
with `strict=True`, and all layers made later start from other random numbers. No fix where weights
may be loaded into the model, or where code reads the bias.

## Evidence
`torchlint bench TL703` on Intel(R) Xeon(R) Processor, 1 thread, torch 2.13.0+cpu, 2026-11-23: time
of a step before and after, and their ratio with its 99% interval.
- training step, channels 8, side 16: 1.95 ms and 1.84 ms, 1.06 x (1.03 to 1.10): faster; results as
  E2 allows.
- training step, channels 32, side 32: 11.6 ms and 11.5 ms, 1.01 x (0.98 to 1.05): no measurable
  change; results as E2 allows.

On a GPU: not measured yet.

## References
PyTorch Performance Tuning Guide, "Disable bias for convolutions directly followed by a batch norm"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, Replace
from torchlint.rule import Finding
from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Number, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.biases import why_needed
from torchlint.training.layers import conditions_around
from torchlint.training.trained import may_be_trained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.edits.rewrites import Rewrite
    from torchlint.semantics.values import At
    from torchlint.training.layers import Condition, Consumer
    from torchlint.training.script import Script

CONVOLUTIONS = {
    f"torch.nn.{lazy}Conv{transposed}{n}d": n
    for lazy in ("", "Lazy")
    for transposed in ("", "Transpose")
    for n in (1, 2, 3)
}
LINEAR = ("torch.nn.Linear", "torch.nn.LazyLinear")
PLACES = ("in_channels", "out_channels", *"34567", "bias")
CHANGES = (
    "the state_dict no longer holds {}: checkpoints that do fail to load with 'Unexpected key(s) "
    "in state_dict'; later layers start from other random numbers"
)


def bias_before_norm(script: Script) -> Iterator[Finding]:
    """Find layers with a bias whose output goes into a norm, and nowhere else."""
    connected = script.connected
    for layer, name in script.calls_of(*CONVOLUTIONS, *LINEAR):
        made = connected.evaluation.at(layer, script.file)
        bias, is_known = bias_of(script, layer, name)
        found = taken_away(script, layer, name, made) if is_known else None
        if found is None or not may_be_trained(connected.uses, made) or connected.freezes_norms:
            continue
        norm, choice = found
        written = "False" if choice is None else by_choice(script, layer, choice)
        reason = "" if written else "no argument of this function decides about the norm alone"
        reason = reason or why_needed(connected, name, made)
        yield Finding(
            layer,
            message(script, layer, name, norm, choice),
            None if reason else without_bias(script, layer, bias, written),
            help=f"Not fixed, since {reason}." if reason else "",
        )


def bias_of(script: Script, layer: cst.Call, name: str) -> tuple[cst.BaseExpression | None, bool]:
    """Return what a layer's bias is asked for by, and whether it certainly has one."""
    places = ("in_features", "out_features", "bias") if name in LINEAR else PLACES
    places = places[1:] if "Lazy" in name else places
    given, is_sure = given_to(script.connected.evaluation, layer, places)
    if "bias" in given:
        return given["bias"].node, given["bias"].value == (Truth(True),)
    return None, is_sure


def taken_away(
    script: Script, layer: cst.Call, name: str, made: At
) -> tuple[cst.Call, Condition | None] | None:
    """Return the norm that takes a bias away, and on which condition; None where none does."""
    connected = script.connected
    consumers = connected.layers.consumers(made)
    norms = [one for one in consumers if subtracts(script, layer, name, one)]
    if not norms or norms[0].at is None:
        return None
    norm = connected.evaluation.node(norms[0].at)
    assert isinstance(norm, cst.Call)
    others = [one for one in consumers if one not in norms]
    if not others:
        return norm, None
    own = conditions_around(connected.uses, layer, script.file)
    shared = frozenset.intersection(*(one.when - own for one in norms))
    for choice in sorted(shared, key=lambda one: one.test):
        is_possible = choice.always in (None, choice.truth)
        if is_possible and all(choice.opposite() in one.when for one in others):
            return norm, choice
    return None


def subtracts(script: Script, layer: cst.Call, name: str, one: Consumer) -> bool:
    """Whether a layer subtracts, from each channel of what it gets, the mean of the batch."""
    connected = script.connected
    if one.at is None or any(call.name == "eval" for call in connected.uses.methods(one.at)):
        return False
    norm = connected.evaluation.node(one.at)
    assert isinstance(norm, cst.Call)
    given = given_to(connected.evaluation, norm, ("num_features",))[0]
    tracked = given.get("track_running_stats")
    usual = ((Truth(False),), (Truth("BatchNorm" in one.kind),))
    if tracked is not None and tracked.value not in usual:
        return False
    if name in LINEAR:
        place = ("out_features",) if "Lazy" in name else ("in_features", "out_features")
        out = given_to(connected.evaluation, layer, place)[0].get("out_features")
        width = given.get("num_features")
        if one.kind != "torch.nn.BatchNorm1d" or out is None or width is None:
            return False
        if all(isinstance(each, Number) and each.value for each in (*out.value, *width.value)):
            return out.value == width.value
        if out.node is None or width.node is None:
            return False
        return script.module.same(out.node, width.node)
    rank = CONVOLUTIONS[name]
    kinds = (f"BatchNorm{rank}d", f"LazyBatchNorm{rank}d", f"InstanceNorm{rank}d", "SyncBatchNorm")
    return one.kind.removeprefix("torch.nn.") in kinds


def message(
    script: Script, layer: cst.Call, name: str, norm: cst.Call, choice: Condition | None
) -> str:
    """Name the layer and the norm as the file does."""
    target = attribute(script, layer)
    what = f"`{target}`" if target else f"this `{script.module.code(layer.func)}`"
    where = f"where {choice}, " if choice else ""
    kind = script.name(norm.func)
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
    owner = script.module.index.scope(layer).owner(choice.test)
    if owner is None or [one.kind for one in owner.bindings[choice.test]] != [Bind.PARAMETER]:
        return ""
    return f"not {choice.test}" if choice.truth else choice.test


def without_bias(
    script: Script, layer: cst.Call, given: cst.BaseExpression | None, bias: str
) -> Fix:
    """Build the layer without its bias, or without it where the norm is."""
    rewrite: Rewrite = Replace(given, bias) if given else AddArgument(layer, "bias", bias)
    target = attribute(script, layer).removeprefix("self.")
    changes = CHANGES.format(f"{target}.bias" if target else "its bias")
    return Fix(f"Pass `bias={bias}`", Safety.UNSAFE, (rewrite,), changes)
