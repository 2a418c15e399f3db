"""What a project wants written by fixes that have to choose a number or a type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preferences:
    """Choices that no rule can read off the code.

    Args:
        num_workers: worker processes of a DataLoader (TL101); None writes an expression that asks
            the machine on which the script runs.
        amp_dtype: what `torch.autocast` computes in (TL501): "bfloat16", which needs no gradient
            scaler, or "float16", which gets one.
        log_interval: steps between two log lines (TL202).

    """

    num_workers: int | None = None
    amp_dtype: str = "bfloat16"
    log_interval: int = 100


DEFAULT = Preferences()
