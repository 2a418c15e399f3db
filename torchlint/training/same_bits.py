"""What gives the same bits whether autograd records it or not, and shows nothing of that.

Some layers take another way where no gradient is wanted (the fast path of attention, cuDNN's
recurrent layers), and a matrix product folds its operands by whether they require a gradient.
Only what is listed here, and run by a test both ways, is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.tables.torch_classes import CONTAINERS
from torchlint.semantics.values import Function, Instance, Library, Method, Object, Tensor, Unknown
from torchlint.syntax.calls import has_keyword, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At


def _names(space: str, words: str) -> Iterator[str]:
    """Yield names of a module; of ``Conv#d`` those for one, two and three dimensions."""
    for word in words.split():
        yield from (f"{space}.{word.replace('#', n)}" for n in ("123" if "#" in word else "1"))


LAYERS = frozenset(
    _names(
        "torch.nn",
        """Conv#d ConvTranspose#d BatchNorm#d InstanceNorm#d MaxPool#d AvgPool#d AdaptiveAvgPool#d
        AdaptiveMaxPool#d Dropout#d Linear LayerNorm GroupNorm Embedding Dropout AlphaDropout
        Flatten Unflatten Identity ReLU ReLU6 LeakyReLU ELU SELU GELU SiLU Mish Softplus Sigmoid
        Tanh Hardtanh Hardswish Hardsigmoid Softmax LogSoftmax PixelShuffle ZeroPad2d
        ReflectionPad2d Upsample""",
    )
)
LOSSES = frozenset(
    _names(
        "torch.nn",
        """CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss
        KLDivLoss""",
    )
)
FUNCTIONS = frozenset(
    _names(
        "torch.nn.functional",
        """relu leaky_relu elu gelu silu sigmoid tanh softmax log_softmax dropout max_pool2d
        avg_pool2d adaptive_avg_pool2d cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss
        binary_cross_entropy one_hot binary_cross_entropy_with_logits""",
    )
) | frozenset(
    _names(
        "torch",
        """flatten cat stack relu sigmoid tanh softmax log_softmax max min argmax argmin sum mean
        abs sqrt exp log eq topk zeros ones arange tensor squeeze unsqueeze reshape transpose
        permute device""",
    )
)
METHODS = frozenset(
    """view reshape flatten size dim numel permute transpose t squeeze unsqueeze contiguous expand
    mean sum max min abs sqrt exp log pow clamp relu sigmoid tanh softmax log_softmax argmax argmin
    topk eq ne gt lt ge le view_as expand_as item detach cpu cuda to float long int bool tolist
    numpy""".split()
)
# Arguments of layers that choose other ways, and attributes by which code sees that it is recorded.
_DOUBTFUL = frozenset({"groups", "max_norm", "sparse"})
_TELLS = frozenset({"requires_grad", "grad_fn", "is_leaf", "grad"})
HOOKS = frozenset(
    f"register_{where}forward_{when}hook" for where in ("", "module_") for when in ("", "pre_")
)
_HARMLESS = frozenset(
    _names("builtins", "len int float range enumerate zip abs max min sum list tuple super")
)
_DEEPEST = 6


def gives_same_bits(evaluation: Evaluation, place: cst.CSTNode, file: int, depth: int = 0) -> bool:
    """Whether nothing at or below a place could tell that gradients are off."""
    index = evaluation.index(file)
    shown = index.below(place, cst.FormattedStringExpression)
    return (
        depth <= _DEEPEST
        and not any(module.index.named.keys() & HOOKS for module in evaluation.files.modules)
        and not any(_has_graph(evaluation, one.expression) for one in shown)
        and not any(
            isinstance(one.operator, cst.MatrixMultiply)
            for one in index.below(place, cst.BinaryOperation)
        )
        and all(one.attr.value not in _TELLS for one in index.below(place, cst.Attribute))
        and all(_is_trusted(evaluation, one, depth) for one in index.below(place, cst.Call))
    )


def _is_trusted(evaluation: Evaluation, call: cst.Call, depth: int) -> bool:
    value, name = evaluation.value(call.func), last_name(call.func)
    is_free = not depth and not any(_has_graph(evaluation, arg.value) for arg in call.args)
    return bool(value) and all(_does_same(evaluation, one, name, depth, is_free) for one in value)


def _does_same(
    evaluation: Evaluation, one: Alternative, method: str, depth: int, is_free: bool
) -> bool:
    """Whether a call is known to do the same without gradients; ``is_free``: it is given none."""
    match one:
        case Library(name=name) if name.startswith("torch."):
            return name in FUNCTIONS
        case Library(name=name):
            return is_free or name in _HARMLESS
        case Function(owner=Instance()):
            return depth > 0  # a method of the module, which is looked at by itself
        case Method(owner=Tensor()):
            return method in METHODS
        case Method(owner=Unknown()) | Unknown() if depth:
            return method in METHODS
        case Method():
            return is_free
        case Object() | Instance():
            return _is_plain(evaluation, one, depth)
    return False


def _is_plain(evaluation: Evaluation, one: Alternative, depth: int) -> bool:
    """Whether a module, all of which has to be seen, computes the same bits."""
    match one:
        case Object(kind=kind, call=call) if call is not None and depth <= _DEEPEST:
            if kind in CONTAINERS:
                held = evaluation.elements(call).value
                return bool(held) and all(_is_plain(evaluation, each, depth + 1) for each in held)
            made = evaluation.node(call)
            is_known = isinstance(made, cst.Call) and not has_keyword(made, _DOUBTFUL)
            return is_known and kind in LAYERS | LOSSES
        case Instance(cls=cls):
            return _class_is_plain(evaluation, cls, depth)
    return False


def _class_is_plain(evaluation: Evaluation, at: At, depth: int) -> bool:
    """Whether the methods of a module use nothing but trusted layers, and keep nothing."""
    cls, index = evaluation.classes.of(at), evaluation.index(at.file)
    if cls is None or cls.node.decorators or "forward" not in cls.methods:
        return False
    if [one.at for one in evaluation.classes.lineage(at)] != [at]:
        return False
    if evaluation.classes.library_bases(at) != ["torch.nn.Module"]:
        return False
    methods = [one for name, one in cls.methods.items() if name != "__init__"]
    kept = [one.target for each in methods for one in index.below(each, cst.AssignTarget)]
    kept += [one.target for each in methods for one in index.below(each, cst.AugAssign)]
    return not any(isinstance(one, cst.Attribute) for one in kept) and all(
        not one.decorators and gives_same_bits(evaluation, one.body, at.file, depth + 1)
        for one in methods
    )


def _has_graph(evaluation: Evaluation, node: cst.BaseExpression) -> bool:
    return any(isinstance(one, Tensor) and one.graph for one in flat(evaluation.value(node)))
