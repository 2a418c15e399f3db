"""Precision: whether models compute in float32, as far as connected files show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.entering import AUTOCASTS
from torchlint.semantics.tables.torch_classes import SCALERS
from torchlint.semantics.values import Library, Nothing, Truth
from torchlint.syntax.calls import keywords, positional
from torchlint.training.framework_switches import NO

if TYPE_CHECKING:
    from torchlint.semantics.evaluation import Evaluation
    from torchlint.semantics.values import Alternative
    from torchlint.training.models import Uses
    from torchlint.training.parts import Parts
    from torchlint.training.step_models import StepModel

CASTS = frozenset({"half", "bfloat16", "double"})
DEFAULTS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
FLOAT32 = frozenset({"torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor"})
OTHER = frozenset(f"torch.{name}" for name in ("float16", "half", "bfloat16", "float64", "double"))
# What frameworks are told a precision by.
KEYWORDS = frozenset({"precision", "mixed_precision", "fp16", "bf16", "tf32"})
_OTHERS = "apex.amp. apex.fp16_utils. deepspeed. transformer_engine. torchao. msamp."
OTHERS = ("torch.distributed.fsdp.MixedPrecision", *_OTHERS.split())


@dataclass(eq=False)
class Precisions:
    """In which precision connected files compute."""

    evaluation: Evaluation
    uses: Uses
    parts: Parts

    def are_mixed(self, file: int) -> bool:
        """Whether what runs with a file chooses a precision for regions, or for the process."""
        return bool(self._choosing and self._choosing & self.evaluation.files.together(file))

    @cached_property
    def _choosing(self) -> set[int]:
        return {
            file
            for call, file in self.evaluation.files.of(cst.Call)
            for one in self.evaluation.value(call.func)
            if isinstance(one, Library) and self._chooses(one.name, call)
        }

    def _chooses(self, name: str, call: cst.Call) -> bool:
        """Autocast or a scaler that is not off, a type for all, a framework that is told one."""
        value = self.evaluation.value
        given = {word: value(node) for word, node in keywords(call).items()}
        if name in AUTOCASTS or name in SCALERS:
            return given.get("enabled") != (Truth(value=False),)
        if name in DEFAULTS:
            return not all(_is_float32(one) for node in positional(call) for one in value(node))
        if name.startswith(("torch.", "builtins.")):
            return name.startswith(OTHERS)
        told = [given[word] or (None,) for word in KEYWORDS & given.keys()]
        return name.startswith(OTHERS) or any(one not in NO for each in told for one in each)

    def in_float32(self, model: StepModel) -> bool:
        """Whether a model computes in float32, as far as is seen."""
        around = self.uses.around(model.made) if model.made is not None else []
        methods = [one for made in around for one in self.uses.methods(made)]
        if self.are_mixed(model.run.file) or any(one.name in CASTS for one in methods):
            return False
        calls: list[cst.CSTNode] = [one.node for one in methods if one.name in ("to", "type")]
        calls += [
            self.evaluation.node(part.call)
            for part in self.parts.of(model.value)
            if part.call is not None and part.name.startswith(("torch.nn.", "transformers."))
        ]
        return not any(isinstance(call, cst.Call) and self._has_type(call) for call in calls)

    def _has_type(self, call: cst.Call) -> bool:
        """``model.to(torch.bfloat16)``, ``nn.Linear(8, 8, dtype=torch.bfloat16)``."""
        value, given = self.evaluation.value, keywords(call)
        return any(
            getattr(one, "name", "") in OTHER for node in positional(call) for one in value(node)
        ) or any(
            not _is_float32(one) and not isinstance(one, Nothing)
            for word in ("dtype", "torch_dtype")
            if word in given
            for one in value(given[word])
        )


def _is_float32(one: Alternative) -> bool:
    return getattr(one, "name", getattr(one, "value", None)) in FLOAT32
