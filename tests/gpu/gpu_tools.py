"""How processes of these tests come to a GPU, be it one or one that torch only pretends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from eager_tools import EAGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fake" / "site-packages"
GUARDIAN = Path(__file__).with_name("guardian.py")
STRICT = {"PYTHONWARNINGS": "error"}  # what warns, fails: users run tests like this


@dataclass(frozen=True)
class Cuda:
    """How processes come to their GPU: its name, and what it needs in the environment."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    is_real: bool = True

    def with_(self, **more: str) -> Cuda:
        """Return the same with more variables."""
        return Cuda(self.name, {**self.environment, **more}, self.is_real)

    @property
    def whole_environment(self) -> dict[str, str]:
        """The variables for a process that is not started by the worker's own tools.

        What this process inherited stays: where nothing is installed, packages are found by it.
        """
        path = [self.environment.get("PYTHONPATH"), str(ROOT), str(ROOT / "rules")]
        path = os.pathsep.join(filter(None, [*path, os.environ.get("PYTHONPATH")]))
        few = {"OMP_NUM_THREADS": "1"}  # several of these tests may run at once
        return {**few, **os.environ, **self.environment, "PYTHONPATH": path}

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
    return Cuda("Fake GPU", {"PYTHONPATH": path, **more}, is_real=False)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Let all processes that are started from here on end with this one, also if it is killed.

    They inherit a mark.  A process in a session of its own sees our end of a pipe close, then kills
    what bears the mark: no signal to this process's group or session reaches it.
    """
    mark = f"TORCHLINT_TEST_RUN_{uuid.uuid4().hex}"
    words = [sys.executable, "-I", "-S", str(GUARDIAN), mark]
    guardian = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    os.environ[mark] = "1"
    try:
        yield
    finally:
        del os.environ[mark]
        guardian.communicate()
