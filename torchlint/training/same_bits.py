"""What gives the same bits whether autograd records it or not, and shows nothing of that.

Some layers take another way where no gradient is wanted (the fast path of attention, cuDNN's
recurrent layers), and a matrix product folds its operands by whether they require a gradient.
Only what is listed here, and run by a test both ways, is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.sets import flat
from torchlint.semantics.tables.torch_classes import CONTAINERS
from torchlint.semantics.values import (
    Function,
    Guess,
    Instance,
    Library,
    Method,
    Object,
    Tensor,
    Unknown,
)
from torchlint.syntax.calls import keywords

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, At

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
# Arguments of layers that choose other ways, and attributes by which code sees that it is recorded.
_DOUBTFUL = frozenset({"groups", "max_norm", "sparse"})
_TELLS = frozenset({"requires_grad", "grad_fn", "is_leaf", "grad"})
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_module_forward_hook",
         "register_module_forward_pre_hook")  # fmt: skip
_HARMLESS = frozenset(
    """len int float range enumerate zip print str round abs min max sum list tuple dict isinstance
    sorted iter next super""".split()
)
_OTHERS = ("time.", "math.", "numpy.", "tqdm.", "random.")
_DEEPEST = 6


@dataclass(frozen=True, slots=True, eq=False)
class SameBits:
    """What is trusted of connected files."""

    evaluation: Evaluation

    def around(self, place: cst.CSTNode, file: int) -> bool:
        """Whether nothing at or below a place could tell that gradients are off."""
        modules = self.evaluation.files.modules
        if any(word in module.index.named for module in modules for word in HOOKS):
            return False
        index = modules[file].index
        shown = index.below(place, cst.FormattedStringExpression)
        return not any(self._has_graph(one.expression) for one in shown) and self._is_plain(
            place, file, 0
        )

    def _is_plain(self, place: cst.CSTNode, file: int, depth: int) -> bool:
        index = self.evaluation.index(file)
        return (
            depth <= _DEEPEST
            and all(not isinstance(one.operator, cst.MatrixMultiply)
                    for one in index.below(place, cst.BinaryOperation))
            and all(one.attr.value not in _TELLS for one in index.below(place, cst.Attribute))
            and all(self._call(one, depth) for one in index.below(place, cst.Call))
        )  # fmt: skip

    def _call(self, call: cst.Call, depth: int) -> bool:
        value = self.evaluation.value(call.func)
        return bool(value) and all(self._calling(one, call, depth) for one in value)

    def _calling(self, one: Alternative, call: cst.Call, depth: int) -> bool:
        """Whether a call of an alternative is known to do the same without gradients."""
        is_given = any(self._has_graph(arg.value) for arg in call.args)
        match one:
            case Library(name=name) if name.startswith("torch."):
                return name in FUNCTIONS
            case Library(name=name) if name.startswith("builtins."):
                word = name.partition(".")[2]
                return word in _HARMLESS and not (word in ("print", "str") and is_given)
            case Library(name=name):
                return name.startswith(_OTHERS)
            case Function(owner=Instance()):
                return depth > 0  # a method of the module, which is looked at by itself
            case Method(owner=Tensor(), name=name):
                return name in METHODS
            case Method(owner=Unknown()) | Unknown() if depth and isinstance(
                call.func, cst.Attribute
            ):
                return call.func.attr.value in METHODS
            case Method(owner=Object() | Instance() | Guess() as owner, name=name):
                return name in ("eval", "train") and self._model(owner, depth)
            case Method():
                return not is_given
            case Object() | Instance():
                return self._model(one, depth)
        return False

    def _model(self, one: Alternative, depth: int) -> bool:
        """Whether a module, all of which has to be seen, computes the same bits."""
        match one:
            case Object(kind=kind, call=call) if call is not None and depth <= _DEEPEST:
                made = self.evaluation.node(call)
                words = keywords(made).keys()
                if kind in CONTAINERS:
                    held = self.evaluation.elements(call).value
                    return bool(held) and all(self._model(part, depth + 1) for part in held)
                return kind in LAYERS | LOSSES and not words & _DOUBTFUL
            case Instance(cls=cls):
                return self._class(cls, depth)
        return False

    def _class(self, at: At, depth: int) -> bool:
        """Whether the methods of a module use nothing but trusted layers, and keep nothing."""
        classes = self.evaluation.classes
        cls = classes.of(at)
        if cls is None or len(classes.lineage(at)) > 1 or cls.node.decorators:
            return False
        if classes.library_bases(at) != ["torch.nn.Module"] or "forward" not in cls.methods:
            return False
        methods = [one for name, one in cls.methods.items() if name != "__init__"]
        return not any(one.decorators or self._keeps(one, at.file) for one in methods) and all(
            self._is_plain(one.body, at.file, depth + 1) for one in methods
        )

    def _keeps(self, method: cst.FunctionDef, file: int) -> bool:
        index = self.evaluation.index(file)
        stored = [one.target for one in index.below(method, cst.AssignTarget)]
        stored += [one.target for one in index.below(method, cst.AugAssign)]
        return any(isinstance(one, cst.Attribute) for one in stored)

    def _has_graph(self, node: cst.BaseExpression) -> bool:
        value = self.evaluation.value(node)
        return any(isinstance(one, Tensor) and one.graph for one in flat(value))
