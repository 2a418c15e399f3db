"""The host waits for each batch to be copied to the GPU, though its memory is pinned.

## Why
From pinned memory the GPU can copy by itself, but without `non_blocking=True` Python still waits
until the copy is done. With it the copy is queued: whatever comes after it on the stream sees the
whole batch, and the memory is not used again before the copy is done.

## Bad
    from torch.utils.data import DataLoader

    def train(dataset, model):
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=True)
        for x, y in loader:
            model(x.to("cuda"), y.to("cuda")).backward()

## Good
    from torch.utils.data import DataLoader

    def train(dataset, model):
        loader = DataLoader(dataset, 64, num_workers=4, pin_memory=True)
        for x, y in loader:
            model(x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)).backward()

## Leaves alone
- Batches of a DataLoader that does not pin its memory (TL102 reports the loader).
- Copies that are given `non_blocking`, whatever its value, and tensors that are computed first.
- Objects that move themselves (`batch.to(device)`, a statement of its own).
- Batches that are changed in place on the host after the copy.

It is information outside of training steps, where the device is not known or an option decides
whether the loader pins, for what may be a copy already (`x.float()`), and with a framework.

## Fix safety
Safe where the tensors come from a DataLoader and go to CUDA. Unsafe where the device may be
Apple's, the batch an object or a function's parameter, or where the batch on the host is handed on
afterwards. No fix beside CUDA streams, or under a framework.

## Evidence
A CPU has nothing to show: only copies to a GPU can go on beside other work.

On a GPU: not measured yet.

## References
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory() in PyTorch"
- PyTorch documentation, "CUDA semantics: Use pinned memory buffers"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.edits.fix import Fix
from torchlint.edits.rewrites import AddArgument
from torchlint.rule import Finding
from torchlint.semantics.values import Device, Loaded, Nothing, Truth
from torchlint.syntax.scopes import Bind
from torchlint.training.frequency import Rate
from torchlint.training.guards import Guard
from torchlint.training.host_batches import is_changed_later, is_handed_on
from torchlint_rules import judging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.training.copies import DeviceCopy
    from torchlint.training.loaders import Loader
    from torchlint.training.script import Script

_STREAMS = ("Stream", "stream", "ExternalStream", "current_stream")
BY_HAND = tuple(f"torch.cuda.{name}" for name in _STREAMS)


@dataclass(frozen=True, slots=True, eq=False)
class Blocking:
    """A copy that the host waits for; ``pins`` and ``loaded`` say how sure that is."""

    copy: DeviceCopy
    loader: Loader
    pins: bool
    loaded: Loaded
    is_plain: bool


def blocking_h2d_copy(script: Script) -> Iterator[Finding]:
    """Find copies of pinned batches that the host waits for, one finding a statement."""
    statements: dict[int, list[Blocking]] = {}
    for one in blocking(script):
        statement = script.module.smallest_statement(one.copy.node)
        statements.setdefault(id(statement), []).append(one)
    for found in statements.values():
        yield finding(script, found)


def blocking(script: Script) -> Iterator[Blocking]:
    """Yield the copies of pinned batches of the file that are given no ``non_blocking``."""
    found: dict[int, Blocking] = {}
    evaluation = script.connected.evaluation
    for loader in script.connected.loaders:
        if (pins := is_pinned(loader)) is None:
            continue
        batches = script.batches(loader)
        for copy, loaded in batches.uploads():
            if copy.file != script.file or copy.non_blocking or script.is_statement(copy.node):
                continue
            is_for_cpu = script.frequency(copy.node).guard is Guard.NO_GPU
            if is_for_cpu or is_changed_later(evaluation, copy, loader.at):
                continue
            is_object = batches.may_be_object(copy) or loader.gives_graphs
            one = Blocking(copy, loader, pins, loaded, not is_object)
            known = found.get(id(copy.node))
            if known is None or (pins, loaded) > (known.pins, known.loaded):
                found[id(copy.node)] = one
    order = script.module.index.order
    yield from sorted(found.values(), key=lambda one: order(one.copy.node))


def is_pinned(loader: Loader) -> bool | None:
    """Whether a loader pins its memory where there is a GPU: False perhaps, None if not."""
    value = loader.value("pin_memory")
    if loader.is_pinned is False or all(isinstance(one, Nothing) for one in value):
        return None
    told = [one.value for one in value if isinstance(one, Truth) and not one.option]
    return len(told) == len(value) and any(one is not False for one in told)


def finding(script: Script, found: list[Blocking]) -> Finding:
    """Return the finding for the copies of one statement."""
    first = found[0].copy.node
    frequency = script.frequency(first)
    often = " in every batch" if frequency.rate > Rate.EPOCH and not frequency.guard else ""
    pins = all(one.pins for one in found)
    is_sure = any(one.loaded is Loaded.YES for one in found)
    is_seen = any(one.copy.is_seen for one in found)
    is_alone = not script.frameworks - {"ignite"}
    return Finding(
        first if len(found) == 1 else script.module.smallest_statement(first),
        f"the host waits for `{script.module.brief(first)}`{often}, though the DataLoader "
        f"{'pins' if pins else 'may pin'} its memory",
        fix(script, found) if is_sure else None,
        judging.severity(frequency, pins, is_sure, is_seen, is_alone),
        help="pass non_blocking=True: what is queued later on the GPU sees the whole batch",
    )


def fix(script: Script, found: list[Blocking]) -> Fix | None:
    """Return the fix: the flag, for each of the copies."""
    evaluation = script.connected.evaluation
    if script.frameworks - {"ignite"} or any(script.calls_of(*BY_HAND)):
        return None
    is_cuda = all(one.copy.is_seen and Device.OTHER not in one.copy.targets for one in found)
    on = (is_handed_on(evaluation, one.copy, one.loader.at) for one in found)
    doubts = (
        ("the device may be another than CUDA, whose copies are not ordered so", not is_cuda),
        (
            "its class has to take non_blocking, if it is no tensor",
            not all(one.is_plain for one in found),
        ),
        (
            "others may call the function, with tensors that they change",
            any(is_given(script, one.copy) for one in found),
        ),
        ("what gets the batch on the host must not change it", any(on)),
    )
    changes = "; ".join(text for text, holds in doubts if holds)
    return Fix(
        "Pass non_blocking=True",
        judging.safety(not changes),
        tuple(AddArgument(one.copy.node, "non_blocking", "True") for one in found),
        changes=changes,
    )


def is_given(script: Script, copy: DeviceCopy) -> bool:
    """Whether what is copied is a parameter, which others may pass."""
    bound = script.connected.evaluation.bindings(copy.tensor)
    return any(one.kind is Bind.PARAMETER for one in bound)
