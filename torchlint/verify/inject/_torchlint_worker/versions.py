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


def versions(torch: Any, *, cuda: bool, ask: bool = True) -> dict[str, Any]:
    """Return the parts of a record that say what computed; those of CUDA where it is in use.

    ``ask``: where no file tells the driver's version, ask nvidia-smi, which takes time.
    """
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if cuda else None,
        "gpus": torch.cuda.device_count() if cuda else 0,
        "driver": (_driver() or (_asked() if ask else None)) if cuda else None,
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


def _asked() -> str | None:
    """Return what nvidia-smi says: in a virtual machine the file is often not there."""
    import shutil  # noqa: PLC0415  # a module that is loaded early hides a file of the project
    import subprocess  # noqa: PLC0415

    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    words = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(told.stdout.split()), None)
