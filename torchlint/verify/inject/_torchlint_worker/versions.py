"""What this process computed with: versions, threads; read from what is loaded already."""

from __future__ import annotations

import platform
import re
import sys
from typing import Any

_LIBRARIES = (
    "accelerate",
    "datasets",
    "deepspeed",
    "lightning",
    "numpy",
    "pytorch_lightning",
    "timm",
    "torchvision",
    "transformers",
    "triton",
)
_DRIVER = "/proc/driver/nvidia/version"


def versions(torch: Any, *, cuda: bool) -> dict[str, Any]:
    """Return the parts of a record that say what computed; those of CUDA where it is in use."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if cuda else None,
        "gpus": torch.cuda.device_count() if cuda else 0,
        "driver": _driver() if cuda else None,
        "threads": torch.get_num_threads(),
        "libraries": {
            name: str(getattr(sys.modules[name], "__version__", "?"))
            for name in _LIBRARIES
            if name in sys.modules
        },
    }


def _driver() -> str | None:
    try:
        with open(_DRIVER, encoding="ascii", errors="replace") as file:
            found = re.search(r"Module\s+([\d.]+)", file.read())
    except OSError:
        return None
    return found.group(1) if found else None
