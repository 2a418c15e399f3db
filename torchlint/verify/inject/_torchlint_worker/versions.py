"""What this process computed with: versions, threads; read from what is loaded already."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
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
_PATIENCE = 20.0  # seconds for the driver's tool, which takes a fraction of one


def versions(torch: Any, *, cuda: bool, ask: bool = True) -> dict[str, Any]:
    """Return the parts of a record that say what computed; those of CUDA where it is in use.

    With ``ask`` a process is started for what can be known in no other way.
    """
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if cuda else None,
        "gpus": torch.cuda.device_count() if cuda else 0,
        "driver": _driver(ask=ask) if cuda else None,
        "threads": torch.get_num_threads(),
        "libraries": {
            name: str(getattr(sys.modules[name], "__version__", "?"))
            for name in _LIBRARIES
            if name in sys.modules
        },
    }


def _driver(*, ask: bool) -> str | None:
    """Return the version of the driver; in a virtual machine only its own tool knows it."""
    try:
        with open(_DRIVER, encoding="ascii", errors="replace") as file:
            found = re.search(r"Module\s+([\d.]+)", file.read())
    except OSError:
        found = None
    if found:
        return found.group(1)
    tool = shutil.which("nvidia-smi") if ask else None
    return _asked(tool) if tool else None


def _asked(tool: str) -> str | None:
    words = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(  # noqa: S603  # the driver's own tool
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, timeout=_PATIENCE, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return told.partition("\n")[0].strip() or None
