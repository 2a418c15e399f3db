"""Where scripts find a torch that does not import its compiler until it compiles something."""

from __future__ import annotations

import os
from pathlib import Path

EAGER = Path(__file__).parents[1] / "eager" / "site-packages"


def eager_path(path: str = "") -> str:
    """Return a value of `PYTHONPATH` with which optimizers do not wait for `torch._dynamo`."""
    return os.pathsep.join(filter(None, [str(EAGER), path]))
