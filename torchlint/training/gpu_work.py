"""Whether a call makes something on a GPU, or moves it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tensors import places_of
from torchlint.semantics.values import Device, Instance, Library, Nothing, Place, Tensor
from torchlint.syntax.calls import argument_of, keywords
from torchlint.training.conventions import suggested

if TYPE_CHECKING:
    from torchlint.training.script import Script


def works_on_gpu(script: Script, call: cst.Call) -> bool | None:
    """Whether a call makes or moves something on a GPU: surely, perhaps, or (None) not at all."""
    named = keywords(call).get("device")
    called = script.value(call.func)
    names = [one.name for one in called if isinstance(one, Library)]
    if any(name.startswith("torch.cuda.") and name.endswith("Tensor") for name in names):
        return True
    match call.func:
        case cst.Attribute(attr=cst.Name(value="cuda")) if not names:
            return True
        case cst.Attribute(attr=cst.Name(value="to")) if not names:
            wanted = argument_of(call, "device", 0)
        case _:
            wanted = named if any(name.startswith("torch.") for name in names) else None
    if wanted is not None:
        value = [one for one in script.value(wanted) if not isinstance(one, Nothing)]
        if not any(isinstance(one, (Tensor, Library)) for one in value) and value:
            places = places_of(tuple(value))
            if Device.CUDA in places:
                return True
            is_place = all(isinstance(one, Place) for one in value) or is_called_device(
                script, wanted
            )
            if is_place and places == [Device.UNKNOWN] and not is_of_tensor(script, wanted):
                return False
    return None


def is_called_device(script: Script, node: cst.BaseExpression) -> bool:
    """``self.device``, where nothing else is known of it."""
    match node:
        case cst.Attribute(value=owner, attr=cst.Name(value=name)):
            own = any(isinstance(one, Instance) for one in script.value(owner))
            return own and suggested(name) == "device"
    return False


def is_of_tensor(script: Script, node: cst.BaseExpression) -> bool:
    """``x.device``: where another tensor is."""
    return isinstance(node, cst.Attribute) and any(
        isinstance(one, Tensor) for one in script.value(node.value)
    )
