"""Arrays that NumPy makes of a size and numbers, only for a tensor of them to go to the GPU.

``torch.from_numpy(np.zeros(n)).cuda()``, or with a name in between that serves nothing else.  One
in each row of zeros (``y[range(n), labels] = 1``) is what `torch.nn.functional.one_hot` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords
from torchlint.analysis.creation import SAME, goal_of
from torchlint.analysis.hoisting import loops_around
from torchlint.analysis.reach import received
from torchlint.analysis.uses import uses_of

if TYPE_CHECKING:
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

ARRAYS = tuple(
    f"numpy.{name}"
    for name in ("zeros", "ones", "full", "empty", "eye", "random.normal", "random.randn",
                 "random.rand", "random.uniform", "random.standard_normal", "random.random",
                 "random.random_sample", "random.randint")
)  # fmt: skip
_MAKERS = tuple(
    f"torch.{name}"
    for name in ("tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor")
)
_KEEPS = ("torch.autograd.Variable", "numpy.float32", "numpy.array", "numpy.asarray")
_METHODS = SAME | {"astype", "half", "type"}
_COUNTS = ("numpy.arange", "torch.arange")
_DEPTH = 4


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """The call that makes a tensor for the GPU; ``plain``: of the array as NumPy has made it."""

    tensor: cst.Call
    plain: bool = True


def upload_of(program: Program, array: cst.Call) -> Upload | None:
    """Return how an array goes to the GPU, if that is all it is made for."""
    tensor = _uploaded(program, array)
    if tensor is not None:
        return Upload(tensor)
    match program.parent(array):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            binding = program.index.bound(name)
            return None if binding is None else _by_name(program, array, binding)
        case _:
            return None


def _by_name(program: Program, array: cst.Call, binding: Binding) -> Upload | None:
    uses = list(uses_of(program, binding))
    tensors = [
        tensor
        for use in uses
        if program.flow.reaching(use) == (binding,)
        and (tensor := _uploaded(program, use)) is not None
        and _runs_with(program, tensor, array)
    ]
    if not tensors or not all(_serves(program, use, 0) for use in uses):
        return None
    plain = not any(_is_filled(program, use) for use in uses)
    return Upload(tensors[0], plain) if plain or _is_zeros(program, array) else None


def _is_zeros(program: Program, array: cst.Call) -> bool:
    return program.qualified(array.func) == "numpy.zeros"


def _runs_with(program: Program, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes stand in the same turns of the same function."""
    loops = [[id(one) for one in loops_around(program, each)] for each in (node, other)]
    return loops[0] == loops[1] and program.function(node) is program.function(other)


def _serves(program: Program, use: cst.Name, depth: int) -> bool:
    """Whether a use of an array only serves tensors on the GPU, or asks for its size."""
    if depth > _DEPTH:
        return False
    if _uploaded(program, use) is not None or _is_filled(program, use):
        return True
    match program.parent(use):
        case cst.Attribute(attr=cst.Name(value="shape" | "size")):
            return True
        case cst.Arg() as arg:
            return _is_given(program, use, program.parent(arg), depth)
        case cst.Index():
            return _is_index(program, use, depth)
        case _:
            return False


def _is_given(program: Program, use: cst.Name, call: cst.CSTNode | None, depth: int) -> bool:
    """Whether a call only asks for the length, or runs what uses the array for the GPU alone."""
    if not isinstance(call, cst.Call):
        return False
    if isinstance(call.func, cst.Name) and call.func.value == "len":
        return program.is_builtin(call.func)
    taken = received(program, call, use)
    return taken is not None and _is_for_gpu(*taken, depth + 1)


def _is_for_gpu(program: Program, binding: Binding, depth: int) -> bool:
    return all(_serves(program, use, depth) for use in uses_of(program, binding))


def _is_index(program: Program, use: cst.Name, depth: int) -> bool:
    """``y[range(n), labels] = 1``: for an array that only goes to the GPU itself."""
    target = program.index.nearest(use, cst.Subscript)
    if target is None or not isinstance(target.value, cst.Name):
        return False
    bindings = program.flow.reaching(target.value)
    return _is_filled(program, target.value) and all(
        _is_for_gpu(program, one, depth + 1) for one in bindings
    )


def _is_filled(program: Program, use: cst.Name) -> bool:
    """``y[range(n), labels] = 1``: puts a one into each row of an array."""
    target = program.parent(use)
    match program.parent(program.parent(target) or use) if target is not None else None:
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Subscript(
                        value=filled,
                        slice=[
                            cst.SubscriptElement(slice=cst.Index(value=cst.Call() as rows)),
                            _,
                        ],
                    )
                )
            ],
            value=cst.Integer() | cst.Float() as number,
        ):
            return filled is use and number.evaluated_value == 1 and _counts(program, rows)
        case _:
            return False


def _counts(program: Program, call: cst.Call) -> bool:
    """``range(n)`` or ``np.arange(n)``: each row in turn."""
    if isinstance(call.func, cst.Name) and call.func.value == "range":
        return program.is_builtin(call.func)
    return program.qualified(call.func) in _COUNTS


def _uploaded(program: Program, array: cst.BaseExpression) -> cst.Call | None:
    """Return the call that makes a tensor of an array, if that goes to the GPU."""
    tensor: cst.Call | None = None
    node: cst.CSTNode = array
    while True:
        above = program.parent(program.parent(node) or node)
        if not isinstance(above, cst.Call):
            return None
        if isinstance(above.func, cst.Attribute) and above.func.value is node:
            name = above.func.attr.value
            if tensor is not None and name in ("to", "cuda"):
                return tensor if goal_of(program, above) is not None else None
            if name not in _METHODS:
                return None
        elif not above.args or above.args[0].value is not node:
            return None
        elif program.devices.of_tensor_type(above.func).gpu:
            return above
        elif program.qualified(above.func) in _MAKERS:
            tensor = above
            given = keywords(above).get("device")
            if given is not None:
                found = program.values.device(given)
                return above if found is not None and found.gpu else None
        elif program.qualified(above.func) not in _KEEPS:
            return None
        node = above
