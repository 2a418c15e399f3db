"""Pairs of fixtures in a process of their own: a pair that hangs, or kills it, fails alone."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_tools import Cuda

RACES = {"nonblocking_d2h_race"}  # before its fix it reads what a GPU may not have written yet
RUNNER = Path(__file__).with_name("run_pairs.py")
START = 180.0  # seconds to import torch, on a machine that does much else
LIMIT, COMPILED = 30.0, 90.0  # seconds of a pair, and of one that compiles
STACKS = 1.0  # seconds to write them
TOLD = 4000  # characters of stderr


class Failed(Exception):  # noqa: N818 - it is a pair that failed
    """A pair gave nothing; the text says why, with its traceback."""


@dataclass
class Pairs:
    """Runs pairs when they are asked for, one after the other in one process that goes on.

    ``fixtures`` is their folder, ``folder`` takes what they give.
    """

    cuda: Cuda
    fixtures: Path
    folder: Path
    limit: float = LIMIT
    started: int = 0
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def run(self, pair: str, *, alone: bool = False) -> tuple[Any, Any, Any]:
        """Return what a pair gives; ``alone`` it has a process of its own, and more time.

        Raises:
            Failed: it failed, its process died, or it did not end in time.

        """
        if alone:
            other = Pairs(self.cuda, self.fixtures, self.folder, max(self.limit, COMPILED))
            try:
                return other.run(pair)
            finally:
                other.close()
        process = self._running()
        assert process.stdin is not None
        try:
            print(pair, file=process.stdin, flush=True)
        except OSError:
            raise Failed(self._died(process)) from None
        self._await(process, self.limit, f"no end within {self.limit:g} s")
        import torch  # noqa: PLC0415  seconds, which collecting need not take

        if (error := self.folder / f"{pair}.txt").exists():
            raise Failed(error.read_text())
        answer: tuple[Any, Any, Any] = torch.load(
            self.folder / f"{pair}.pt", map_location="cpu", weights_only=True
        )
        return answer

    def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _running(self) -> subprocess.Popen[str]:
        if self.process is not None:
            return self.process
        self.started += 1
        with (self.folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, RUNNER, self.fixtures, self.folder],
                env=self.cuda.whole_environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self._await(self.process, START, f"torch was not imported within {START:g} s")
        return self.process

    def _await(self, process: subprocess.Popen[str], seconds: float, problem: str) -> None:
        """Read an answer; a process that gives none is ended, and the next pair starts another."""
        assert process.stdout is not None
        if select.select([process.stdout], [], [], seconds)[0]:
            if not process.stdout.readline():
                raise Failed(self._died(process))
            return
        process.send_signal(signal.SIGUSR2)
        time.sleep(STACKS)
        self.close()
        raise Failed(f"{problem}; its stacks:\n{self._stderr()}")

    def _died(self, process: subprocess.Popen[str]) -> str:
        self.process = None
        process.communicate()
        return f"its process ended with {process.returncode}:\n{self._stderr()}"

    def _stderr(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")[-TOLD:]
