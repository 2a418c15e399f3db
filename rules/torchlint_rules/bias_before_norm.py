"""A layer learns a bias that the normalisation after it subtracts again.

## Why
`BatchNorm` and `InstanceNorm` subtract each channel's mean, so a constant that
was added to the channel just before has no effect.  The bias costs a number a
channel, with its gradient and its state in the optimizer, and one small kernel
in every backward pass, and learns nothing.  It is no more than that: steps do
not become measurably faster, so this is information.

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
  as well; layers that run at several places, and so norms with running statistics; a sequence that
  is handed to a module of the project which runs its layers one by one.
- A layer that ends a forward pass, unless the file alone makes modules of that class, and all of
  them go into norms.
- A norm that an argument decides about (`if norm: layers.append(...)`), where no call asks for it
  in so many words.  Where one does, the fix is `bias=not norm`.
- A bias that is given by position, by a variable or as False.
- Layers that are made only for an argument that every call in the file gives as None, and
  attributes that no file of the project reads.
- Files that freeze their norms, hook into layers, fuse or quantise them, and those that a file
  imports which freezes norms.
- Models into which their file loads weights from the web: those have the bias (`strict=False`
  aside).
- Models whose `train` hands on `False`, and those that get weights and are put into evaluation
  mode wherever a project that nobody else uses makes them (the network of a loss).
- Tests, and scripts that name neither a GPU nor an optimizer; scripts that load weights into what
  they build, only to evaluate it (they have the bias, and the mean that a norm has stored holds
  it), though an optimizer that never steps is left over there; and what such a script imports,
  where nothing in the project trains.

A `Linear` before `BatchNorm1d` is reported where both have the same width, which
assumes inputs of shape (N, C) unless they are seen to be flattened.

## Fix safety
Unsafe: the layer's `bias` disappears from the state_dict, so checkpoints saved
with it no longer load with `strict=True`; weight decay no longer moves it; and
since a bias draws random numbers when it is made, everything made after
it starts from other numbers under the same seed.  There is no fix where any file of the project
loads weights (`model.load_state_dict(...)`, `from_pretrained`), nor where the file reads the bias
of such layers without a check for None or has another file set the weights.  Nor is there one where
a function that sets up each layer of the model, in this file or another, does so: the help names
it, and it has to check for None first (`if layer.bias is not None`).

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

import itertools
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis import module_uses
from torchlint.analysis.debugging import in_test
from torchlint.analysis.flattening import takes_rows
from torchlint.analysis.held_in_evaluation import stays_in_evaluation
from torchlint.analysis.importing import importers
from torchlint.analysis.initialisers import needs_bias
from torchlint.analysis.layers import chosen_links
from torchlint.analysis.loaded_models import is_loaded_wherever_made
from torchlint.analysis.none_checks import never_runs
from torchlint.analysis.scaling import exclusive
from torchlint.analysis.scripts import is_script
from torchlint.analysis.unused import is_never_read
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import AddArgument, Replace
from torchlint.rule import Finding
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.layers import Link
    from torchlint.analysis.program import Program
    from torchlint.edits.rewrites import Rewrite

CONVOLUTIONS = {
    f"torch.nn.{lazy}Conv{transposed}{n}d": n
    for lazy in ("", "Lazy")
    for transposed in ("", "Transpose")
    for n in (1, 2, 3)
}
LINEAR = {"torch.nn.Linear", "torch.nn.LazyLinear"}


def bias_before_norm(program: Program) -> Iterator[Finding]:
    """Yield layers with a bias whose output goes into a norm, and nowhere else."""
    if not is_possible(program):
        return
    links = cancelled(program)
    if not links or module_uses.freezes_norms(program) or module_uses.looks_inside(program):
        return
    if in_test(program, links[0].producer) or is_toy(program):
        return
    if module_uses.is_trained_nowhere(program):
        return
    loading = module_uses.loading_file(program)
    for link in links:
        if never_runs(program, link.producer) or is_never_read(program, link.producer):
            continue
        if module_uses.is_evaluated_only(program, link.producer):
            continue
        if module_uses.is_published(program, link.producer):
            continue
        if stays_in_evaluation(program, link.producer):
            continue
        if is_loaded_wherever_made(program, link.producer):
            continue
        reason = why_not(program, link.producer, loading)
        yield Finding(
            link.producer,
            message(program, link),
            None if reason else without_bias(program, link),
            help=f"Not fixed, since {reason}." if reason else "",
        )


def cancelled(program: Program) -> list[Link]:
    """Return the layers whose bias is taken away, wherever or by an argument, in their order."""
    found = [link for link in program.links if is_cancelled(program, link)]
    always = {link.producer for link in found}
    for link in chosen_links(program):
        if link.producer not in always and is_cancelled(program, link):
            always.add(link.producer)
            found.append(link)
    return sorted(found, key=lambda link: program.index.order(link.producer))


def is_possible(program: Program) -> bool:
    """Whether the file has a layer with a bias, and a norm that could cancel it, at all."""
    made = [(program.qualified(call.func), call) for call in program.index.of(cst.Call)]
    norms = {name for name, _ in made if "Norm" in name}
    return bool(norms) and any(
        not norms.isdisjoint(cancelling(name)) and has_bias(program, call)
        for name, call in made
        if name in LINEAR or name in CONVOLUTIONS
    )


def cancelling(name: str) -> set[str]:
    """Return the norms that subtract the mean of each channel of a kind of layer."""
    if name in LINEAR:
        return {"torch.nn.BatchNorm1d"}
    rank = CONVOLUTIONS[name]
    return {
        f"torch.nn.BatchNorm{rank}d",
        f"torch.nn.LazyBatchNorm{rank}d",
        f"torch.nn.InstanceNorm{rank}d",
        "torch.nn.SyncBatchNorm",
    }


def has_bias(program: Program, layer: cst.Call) -> bool:
    """Whether a layer has a bias by default, or by the words ``bias=True``."""
    bias = program.argument(layer, "bias")
    written = bias.arg is not None and bias.arg.keyword is not None and bias.literal() == "True"
    return bias.absent or written


def is_cancelled(program: Program, link: Link) -> bool:
    """Whether a layer has a bias that every layer after it takes away."""
    if not has_bias(program, link.producer):
        return False
    return all(subtracts_mean(program, link.producer, norm) for norm in link.consumers)


def subtracts_mean(program: Program, layer: cst.Call, norm: cst.Call) -> bool:
    """Whether a norm subtracts, from each channel of this layer's output, its mean."""
    name, kind = program.qualified(layer.func), program.qualified(norm.func)
    if not (name in LINEAR or name in CONVOLUTIONS) or kind not in cancelling(name):
        return False
    if name in LINEAR and not same_width(program, layer, norm):
        return False
    if kind.startswith("torch.nn.InstanceNorm"):
        tracks = program.argument(norm, "track_running_stats")
        return tracks.absent or tracks.literal() == "False"
    return not is_shared(program, norm)


def is_shared(program: Program, norm: cst.Call) -> bool:
    """Whether a norm runs several times in a pass: its running mean is then of all its inputs."""
    attribute, owner = module_uses.attribute_of(program, norm), program.classes.around(norm)
    if not attribute:
        return False
    runs = [
        call
        for call, func in program.method_calls(attribute)
        if dotted(func.value) == "self" and program.classes.around(call) is owner
    ]
    return any(
        program.function(one) is program.function(other) and not exclusive(program, one, other)
        for one, other in itertools.pairwise(runs)
    )


def same_width(program: Program, linear: cst.Call, norm: cst.Call) -> bool:
    """Whether a norm runs over the features: over those of (N, L, C) inputs it cannot."""
    out = program.argument(linear, "out_features").values
    features = program.argument(norm, "num_features").values
    return len(out) == 1 == len(features) and program.code(out[0]) == program.code(features[0])


def message(program: Program, link: Link) -> str:
    """Name the layer and the norm as the file does."""
    attribute = module_uses.attribute_of(program, link.producer)
    layer = program.code(link.producer.func)
    what = f"`self.{attribute}`" if attribute else f"this `{layer}`"
    norm = program.code(link.consumers[0].func)
    text = f"{chosen(link)}the bias of {what} is subtracted again by the `{norm}` after it"
    if program.qualified(link.producer.func) in LINEAR and not takes_rows(program, link.producer):
        text += ", if its input has the shape (N, C)"
    return f"{text}: it costs a number a channel, and a small kernel in each step"


def chosen(link: Link) -> str:
    """Name the argument that puts a norm behind the layer."""
    choice = link.choice
    return "" if choice is None else f"where `{choice.param.name.value}` is {choice.wanted}, "


def is_toy(program: Program) -> bool:
    """Whether a script runs its model, but neither trains it nor names a GPU."""
    if program.devices.named or "optim" in program.text or not is_script(program):
        return False
    return program.project is not None and program.path is not None and not importers(program)


def why_not(program: Program, layer: cst.Call, loading: str | None) -> str:
    """Why a layer must keep its bias until somebody has looked, or nothing."""
    kind = program.qualified(layer.func).rpartition(".")[2]
    needs = needs_bias(program, layer, kind)  # without a bias the script fails as it starts
    if needs:
        return f"{needs}: add one there first"
    attribute = module_uses.attribute_of(program, layer)
    for read in module_uses.bias_reads(program):
        if read.concerns(layer, kind, attribute):
            return f"`{program.code(read.node)}` is used without a check for None"
    drawn = module_uses.weights_by_bias(program)
    if drawn is not None:
        return f"`{program.code(drawn)}` decides how the weights are drawn"
    key = module_uses.bias_by_key(program)
    if key is not None:
        return f"`{program.code(key)}` asks for a bias by its name"
    elsewhere = module_uses.initialised_elsewhere(program)
    if elsewhere is not None:
        return f"`{program.code(elsewhere)}` may set the bias, in another file"
    if loading is not None:
        return (
            f"{f'`{loading}`' if loading else 'this file'} loads weights, which may hold the bias"
        )
    return ""


def without_bias(program: Program, link: Link) -> Fix:
    """Build the layer without its bias: where the norm is, if an argument decides about that."""
    layer, choice = link.producer, link.choice
    bias = "False"
    if choice is not None:
        bias = f"{'not ' if choice.wanted else ''}{choice.param.name.value}"
    given = program.argument(layer, "bias").arg
    rewrite: Rewrite = AddArgument(layer, "bias", bias)
    if given is not None:
        rewrite = Replace(given.value, bias)
    attribute = module_uses.attribute_of(program, layer)
    key = f"{attribute}.bias" if attribute else "its bias"
    changes = (
        f"the state_dict no longer holds {key}: checkpoints that do fail to load with "
        "'Unexpected key(s) in state_dict'; later layers start from other random numbers"
    )
    return Fix(f"Pass `bias={bias}`", Safety.UNSAFE, (rewrite,), changes)
