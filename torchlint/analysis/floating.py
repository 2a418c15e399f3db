"""Which tensors are proved to hold floating-point numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.values import Kind

if TYPE_CHECKING:
    from torchlint.analysis.program import Program

# Functions and methods that give floats, or keep floats and refuse anything else.
_GIVES_FLOAT = frozenset(
    """mean std var float double half bfloat16 softmax log_softmax sigmoid tanh exp log sqrt rsqrt
    cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div bce_loss logsigmoid
    binary_cross_entropy binary_cross_entropy_with_logits ctc_loss hinge_embedding_loss
    cosine_embedding_loss triplet_margin_loss cosine_similarity norm clip_grad_norm_""".split()
)
# Methods that keep the type of what they are called on.
_KEEPS = frozenset(
    "detach clone cpu cuda contiguous view reshape flatten squeeze sum max min abs neg item".split()
)
_DEPTH = 6


def is_floating(program: Program, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an expression is proved to be a floating-point tensor.

    A tensor on which ``.backward()`` is called is one: only those have gradients.
    """
    if depth > _DEPTH:
        return False
    match node:
        case cst.Name():
            bindings = program.flow.reaching(node)
            shown = program.usage.shown_by(bindings)
            if shown is not None and shown.kind is Kind.TENSOR:
                return True
            return bool(bindings) and all(
                binding.is_plain
                and isinstance(binding.value, cst.BaseExpression)
                and is_floating(program, binding.value, depth + 1)
                for binding in bindings
            )
        case cst.Attribute(attr=cst.Name(value="grad")):
            return True
        case cst.Attribute(value=inner, attr=cst.Name(value="data")):
            return is_floating(program, inner, depth + 1)
        case cst.Attribute():
            shown = program.usage.shown_attribute(node)
            return shown is not None and shown.kind is Kind.TENSOR
        case cst.BinaryOperation(operator=cst.Divide()):
            return True
        case cst.BinaryOperation(left=left, right=right):
            return is_floating(program, left, depth + 1) or is_floating(program, right, depth + 1)
        case cst.Call():
            return _call(program, node, depth)
        case _:
            return False


def _call(program: Program, node: cst.Call, depth: int) -> bool:
    name = program.qualified(node.func)
    if name.rpartition(".")[2] in _GIVES_FLOAT and name.startswith("torch."):
        return True
    function = program.value(node.func)
    if function.kind is Kind.MODULE:
        return function.type.startswith("torch.nn.") and function.type.endswith("Loss")
    if isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        if method in _GIVES_FLOAT:
            return True
        return method in _KEEPS and is_floating(program, node.func.value, depth + 1)
    return False
