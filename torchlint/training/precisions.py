"""Precision: whether models compute in float32, as far as connected files show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.entering import AUTOCASTS
from torchlint.semantics.tables.torch_classes import SCALERS
from torchlint.semantics.values import Library, Nothing, Number, Text, Truth
from torchlint.syntax.calls import keyword_of, keywords

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative, Value
    from torchlint.training.models import MethodCall, Uses
    from torchlint.training.parts import Part, Parts
    from torchlint.training.step_models import StepModel

CASTS = frozenset({"half", "bfloat16", "double"})
DEFAULTS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
FLOAT32 = frozenset({"torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor"})
NO = (Truth(value=False), Nothing(), Text("no"), Text("32"), Text("32-true"), Number(32))
# What frameworks are told a precision by.
KEYWORDS = frozenset({"precision", "mixed_precision", "fp16", "bf16", "tf32"})
OTHERS = ("apex.", "deepspeed.", "torch.distributed.fsdp.MixedPrecision", "transformer_engine.",
          "torchao.", "msamp.")  # fmt: skip


@dataclass(eq=False)
class Precisions:
    """In which precision connected files compute."""

    evaluation: Evaluation
    uses: Uses
    parts: Parts

    @cached_property
    def are_mixed(self) -> bool:
        """Whether anything seen chooses a precision for whole regions, or for the process."""
        return any(
            self._chooses(one, call)
            for module in self.evaluation.files.modules
            for call in module.index.of(cst.Call)
            for one in self._value(call.func)
        )

    def in_float32(self, model: StepModel) -> bool:
        """Whether a model computes in float32, as far as is seen."""
        if self.are_mixed:
            return False
        around = self.uses.around(model.made) if model.made is not None else []
        is_cast = any(self._casts(one) for made in around for one in self.uses.methods(made))
        return not is_cast and not any(map(self._has_type, self.parts.of(model.value)))

    def _chooses(self, one: Alternative, call: cst.Call) -> bool:
        """Autocast or a scaler that is not off, a type for all, a framework that is told one."""
        if not isinstance(one, Library):
            return False
        given = {word: self._value(node) for word, node in keywords(call).items()}
        if one.name in AUTOCASTS or one.name in SCALERS:
            return given.get("enabled") != (Truth(value=False),)
        if one.name in DEFAULTS:
            return not all(map(_is_float32, self._value(call.args[0].value))) if call.args else True
        if one.name.startswith(OTHERS):
            return True
        told = () if one.name.startswith(("torch.", "builtins.")) else KEYWORDS & given.keys()
        return any(not given[word] or any(each not in NO for each in given[word]) for word in told)

    def _casts(self, method: MethodCall) -> bool:
        """``model.half()``, ``model.to(torch.bfloat16)``."""
        if method.name in CASTS:
            return True
        return method.name in ("to", "type") and any(
            (isinstance(one, Library) or keyword_of(arg) == "dtype") and not _is_float32(one)
            for arg in method.node.args
            for one in self._value(arg.value)
        )

    def _has_type(self, part: Part) -> bool:
        """``nn.Linear(8, 8, dtype=torch.bfloat16)``."""
        call = self.evaluation.node(part.call) if part.call is not None else None
        if not part.name.startswith(("torch.nn.", "transformers.")) or not isinstance(
            call, cst.Call
        ):
            return False
        return any(
            not _is_float32(one) and not isinstance(one, Nothing)
            for arg in call.args
            if keyword_of(arg) in ("dtype", "torch_dtype")
            for one in self._value(arg.value)
        )

    def _value(self, node: cst.BaseExpression) -> Value:
        return self.evaluation.value(node)


def _is_float32(one: Alternative) -> bool:
    return getattr(one, "name", getattr(one, "value", None)) in FLOAT32
