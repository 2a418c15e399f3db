"""The condition that a GPU is used, in code: what is true exactly where batches go to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.values import Library, Place
from torchlint.syntax.scopes import Bind
from torchlint.training.guards import AVAILABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import At, Value
    from torchlint.syntax.scopes import Binding, Scope
    from torchlint.training.copies import DeviceCopy

ANY = "torch.accelerator."


def condition_for_gpu(evaluation: Evaluation, at: At, copies: Iterable[DeviceCopy]) -> str | None:
    """Return what is true at a call where some copies go to a GPU; None where torch has no name.

    That is ``True`` where they certainly do, else the type of a device that is certainly bound
    before the call, else what torch says; torch has to be imported where it begins with ``torch.``.
    """
    copies, asked = list(copies), _asked(evaluation)
    if copies and not asked and all(copy.is_certain for copy in copies):
        return "True"
    name = _device(evaluation, at, copies)
    is_any = any(one.startswith(ANY) for one in asked)
    if name and not is_any:
        return f'{name}.type == "cuda"'
    asks = "accelerator" if is_any else "cuda"
    torch = name_of_torch(evaluation, at)
    return None if torch is None else f"{torch or 'torch'}.{asks}.is_available()"


def _asked(evaluation: Evaluation) -> set[str]:
    """Return what the connected files ask to know which device there is."""
    return {one for one in evaluation.named if one in AVAILABLE or one.startswith(ANY)}


def _device(evaluation: Evaluation, at: At, copies: list[DeviceCopy]) -> str:
    """Return the one name of the device of all copies, where a call may use it, or ""."""
    names = {one.where.value for one in copies if isinstance(one.where, cst.Name)}
    wanted = {evaluation.value(copy.where) for copy in copies if copy.where}
    if not len(names) == len(wanted) == 1:
        return ""
    name = names.pop()
    scope = evaluation.index(at.file).scope(evaluation.node(at)).owner(name)
    value = _bound(evaluation, at, scope, name) if scope is not None else ()
    return name if value in wanted and all(isinstance(one, Place) for one in value) else ""


def _bound(evaluation: Evaluation, at: At, scope: Scope, name: str) -> Value:
    """Return what a name is at a call, nothing where it may not be bound yet, or twice."""
    binding, *others = scope.bindings[name]
    value = evaluation.name(at.file, scope, name).value
    match binding.value:
        case cst.Param():
            unit = evaluation.units.get(evaluation.at(scope.node, at.file))
            cell = unit.parameters.get(name) if unit else None
            return () if others or cell is None else cell.value
        case cst.BaseExpression() as made if binding.kind is Bind.ASSIGN and binding.is_plain:
            value = evaluation.value(made)
    return value if not others and _precedes(evaluation, binding, scope, at) else ()


def _precedes(evaluation: Evaluation, binding: Binding, scope: Scope, at: At) -> bool:
    """Whether a binding has certainly run where a call does: its block is around the call."""
    index = evaluation.index(at.file)
    around_it = index.ancestors(binding.node)
    block = next(one for one in around_it if isinstance(one, (cst.BaseSuite, cst.Module)))
    place: cst.CSTNode = evaluation.node(at)
    around = index.scope(place).function()
    if around is not scope:
        place = around.node
    return (block is scope.node or index.inside(evaluation.node(at), block)) and (
        index.order(binding.node) < index.order(place)
    )


def name_of_torch(evaluation: Evaluation, at: At) -> str | None:
    """Return what torch is called at a call: "" where it has to be imported, None where it cannot.

    An import at the level of the module has run before anything is called.
    """
    index = evaluation.index(at.file)
    scope = index.scope(evaluation.node(at))
    for name, bindings in index.root.bindings.items():
        is_seen = scope.owner(name) is index.root and {one.kind for one in bindings} == {
            Bind.IMPORT
        }
        if is_seen and evaluation.name(at.file, index.root, name).value == (Library("torch"),):
            return name
    return None if index.root.stars or scope.owner("torch") else ""
