"""Whether a call makes something on a GPU, or moves it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.tensors import places_of
from torchlint.semantics.values import Device, Instance, Library, Nothing, Place, Tensor
from torchlint.syntax.calls import argument_of, keywords, last_name
from torchlint.training.conventions import suggested

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation


def works_on_gpu(evaluation: Evaluation, call: cst.Call) -> bool | None:
    """Whether a call makes or moves something on a GPU: surely, perhaps, or (None) not at all."""
    name, method, value = evaluation.library(call.func), last_name(call.func), evaluation.value
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return True
    where = keywords(call).get("device") if name.startswith("torch.") else None
    if not name and method == "cuda":
        return True
    if not name and method == "to":
        where = argument_of(call, "device", 0)
    found = [one for one in value(where) if not isinstance(one, Nothing)]
    if not found or any(isinstance(one, (Tensor, Library)) for one in found):
        return None
    given = [where, *(one.value for one in evaluation.bindings(where))]
    owner = [one for each in given if isinstance(each, cst.Attribute) for one in value(each.value)]
    if any(isinstance(one, Tensor) for one in owner):
        return None  # where another tensor is
    is_named = suggested(last_name(where)) == "device" and any(
        isinstance(one, Instance) for one in owner
    )
    is_place = is_named or all(isinstance(one, Place) for one in found)
    places = places_of(tuple(found))
    if Device.CUDA in places:
        return True
    return False if is_place and places == [Device.UNKNOWN] else None
