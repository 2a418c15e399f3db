"""Writes once a second what the GPU and the processors do, while a run lasts.

    python sampler.py FILE

What nvidia-smi says of the GPU, the share of time that other machines took from the processors of
this one, and its load.  Where there is no nvidia-smi, only the latter two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STAT, STOLEN = Path("/proc/stat"), 7  # the column of stolen time
FIELDS = (
    "timestamp,name,utilization.gpu,memory.used,clocks.sm,clocks.mem,power.draw,temperature.gpu"
)
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")  # newer, older drivers
PATIENCE = 20.0  # seconds for nvidia-smi to answer


def main(file: Path) -> None:
    """Write a line a second until this process is ended."""
    with file.open("a", encoding="utf-8") as stream:
        ticks = _ticks()
        for place, line in enumerate(_said()):
            before, ticks = ticks, _ticks()
            host = _host(before, ticks) if place else "stolen time [%], load"
            try:
                stream.write(f"{line}, {host}\n")
                stream.flush()
            except OSError as error:
                print(f"{file.name} is not written: {error.strerror}", flush=True)
                return


def _said() -> Iterator[str]:
    """Yield the names of the columns, then a line a second."""
    tool = shutil.which("nvidia-smi")
    fields = tool and _understood(tool)
    if not tool or not fields:
        print("no nvidia-smi answers here: gpu.csv tells of the processors only", flush=True)
        yield "timestamp"
        while True:
            time.sleep(1)
            yield time.strftime("%Y/%m/%d %H:%M:%S")
    line = [tool, f"--query-gpu={fields}", "--format=csv", "-l", "1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from (said.rstrip("\n") for said in process.stdout)
    print(f"nvidia-smi ended with exit code {process.returncode}", flush=True)


def _understood(tool: str) -> str | None:
    """Return the columns that this nvidia-smi knows."""
    for fields in (*(f"{FIELDS},{reasons}" for reasons in REASONS), FIELDS):
        line = [tool, f"--query-gpu={fields}", "--format=csv"]
        try:
            run = subprocess.run(line, capture_output=True, check=False, timeout=PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if run.returncode == 0:
            return fields
    return None


def _ticks() -> list[int]:
    """Return the time that the processors spent in each way so far."""
    try:
        return [int(text) for text in STAT.read_text(encoding="utf-8").splitlines()[0].split()[1:]]
    except (OSError, ValueError, IndexError):
        return []


def _host(before: list[int], after: list[int]) -> str:
    spent = [new - old for old, new in zip(before, after, strict=False)]
    share = f"{100 * spent[STOLEN] / sum(spent):.1f}" if sum(spent[: STOLEN + 1]) else ""
    return f"{share}, {os.getloadavg()[0]:.2f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
