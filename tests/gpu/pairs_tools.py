"""Runs pairs of fixtures, so that one that hangs, dies or fails costs only itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tools import Cuda

RUNNER = Path(__file__).with_name("run_pairs.py")
LIMIT, COMPILING = 30.0, 90.0  # seconds of a pair
ONE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # a pool of processes takes as long to start


def compiles(folder: Path) -> bool:
    """Whether a pair compiles: it takes long and makes later ones slow."""
    return any("compile(" in file.read_text() for file in folder.glob("*.py"))


def run_pairs(
    cuda: Cuda, folder: Path, pairs: Sequence[str], output: Path, limit: float | None = None
) -> Mapping[str, Any]:
    """Return of each pair what it gave, or a text that says why there is none."""
    plain = [pair for pair in pairs if not compiles(folder / pair)]
    given = _together(cuda, folder, plain, output, limit or LIMIT)
    for pair in pairs:
        if pair not in given:  # each in a process of its own, last
            limits = limit or COMPILING
            given |= _together(cuda.with_(**ONE), folder, [pair], output, limits)
    return given


def _together(
    cuda: Cuda, folder: Path, pairs: Sequence[str], output: Path, limit: float
) -> dict[str, Any]:
    """Run pairs in one process, as each start takes seconds; go on behind one that ends it."""
    given: dict[str, Any] = {}
    while left := [pair for pair in pairs if pair not in given]:
        done = cuda.python(RUNNER, folder, output, str(limit), *left)
        for pair in left:
            saved, told = output / f"{pair}.pt", output / f"{pair}.txt"
            if saved.is_file():
                given[pair] = torch.load(saved, map_location="cpu", weights_only=True)
            elif told.is_file():
                text = told.read_text()
                given[pair] = text or f"the process ended ({done.returncode}): {done.stderr}"
            elif pair == left[0]:
                given[pair] = f"nothing ran ({done.returncode}): {done.stderr}"
            else:
                break
    return given
