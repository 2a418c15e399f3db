"""Where the figures come from: what the machine is, and how busy it is."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.verify.model import Machine

if TYPE_CHECKING:
    from torchlint.verify.model import Run

_PRESSURE = Path("/proc/pressure/cpu")
_CPUINFO = Path("/proc/cpuinfo")


def describe(pilot: Run) -> Machine:
    """Return the machine as the pilot's worker and the system tell of it."""
    record = pilot.records[0]
    return Machine(
        python=record.python,
        torch=record.torch,
        device=record.device,
        cuda=record.cuda,
        gpus=record.gpus,
        driver=record.driver,
        cpu=cpu(),
        cores=os.cpu_count() or 1,
        threads=record.threads,
        system=system(),
        load=load(),
        pressure=pressure(),
        libraries=record.libraries,
    )


def cpu() -> str:
    """Return the name of the processor."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def system() -> str:
    """Return the operating system and the kind of processor."""
    return f"{platform.system()} {platform.machine()}"


def load() -> tuple[float, float, float]:
    """Return the load of the last 1, 5 and 15 minutes; zeros where the system has none."""
    try:
        return os.getloadavg()
    except (AttributeError, OSError):
        return (0.0, 0.0, 0.0)


def pressure() -> float | None:
    """Return the share of the last ten seconds in which some process waited for a CPU (Linux)."""
    try:
        some = _PRESSURE.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    fields = dict(word.split("=") for word in some.split()[1:])
    return float(fields["avg10"]) / 100
