"""Whether a module has parameters: without them autograd records nothing of what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.reach import class_of
from torchlint.analysis.sizes import layer_parameters
from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.analysis.classes import Class, Store
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

_NN = "torch.nn."
_CONTAINERS = (f"{_NN}Sequential", f"{_NN}ModuleList")
_TRANSFORMS = ("torchaudio.transforms.", "torchvision.transforms.")
_ADDS = frozenset({"register_parameter", "register_module", "add_module"})
_MAKES = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
_PLAIN = frozenset(
    {Kind.NONE, Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.NDARRAY, Kind.NPSCALAR, Kind.DEVICE,
     Kind.DTYPE, Kind.FUNCTION, Kind.TENSOR}
)  # fmt: skip
_SEVERAL = frozenset({Kind.LIST, Kind.TUPLE})
_DEPTH = 6  # modules in modules


def has_parameters(program: Program, model: Value, depth: int = 0) -> bool | None:
    """Whether a module has parameters, its own or those of a part; None where that is not seen."""
    kind = model.type
    if depth > _DEPTH:
        return None
    if kind in _CONTAINERS and isinstance(model.made, cst.Call):
        parts = [_of_value(program, arg.value, depth) for arg in model.made.args]
        return _any(parts) is not False  # who puts layers together has some with parameters
    if kind.startswith(_NN):
        return layer_parameters(kind) != 0
    if kind.startswith("torch"):
        return True
    found = class_of(program, model)
    return None if found is None else _of_class(*found, depth)


def _any(found: Iterable[bool | None]) -> bool | None:
    kinds = set(found)
    return True if True in kinds else None if None in kinds else False


def _of_class(program: Program, owner: Class, depth: int) -> bool | None:
    lineage = program.classes.lineage(owner)
    if any(_adds(program, one) for one in lineage):
        return True
    bases = {base for one in lineage for base in one.bases if program.classes.named(base) is None}
    stores = (store for one in lineage for kept in one.stores.values() for store in kept)
    found = _any(_of_store(program, store, depth) for store in stores)
    return found or (found if bases == {f"{_NN}Module"} else None)


def _adds(program: Program, owner: Class) -> bool:
    """Whether a class makes a parameter, or is given one by another way than ``self.x = ...``."""
    return any(
        program.qualified(call.func) in _MAKES
        or (isinstance(call.func, cst.Attribute) and call.func.attr.value in _ADDS)
        for call in program.index.below(owner.node, cst.Call)
    )


def _of_store(program: Program, store: Store, depth: int) -> bool | None:
    """Whether what is kept as ``self.x`` has parameters."""
    match store.value, store.path:
        case cst.AugAssign(), ():
            return False
        case cst.BaseExpression() as value, ():
            return _of_value(program, value, depth)
        case cst.Tuple(elements=elements), (place,) if place < len(elements):
            return _of_value(program, elements[place].value, depth)
        case _:
            return None


def _of_value(program: Program, node: cst.BaseExpression, depth: int) -> bool | None:
    value = program.value(node)
    if value.kind is Kind.MODULE:
        return has_parameters(program, value, depth + 1)
    if value.kind in _PLAIN or _is_number_by_default(program, node):
        return False
    if isinstance(node, cst.Call) and program.qualified(node.func).startswith(_TRANSFORMS):
        return False
    members = value.items if value.kind in _SEVERAL else None
    plain = members is not None and all(one.kind in _PLAIN for one in members)
    return False if plain else None


def _is_number_by_default(program: Program, node: cst.BaseExpression) -> bool:
    """``size`` of ``def __init__(self, size=80)``, or what is computed of such."""
    if isinstance(node, cst.BinaryOperation):
        return all(_is_number_by_default(program, one) for one in _sides(node))
    bindings = program.flow.reaching(node) if isinstance(node, cst.Name) else ()
    defaults = [one.value.default for one in bindings if isinstance(one.value, cst.Param)]
    return (
        bool(bindings)
        and len(defaults) == len(bindings)
        and all(
            isinstance(one, cst.BaseNumber | cst.SimpleString)
            or (isinstance(one, cst.Name) and one.value in ("True", "False"))
            for one in defaults
        )
    )


def _sides(node: cst.BinaryOperation) -> Iterator[cst.BaseExpression]:
    for side in (node.left, node.right):
        if not isinstance(side, cst.BaseNumber):
            yield side
