"""Models whose results are the same bits whether autograd records them or not.

Some layers take another way where no gradient is wanted (the fast path of attention, cuDNN's
recurrent layers), and a matrix product folds its operands by whether they require a gradient.
Only what is listed here, and run by a test both ways, is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.attached import Held, held
from torchlint.analysis.reach import class_of
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program
    from torchlint.analysis.values import Value

_POOLS = ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *(f"{kind}{n}d" for n in (1, 2, 3) for kind in ("Conv", "ConvTranspose", "BatchNorm",
                                                        "InstanceNorm", *_POOLS)),
        *(f"Dropout{n}d" for n in (1, 2, 3)),
        "Linear", "LayerNorm", "GroupNorm", "Embedding", "Dropout", "AlphaDropout", "Flatten",
        "Unflatten", "Identity", "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU",
        "Mish", "Softplus", "Sigmoid", "Tanh", "Hardtanh", "Hardswish", "Hardsigmoid", "Softmax",
        "LogSoftmax", "PixelShuffle", "ZeroPad2d", "ReflectionPad2d", "Upsample",
    )
)  # fmt: skip
LOSSES = frozenset(
    f"torch.nn.{name}"
    for name in ("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
                 "BCELoss", "BCEWithLogitsLoss", "KLDivLoss")
)  # fmt: skip
# Arguments of layers that choose other ways.
_DOUBTFUL = frozenset({"groups", "max_norm", "sparse"})
FUNCTIONS = frozenset(
    {*(f"torch.nn.functional.{name}" for name in (
        "relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "softmax", "log_softmax",
        "dropout", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "cross_entropy", "nll_loss",
        "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "one_hot",
        "binary_cross_entropy_with_logits")),
     *(f"torch.{name}" for name in (
        "flatten", "cat", "stack", "relu", "sigmoid", "tanh", "softmax", "log_softmax", "max",
        "min", "argmax", "argmin", "sum", "mean", "abs", "sqrt", "exp", "log", "eq", "topk",
        "zeros", "ones", "arange", "tensor", "squeeze", "unsqueeze", "reshape", "transpose",
        "permute", "device"))}
)  # fmt: skip
METHODS = frozenset(
    """view reshape flatten size dim numel permute transpose t squeeze unsqueeze contiguous expand
    mean sum max min abs sqrt exp log pow clamp relu sigmoid tanh softmax log_softmax argmax argmin
    topk eq ne gt lt ge le view_as expand_as item detach cpu cuda to float long int bool tolist
    numpy""".split()
)
_BUILTINS = frozenset({"len", "int", "float", "range", "isinstance", "tuple", "list", "super"})
# Attributes by which code sees whether it is recorded.
_TELLS = frozenset({"requires_grad", "grad_fn", "is_leaf", "grad"})
_HARMLESS = frozenset(
    """len int float range enumerate zip print str round abs min max sum list tuple dict isinstance
    sorted iter next""".split()
)
_OTHER_MODULES = ("time.", "math.", "numpy.", "tqdm.", "random.")
_DEPTH = 6


def same_either_way(program: Program, model: Value, depth: int = 0) -> bool:
    """Whether a module, all of which has to be seen, computes the same bits without recording."""
    if model.kind is not Kind.MODULE or depth > _DEPTH:
        return False
    made = model.made
    if model.type == "torch.nn.Sequential" and isinstance(made, cst.Call):
        parts = [program.value(arg.value) for arg in made.args if not (arg.star or arg.keyword)]
        every = len(parts) == len(made.args)
        return every and all(same_either_way(program, part, depth + 1) for part in parts)
    if model.type in LAYERS:
        return isinstance(made, cst.Call) and not any(
            arg.star or (arg.keyword is not None and arg.keyword.value in _DOUBTFUL)
            for arg in made.args
        )
    found = class_of(program, model)
    return found is not None and _class(*found, depth)


def _class(program: Program, owner: Class, depth: int) -> bool:
    """Whether the methods of a module use nothing but trusted layers, and keep nothing."""
    if len(program.classes.lineage(owner)) > 1 or owner.bases != ("torch.nn.Module",):
        return False
    if "forward" not in owner.methods or owner.node.decorators:
        return False
    methods = [m for name, m in owner.methods.items() if name != "__init__"]
    return all(_method(program, method, depth) for method in methods)


def _method(program: Program, method: cst.FunctionDef, depth: int) -> bool:
    index = program.index
    if method.decorators or any(
        isinstance(one.operator, cst.MatrixMultiply)
        for one in index.below(method, cst.BinaryOperation)
    ):
        return False
    for node in index.below(method, cst.Attribute):
        above = program.parent(node)
        stored = isinstance(above, cst.AssignTarget | cst.AugAssign)
        if node.attr.value in _TELLS or (stored and dotted(node).startswith("self.")):
            return False
    return all(_is_trusted(program, call, depth) for call in index.below(method, cst.Call))


def _is_trusted(program: Program, call: cst.Call, depth: int) -> bool:
    """Whether a call in a method computes the same either way."""
    func = call.func
    name = program.qualified(func)
    if name.startswith("torch."):
        return name in FUNCTIONS
    if isinstance(func, cst.Name):
        return func.value in _BUILTINS and program.is_builtin(func)
    value = program.value(func)
    if value.kind is Kind.MODULE:
        return same_either_way(program, value, depth + 1)
    if program.calls.target(call) is not None:
        return dotted(func).startswith("self.")  # a method of the class, looked at by itself
    return isinstance(func, cst.Attribute) and func.attr.value in METHODS


# -- code around a model ------------------------------------------------------------------------


def unnoticed(program: Program, place: cst.CSTNode) -> bool:
    """Whether nothing at or below a place could tell that gradients are off."""
    if "register_forward" in program.text or "register_module" in program.text:
        return False
    index = program.index
    shown = index.below(place, cst.FormattedStringExpression)
    if any(held(program, part.expression) is not Held.NO for part in shown):
        return False
    operations = index.below(place, cst.BinaryOperation)
    if any(isinstance(one.operator, cst.MatrixMultiply) for one in operations):
        return False
    return all(_is_unmoved(program, call) for call in index.below(place, cst.Call))


def _is_unmoved(program: Program, call: cst.Call) -> bool:
    """Whether a call is known to do the same without gradients."""
    func = call.func
    name = program.qualified(func)
    if name.startswith("torch."):
        return name in FUNCTIONS
    if name.startswith(_OTHER_MODULES):
        return True
    if isinstance(func, cst.Name) and program.is_builtin(func):
        shows = func.value in ("print", "str")
        return func.value in _HARMLESS and not (shows and _gets_graph(program, call))
    value = program.value(func)
    if value.kind is Kind.MODULE:
        return value.type in LOSSES or same_either_way(program, value)
    if not isinstance(func, cst.Attribute):
        return False
    if func.attr.value == "append":
        return not _gets_graph(program, call)
    receiver = program.value(func.value).kind
    if func.attr.value in ("eval", "train"):
        return receiver is Kind.MODULE
    return func.attr.value in METHODS and receiver in (Kind.TENSOR, Kind.BATCH)


def _gets_graph(program: Program, call: cst.Call) -> bool:
    """Whether a call may be given a tensor with its graph."""
    return any(held(program, arg.value) is not Held.NO for arg in call.args)
