"""Look at the machine of a lease: what is there, who else uses the GPU, and how fast it is.

    python benchmarks/lease_probe.py --evidence OUT [--known FOLDER] [--time-budget 15]

`lease.py` starts it first.  It puts what it finds under ``probe`` into ``<device>.json``, which
begins as the file that is known, so that it may replace that one.

Exit codes: 0 all is there, 2 there is no CUDA device, or a package is missing.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lease_parts import packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DONE, USE = 0, 2
KNOWN = Path(__file__).with_name("evidence")
COPIED, SIDE = 2**28, 4096  # bytes, and the width of a matrix
TURNS, LONGEST = 10, 1.0  # calls that are timed, and seconds that they may take together
ASKED = "name,driver_version,memory.total,memory.used,power.limit,clocks.max.sm,clocks.max.mem"


def main() -> int:
    """Look, and return the exit code."""
    faulthandler.register(signal.SIGUSR2, all_threads=True)  # a driver may hang
    ends = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--evidence", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--known", type=Path, default=KNOWN, metavar="FOLDER")
    parser.add_argument("--time-budget", type=float, default=15.0, metavar="SECONDS")
    options = parser.parse_args()
    ends += options.time_budget
    versions = packages.found(packages.listed())
    print("Python " + platform.python_version() + "; " + _shown(versions), flush=True)
    if problems := packages.missing():
        print("\n".join(f"error: {problem}" for problem in problems), flush=True)
        return USE
    found = {"python": platform.python_version(), "packages": versions, **_of_tool()}
    device = _device(found)
    if device is None:
        return USE
    folders = options.evidence, options.known
    _keep(*folders, device, found)
    for name, measure in _measures():
        if time.monotonic() > ends:
            print(f"{name}: left out, no time", flush=True)
            continue
        found[name] = _tried(measure)
        print(f"{name}: {_shown(found[name])}", flush=True)
        _keep(*folders, device, found)
    return DONE


def _device(found: dict[str, Any]) -> str | None:
    """Return the name of the GPU, whose context is made; None, and why is told, without one."""
    began = time.monotonic()
    import torch  # noqa: PLC0415  it takes seconds, and may be missing

    found["import seconds"] = round(time.monotonic() - began, 2)
    found["a forked child finds CUDA"] = _forks(torch)  # before this process asks anything of it
    cuda = torch.version.cuda
    if not torch.cuda.is_available():
        why = "torch is built without CUDA" if cuda is None else "no driver or no GPU was found"
        print(f"error: torch {torch.__version__} finds no CUDA device: {why}; run it where one is")
        return None
    began = time.monotonic()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    found["context seconds"] = round(time.monotonic() - began, 2)
    found |= {"torch": torch.__version__, "cuda": cuda, "gpus": torch.cuda.device_count()}
    device = str(torch.cuda.get_device_name())
    told = {name: value for name, value in found.items() if name != "packages"}
    print(f"{device}: {_shown(told)}", flush=True)
    return device


def _forks(torch: Any) -> bool:
    """Whether a child that is forked once torch is imported can use the GPU, as bench does it."""
    child = os.fork()
    if child == 0:
        try:
            torch.zeros(1, device="cuda").sum().item()
        except BaseException:  # noqa: BLE001  whatever it is, it is no yes
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _of_tool() -> dict[str, Any]:
    """Return what nvidia-smi says, and tell who else uses the GPU."""
    if (tool := shutil.which("nvidia-smi")) is None:
        return {"nvidia-smi": None}
    rows = list(_asked(tool, "gpu", ASKED))
    others = list(_asked(tool, "compute-apps", "pid,used_memory"))
    for pid, memory in others:
        print(f"another process uses the GPU: pid {pid}, {memory}; times are in doubt", flush=True)
    gpu = dict(zip(ASKED.split(","), rows[0], strict=False)) if rows else None
    return {"nvidia-smi": gpu, "other processes": others}


def _asked(tool: str, what: str, fields: str) -> Iterator[list[str]]:
    line = [tool, f"--query-{what}={fields}", "--format=csv,noheader"]
    try:
        told = subprocess.run(line, capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"nvidia-smi does not answer: {error}", flush=True)
        return
    for row in told.splitlines():
        if len(cells := [cell.strip() for cell in row.split(",")]) == len(fields.split(",")):
            yield cells


def _measures() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "copies GB/s", _copies
    for kind in ("fp32", "tf32", "bf16"):
        yield f"matmul {kind} TFLOP/s", partial(_matmul, kind)
    yield "profiler seconds", _profiler


def _tried(measure: Callable[[], Any]) -> Any:
    """Return what is measured, or why it is not: what one cannot do costs nothing else."""
    try:
        return measure()
    except Exception as error:  # noqa: BLE001  torch raises what it likes
        return f"{type(error).__name__}: {error}"


def _timed(act: Callable[[], Any]) -> float:
    """Return the seconds of a call on the GPU."""
    import torch  # noqa: PLC0415

    def seconds(turns: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(turns):
            act()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / turns

    first = seconds(1)
    return seconds(TURNS) if first * TURNS < LONGEST else first


def _copies() -> dict[str, float]:
    import torch  # noqa: PLC0415

    there = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    here = torch.empty(COPIED, dtype=torch.uint8)
    pinned = here.pin_memory()
    ways = {
        "to the GPU": lambda: there.copy_(here),
        "to the GPU pinned": lambda: there.copy_(pinned, non_blocking=True),
        "from the GPU": lambda: here.copy_(there),
        "from the GPU pinned": lambda: pinned.copy_(there, non_blocking=True),
    }
    return {name: round(COPIED / _timed(way) / 1e9, 2) for name, way in ways.items()}


def _matmul(kind: str) -> float:
    import torch  # noqa: PLC0415

    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    left = torch.ones(SIDE, SIDE, dtype=dtype, device="cuda")
    return round(2 * SIDE**3 / _timed(lambda: left @ left) / 1e12, 2)


def _profiler() -> dict[str, float]:
    """Return how long the worker's profiler takes to start and stop, at first and once more."""
    import torch  # noqa: PLC0415

    from torchlint.verify.inject._torchlint_worker.busy import profiler  # noqa: PLC0415

    found = {}
    for turn in ("first", "second"):
        began = time.perf_counter()
        with profiler(torch):
            torch.ones(8, device="cuda").sum()
        found[turn] = round(time.perf_counter() - began, 3)
    return found


def _keep(folder: Path, known: Path, device: str, found: dict[str, Any]) -> None:
    """Put the findings into the evidence, and keep what else is there, or else what is known."""
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"
    path = folder / name
    try:
        content = _content(path) or _content(known / name)
        new = {"device": device, "schema": 2, "scripts": {}, **content, "probe": found}
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except (OSError, ValueError) as error:
        print(f"{path.name} is not written: {error}", flush=True)


def _content(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _shown(found: Any) -> str:
    if not isinstance(found, dict):
        return str(found)
    return ", ".join(f"{name} {value}" for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
