"""What becomes of a batch on the host beside its copy to a GPU: changed, replaced, handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.values import Device, Function, Loaded, Tensor, Unknown
from torchlint.syntax.chains import root_of
from torchlint.training.effects import unit_around
from torchlint.training.guards import asks_for_device

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.training.copies import DeviceCopy

KEEPS = frozenset({"requires_grad_", "share_memory_", "unsqueeze_", "squeeze_", "transpose_", "t_"})


def has_gaps(copy: DeviceCopy) -> bool:
    """``x[:, 0]``: its rows lie apart, and are put together in ordinary memory first."""
    match copy.tensor:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Slice()), _, *_]):
            return True
    return False


def has_other_way(evaluation: Evaluation, copy: DeviceCopy, others: Iterable[DeviceCopy]) -> bool:
    """``x.cuda(non_blocking=True) if cuda else x.to(device)``: here there is no GPU."""
    index, child = evaluation.index(copy.file), copy.node
    flagged = [one.node for one in others if one.file == copy.file and one.non_blocking]
    around: cst.CSTNode = child
    for above in index.ancestors(copy.node):
        if isinstance(above, cst.FunctionDef):
            return False
        is_other = isinstance(above, (cst.If, cst.IfExp)) and around is above.orelse
        if (
            is_other
            and any(index.inside(one, above.body) for one in flagged)  # type: ignore[attr-defined]
            and not _asks_more(evaluation, above.test)  # type: ignore[attr-defined]
        ):
            return True
        around = above
    return False


def _asks_more(evaluation: Evaluation, test: cst.BaseExpression) -> bool:
    """``gpu is not None and device.type == "cuda"``: there may be a GPU where that is false."""
    match test:
        case cst.BooleanOperation(operator=cst.And(), left=left, right=right):
            return asks_for_device(evaluation, left) is not asks_for_device(evaluation, right)
    return False


def is_part_of_moved(evaluation: Evaluation, part: cst.BaseExpression, file: int) -> bool:
    """Whether something is a part of a batch that was moved before, as a whole or entry by entry.

    ``batch.to(device)``, a statement of its own, moves what is in the batch.
    """
    index = evaluation.index(file)
    bound = evaluation.bindings(root_of(part, subscripts=True))
    if not bound or not isinstance(part, (cst.Attribute, cst.Subscript)):
        return False
    function, end = unit_around(evaluation, part, file).node, index.order(part)
    for call in index.below(function, cst.Call):
        match call.func:
            case cst.Attribute(value=cst.Name() as whole, attr=cst.Name("to" | "cuda")):
                is_own = isinstance(index.parent(call), cst.Expr) and index.end(call) <= end
                if is_own and evaluation.bindings(whole) == bound:
                    return True
    return any(
        _is_on_gpu(evaluation.value(assign.value))
        and isinstance(target, (cst.Attribute, cst.Subscript))
        and evaluation.bindings(target.value) == bound
        for assign in index.below(function, cst.Assign)
        for target in (one.target for one in assign.targets)
        if index.end(assign) <= end
    )


def _is_on_gpu(value: Value) -> bool:
    return any(isinstance(one, Tensor) and one.device is Device.CUDA for one in value)


def is_replaced(evaluation: Evaluation, copy: DeviceCopy) -> bool:
    """Whether entries of what it is an entry of were replaced by their copies before."""
    if not isinstance(copy.tensor, cst.Subscript):
        return False
    index = evaluation.index(copy.file)
    function = unit_around(evaluation, copy.node, copy.file).node
    owner = evaluation.bindings(copy.tensor.value)
    for assign in index.below(function, cst.Assign):
        target = assign.targets[0].target
        if isinstance(target, cst.Subscript) and index.end(assign) <= index.order(copy.node):
            same = owner and evaluation.bindings(target.value) == owner
            value = evaluation.value(assign.value)
            if same and _is_on_gpu(value):
                return True
    return False


def is_changed_later(evaluation: Evaluation, copy: DeviceCopy, loader: At) -> bool:
    """Whether the host writes into the batch after the copy, in its function."""
    index = evaluation.index(copy.file)
    function = unit_around(evaluation, copy.node, copy.file).node
    return any(
        index.order(node) > index.order(copy.node)
        and _is_host(evaluation.value(node), loader)
        for node in _written(index.below(function, cst.AugAssign),
                             index.below(function, cst.AssignTarget),
                             index.below(function, cst.Call))
    )  # fmt: skip


def _written(
    changed: Iterator[cst.AugAssign],
    assigned: Iterator[cst.AssignTarget],
    calls: Iterator[cst.Call],
) -> Iterator[cst.BaseExpression]:
    """Yield what is written into in place."""
    for one in changed:
        yield one.target.value if isinstance(one.target, cst.Subscript) else one.target
    for target in assigned:
        if isinstance(target.target, cst.Subscript):
            yield target.target.value
    for call in calls:
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                if name.endswith("_") and not name.endswith("__") and name not in KEEPS:
                    yield owner


def is_handed_on(evaluation: Evaluation, copy: DeviceCopy, loader: At) -> bool:
    """Whether what nobody knows, or a function of the project, gets the batch after the copy."""
    index = evaluation.index(copy.file)
    function = unit_around(evaluation, copy.node, copy.file).node
    for call in index.below(function, cst.Call):
        if index.order(call) > index.order(copy.node):
            called = evaluation.value(call.func)
            if not called or any(isinstance(one, (Unknown, Function)) for one in called):
                values = (evaluation.value(arg.value) for arg in call.args)
                if any(_is_host(tuple(flat(value)), loader) for value in values):
                    return True
    return False


def _is_host(value: Value, loader: At) -> bool:
    """Whether something is memory of a batch on the host."""
    return any(
        isinstance(one, Tensor)
        and one.batch == loader
        and one.loaded is not Loaded.NO
        and one.device is not Device.CUDA
        for one in value
    )
