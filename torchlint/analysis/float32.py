"""How a file computes in float32: whether with TensorFloat-32, and whether it multiplies much."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import literal
from torchlint.analysis.loops import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program

_PRODUCTS = frozenset(
    {"matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "scaled_dot_product_attention",
     "multi_head_attention_forward"}
)  # fmt: skip
_METHODS = frozenset({"matmul", "bmm", "baddbmm"})  # of a tensor, by their names
_CONVOLUTION = re.compile(r"\bconv_?(transpose)?[123]d", re.IGNORECASE)
# Weights of a layer from which on the product takes longer than its launch, and the larger side.
_LARGE, _WIDE = 512 * 1024, 512

# Names of the older switches and of those of torch 2.9, by what they hold for.
OLD = {
    "torch.set_float32_matmul_precision": "matmul",
    "torch.get_float32_matmul_precision": "matmul",
    "torch.backends.cuda.matmul.allow_tf32": "matmul",
    "torch.backends.cudnn.allow_tf32": "cudnn",
}
NEW = {
    "torch.backends.fp32_precision": "",
    "torch.backends.cuda.matmul.fp32_precision": "matmul",
    "torch.backends.cudnn.fp32_precision": "cudnn",
    "torch.backends.cudnn.conv.fp32_precision": "cudnn",
    "torch.backends.cudnn.rnn.fp32_precision": "cudnn",
}


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A place where a file reads or sets how float32 is computed.

    ``name`` is qualified; ``value`` what it is set to, None where it is read.
    """

    node: cst.CSTNode
    name: str
    value: cst.BaseExpression | None


def switches(program: Program) -> Iterator[Switch]:
    """Find the places where the file reads or sets how float32 is computed."""
    for call in program.calls_of(*OLD):
        yield Switch(call, program.qualified(call.func), call.args[0].value if call.args else None)
    for node in program.index.of(cst.Attribute):
        if node.attr.value in ("allow_tf32", "fp32_precision"):
            name = program.qualified(node)
            if name in OLD or name in NEW:
                yield _set_or_read(program, node, name)


def _set_or_read(program: Program, node: cst.Attribute, name: str) -> Switch:
    target = program.parent(node)
    statement = None if target is None else program.parent(target)
    if isinstance(target, cst.AssignTarget) and isinstance(statement, cst.Assign):
        return Switch(statement, name, statement.value)
    return Switch(node, name, None)


def turns_off(switch: Switch) -> bool:
    """Whether a switch is set to full precision, in so many words."""
    return literal(switch.value) in ("False", "highest", "ieee")


def product(program: Program) -> cst.BaseExpression | None:
    """Return where a model of the file multiplies large matrices, or has a layer that does.

    A layer beside convolutions is the small end of a model; what is in other files is not seen.
    In a file that speaks of sparse matrices a product may be one of those.
    """
    sparse = "sparse" in program.text
    for call in program.index.of(cst.Call):
        if _is_product(program, call, sparse=sparse):
            return call
    for node in () if sparse else program.index.of(cst.BinaryOperation):
        if isinstance(node.operator, cst.MatrixMultiply) and _in_forward(program, node):
            return node
    if _CONVOLUTION.search(program.text):
        return None
    return next((c for c in program.calls_of("torch.nn.Linear") if _is_large(program, c)), None)


def _is_product(program: Program, call: cst.Call, *, sparse: bool) -> bool:
    name = program.qualified(call.func)
    last = call.func.attr.value if isinstance(call.func, cst.Attribute) else name.split(".")[-1]
    if last == "MultiheadAttention" or last.startswith("Transformer"):
        return name.startswith("torch.nn.")
    if (
        sparse
        or last not in _PRODUCTS
        or not (name.startswith("torch.") or (not name and last in _METHODS))
    ):
        return False
    return _in_forward(program, call)


def _in_forward(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node is computed in every forward pass of a module of the file."""
    function = program.function(node)
    owner = None if function is None else program.classes.around(function)
    return owner is not None and owner.is_module and program.context(node).role is Role.FORWARD


def _is_large(program: Program, call: cst.Call) -> bool:
    sides = [program.argument(call, name).values for name in ("in_features", "out_features")]
    counts = [program.arguments.number(values[0]) or 0 for values in sides if values]
    return math.prod(counts) >= _LARGE and max(counts) > _WIDE
