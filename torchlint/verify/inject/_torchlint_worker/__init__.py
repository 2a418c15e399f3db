"""The worker of `torchlint verify`: what runs inside the user's process, on its standard library.

It imports neither torch nor any package: hooks come in right after the script imported torch.
Until then it loads next to nothing, as a module of the standard library that is loaded too early
hides a file of the project that has its name.
"""

from __future__ import annotations

import os
from time import perf_counter_ns

VARIABLE = "TORCHLINT_VERIFY"  # the path of the plan


def begin() -> None:
    """Get ready for `import torch`; without a plan in the environment, do nothing."""
    path = os.environ.get(VARIABLE)
    if path:
        from .early import get_ready  # noqa: PLC0415  # without a plan nothing of it is loaded

        get_ready(path, perf_counter_ns())
