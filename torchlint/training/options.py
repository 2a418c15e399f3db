"""Whether what decides that a call runs may change from turn to turn, or is an option."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.syntax.scopes import Bind
from torchlint.training.between import conditions, loops
from torchlint.training.effects import unit_around
from torchlint.training.guards import Guard, guard_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.semantics.evaluation import Evaluation

_STORES = (cst.AssignTarget, cst.AugAssign, cst.For, cst.AnnAssign)


def varying(
    evaluation: Evaluation,
    path: Sequence[tuple[int, cst.Call]],
    shared: Sequence[cst.BaseExpression],
) -> bool | None:
    """Return whether a turn of the loops around a call may decide if it runs, None if not seen.

    ``path`` leads to the call, from where the code starts; the tests in ``shared`` do not count.
    """
    around: list[cst.CSTNode] = []
    found: list[bool | None] = []
    for place, (file, call) in enumerate(path):
        outer = unit_around(evaluation, call, file).node
        if guard_between(evaluation, call, outer, file) is Guard.EXCEPTION:
            return True
        around += loops(evaluation, call, outer, file)
        found += [
            changes(evaluation, one.test, file, path[:place], around)
            for one in conditions(evaluation, call, outer, file)
            if all(one.test is not test for test in shared)
        ]
    return True if True in found else None if None in found else False


def changes(
    evaluation: Evaluation,
    node: cst.BaseExpression,
    file: int,
    path: Sequence[tuple[int, cst.Call]],
    around: Sequence[cst.CSTNode],
) -> bool | None:
    """Return whether an expression may change from turn to turn, None where it is not seen."""
    index = evaluation.index(file)
    if any(True for _ in index.below(node, cst.Call)):
        return True
    function = unit_around(evaluation, node, file).node
    found: list[bool | None] = [
        True for one in index.below(node, cst.Attribute) if _is_stored(evaluation, one.attr.value)
    ]
    for name in index.below(node, cst.Name):
        above = index.parent(name)
        owner = index.scope(name).owner(name.value)
        if owner is None or (isinstance(above, cst.Attribute) and above.attr is name):
            continue
        bindings = owner.bindings[name.value]
        if any(index.inside(one.node, loop) for one in bindings for loop in around):
            return True
        if any(one.kind is Bind.PARAMETER for one in bindings):
            is_owner = isinstance(above, cst.Attribute)
            if is_owner or not isinstance(function, cst.FunctionDef) or not path:
                found.append(None)
                continue
            block = index.parent(function)
            is_method = block is not None and isinstance(index.parent(block), cst.ClassDef)
            names = [one.name.value for one in function.params.params][is_method:]
            found.append(_given(evaluation, name.value, names, path, around))
    return True if True in found else None if None in found else False


def _given(
    evaluation: Evaluation,
    name: str,
    names: Sequence[str],
    path: Sequence[tuple[int, cst.Call]],
    around: Sequence[cst.CSTNode],
) -> bool | None:
    """Return whether what a parameter gets may change from turn to turn."""
    caller, call = path[-1]
    passed, is_sure = given_to(evaluation, call, names)
    given = passed.get(name)
    if given is None:
        return False if is_sure else None  # its default
    if given.node is None:
        return True
    return changes(evaluation, given.node, caller, path[:-1], around)


def _is_stored(evaluation: Evaluation, attribute: str) -> bool:
    """Whether an attribute of that name is set anywhere but where an object is made."""
    for module in evaluation.files.modules:
        for name in module.index.named.get(attribute, ()):
            target = module.parent(name)
            if not isinstance(target, cst.Attribute) or target.attr is not name:
                continue
            above = module.parent(target)
            if isinstance(above, _STORES) and getattr(above, "target", None) is target:
                function = module.function(name)
                if not isinstance(function, cst.FunctionDef) or function.name.value != "__init__":
                    return True
    return False
