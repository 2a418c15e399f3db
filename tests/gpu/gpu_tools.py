"""How processes of these tests come to a GPU, be it one or one that torch only pretends."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from eager_tools import EAGER

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fake" / "site-packages"


@dataclass(frozen=True)
class Cuda:
    """How processes come to their GPU: its name, and what it needs in the environment."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_real(self) -> bool:
        """Whether there is a GPU."""
        return not self.environment

    @property
    def whole_environment(self) -> dict[str, str]:
        """The variables for a process that is not started by the worker's own tools."""
        path = [self.environment.get("PYTHONPATH"), str(ROOT), str(ROOT / "rules")]
        path = os.pathsep.join(filter(None, path))
        return {**os.environ, **self.environment, "PYTHONPATH": path}

    def python(
        self, *words: str | Path, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Python to its end in this environment."""
        return subprocess.run(
            [sys.executable, *map(str, words)],
            env=self.whole_environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=540,
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )


def fake_cuda(**more: str) -> Cuda:
    """Return the pretended GPU; nothing is compiled for it."""
    path = os.pathsep.join((str(FAKE), str(EAGER)))
    return Cuda("Fake GPU", {"PYTHONPATH": path, "TORCHDYNAMO_DISABLE": "1", **more})
