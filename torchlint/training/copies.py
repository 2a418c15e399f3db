"""Copies between the host and a device: `.to(device)`, `.cuda()`, `.cpu()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tensors import device_of
from torchlint.semantics.values import Device, Method, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Value

MOVES = frozenset({"to", "cuda", "cpu"})


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCopy:
    """A copy of a tensor: ``value`` is what is copied, ``target`` where to."""

    node: cst.Call
    tensor: cst.BaseExpression
    value: Value
    target: Device
    non_blocking: cst.BaseExpression | None

    @property
    def is_upload(self) -> bool:
        """Whether it copies from the host to a GPU, as far as is known."""
        known = {one.device for one in self.value if isinstance(one, Tensor)}
        return self.target is Device.CUDA and Device.CUDA not in known


def device_copies(evaluation: Evaluation, file: int) -> Iterator[DeviceCopy]:
    """Yield the copies of a file, in the order of the walk."""
    for call in evaluation.files.modules[file].index.of(cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in MOVES:
            continue
        owners = evaluation.values.get(id(func.value), ())
        methods = evaluation.values.get(id(func), ())
        if not any(isinstance(one, Method) and isinstance(one.owner, Tensor) for one in methods):
            continue
        target = _target(evaluation, call, func.attr.value)
        if target is not None:
            flag = next((a.value for a in call.args if _is_keyword(a, "non_blocking")), None)
            yield DeviceCopy(call, func.value, owners, target, flag)


def _target(evaluation: Evaluation, call: cst.Call, name: str) -> Device | None:
    """Return where a call copies to, None where it only changes the type of the numbers."""
    if name != "to":
        return Device.CUDA if name == "cuda" else Device.HOST
    for arg in call.args:
        if arg.keyword is None or _is_keyword(arg, "device"):
            value = evaluation.values.get(id(arg.value), ())
            tensors = [one.device for one in value if isinstance(one, Tensor)]
            return tensors[0] if tensors else device_of(value)
    return None


def _is_keyword(arg: cst.Arg, name: str) -> bool:
    return arg.keyword is not None and arg.keyword.value == name
