"""How processes of these tests come to a GPU, be it one or one that torch only pretends."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eager_tools import EAGER

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fake" / "site-packages"
LIMIT, GRACE = 540.0, 5.0  # seconds of a process, and of its end
CARRIED = ("libcst", "yaml", "_yaml")  # what a bare machine gets beside the checkout


@dataclass(frozen=True)
class Cuda:
    """How processes come to their GPU: its name, and what it needs in the environment."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_real(self) -> bool:
        """Whether there is a GPU."""
        return "FAKE_CUDA_HIDES" not in self.environment

    @property
    def strict(self) -> Cuda:
        """The same, where every warning is an error."""
        return replace(self, environment={**self.environment, "PYTHONWARNINGS": "error"})

    @property
    def whole_environment(self) -> dict[str, str]:
        """The variables for a process that is not started by the worker's own tools."""
        given = [self.environment.get("PYTHONPATH"), str(ROOT), str(ROOT / "rules")]
        inherited = os.environ.get("PYTHONPATH")  # on a bare machine libcst is found there alone
        path = os.pathsep.join(filter(None, [*given, inherited]))
        threads = os.environ.get("OMP_NUM_THREADS", "1")  # tests run beside each other
        return {"OMP_NUM_THREADS": threads, **os.environ, **self.environment, "PYTHONPATH": path}

    def python(
        self, *words: str | Path, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Python to its end in this environment."""
        process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            env=self.whole_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        with process:
            try:
                told = process.communicate(timeout=LIMIT)
            except BaseException:
                process.terminate()  # torchlint ends its runs upon it
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, *told)


def fake_cuda(**more: str) -> Cuda:
    """Return the pretended GPU; nothing is compiled for it, as that is no part of the pretence.

    Nothing is installed there: what the machine has is found on PYTHONPATH only, as `carried` says.
    """
    path = os.pathsep.join((str(FAKE), str(EAGER)))
    hidden = "torchlint,torchlint_rules,jsonschema," + ",".join(CARRIED)
    return Cuda(
        "Fake GPU",
        {
            "PYTHONPATH": path,
            "FAKE_CUDA_HIDES": hidden,
            **more,
        },
    )


def carry(folder: Path) -> str:
    """Put links to what is carried to a bare machine into a folder; return it for PYTHONPATH."""
    for name in CARRIED:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            what = origin.parent if spec.submodule_search_locations else origin
            (folder / what.name).symlink_to(what)
    return str(folder)
