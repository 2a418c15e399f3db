"""What operations on tensors give: where the result lives, and what autograd goes back through."""

from __future__ import annotations

from dataclasses import replace

from torchlint.semantics.values import (
    Alternative,
    Device,
    Loaded,
    Number,
    Place,
    Tensor,
    Text,
    Value,
)


def mixed(*operands: Alternative) -> Tensor:
    """Return what an operation gives of which one operand at least is a tensor."""
    tensors = [one for one in operands if isinstance(one, Tensor)]
    graph = tuple(sorted({call for one in tensors for call in one.graph}))
    batch = next((one.batch for one in tensors if one.batch), None)
    sure = any(one.sure for one in tensors)
    return Tensor(together(tensors), batch, Loaded.NO, None, graph, "float", sure)


def together(tensors: list[Tensor]) -> Device:
    """Return where tensors live that are used together: all on one device, but for scalars."""
    known = {one.device for one in tensors} - {Device.UNKNOWN}
    if Device.CUDA in known:
        return Device.CUDA
    if len(known) == 1 and all(one.device in known for one in tensors):
        return known.pop()
    return Device.UNKNOWN


def moved(tensor: Tensor, device: Device) -> Tensor:
    """Return a tensor after it was moved: on its own device it is the same."""
    same = tensor.device is device and device is not Device.UNKNOWN
    return tensor if same else replace(tensor, device=device, made=None, loaded=Loaded.NO)


def device_of(value: Value) -> Device:
    """Return the device that a value names; that of a tensor is none."""
    found = {_named(one) for one in value}
    if len(found) == 1:
        return found.pop()
    return Device.CUDA if Device.CUDA in found else Device.UNKNOWN  # "cuda" if ... else "cpu"


def places_of(value: Value) -> list[Device]:
    """Return all devices that a value may name; the default of an option may be another."""
    found = {_named(one) for one in value}
    if any(getattr(one, "option", None) is not None for one in value):
        found.add(Device.UNKNOWN)
    return sorted(found) or [Device.UNKNOWN]


def _named(one: Alternative) -> Device:
    match one:
        case Place(device=device):
            return device
        case Text(value=str(word)):
            kind = word.partition(":")[0]
            other = Device.OTHER if kind in ("mps", "xpu", "xla", "meta") else Device.UNKNOWN
            return {"cuda": Device.CUDA, "cpu": Device.HOST}.get(kind, other)
        case Number():
            return Device.CUDA
    return Device.UNKNOWN
