"""What becomes of a batch on the host behind its copy to a GPU: changed, handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.values import Device, Function, Loaded, Tensor, Unknown
from torchlint.training.effects import unit_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At
    from torchlint.training.copies import DeviceCopy

KEEPS = frozenset({"requires_grad_", "share_memory_", "unsqueeze_", "squeeze_", "transpose_", "t_"})


def is_changed_later(evaluation: Evaluation, copy: DeviceCopy, loader: At) -> bool:
    """Whether the host writes into the batch after the copy, in its function."""
    written: list[cst.BaseExpression] = []
    for node in _later(evaluation, copy):
        match node:
            case cst.AugAssign(target=cst.Subscript(value=owner)) | cst.AugAssign(target=owner):
                written.append(owner)
            case cst.AssignTarget(target=cst.Subscript(value=owner)):
                written.append(owner)
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=name))):
                if name.endswith("_") and not name.endswith("__") and name not in KEEPS:
                    written.append(owner)
    return any(_is_host(evaluation.value(one), loader) for one in written)


def is_handed_on(evaluation: Evaluation, copy: DeviceCopy, loader: At) -> bool:
    """Whether what nobody knows, or a function of the project, gets the batch after the copy."""
    for call in _later(evaluation, copy):
        if isinstance(call, cst.Call):
            called = evaluation.value(call.func) or (Unknown(),)
            given = [one for arg in call.args for one in flat(evaluation.value(arg.value))]
            is_open = any(isinstance(one, (Unknown, Function)) for one in called)
            if is_open and _is_host(given, loader):
                return True
    return False


def _later(evaluation: Evaluation, copy: DeviceCopy) -> Iterator[cst.CSTNode]:
    """Yield the calls and assignments of a function behind a copy."""
    index = evaluation.index(copy.file)
    function = unit_around(evaluation, copy.node, copy.file).node
    for kind in (cst.AugAssign, cst.AssignTarget, cst.Call):
        for node in index.below(function, kind):
            if index.order(node) > index.order(copy.node):
                yield node


def _is_host(value: Iterable[Alternative], loader: At) -> bool:
    """Whether something is memory of a batch on the host."""
    return any(
        isinstance(one, Tensor)
        and one.batch == loader
        and one.loaded is not Loaded.NO
        and one.device is not Device.CUDA
        for one in value
    )
