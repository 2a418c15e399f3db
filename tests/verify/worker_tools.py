"""Runs small scripts under the worker, each in a process of its own, as the executor does."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from eager_tools import eager_path

from torchlint.verify.model import Bounds, Phase, Record
from torchlint.verify.record import INJECT, VARIABLE, read_records, write_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TOY = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    records: tuple[Record, ...]

    @property
    def only(self) -> Record:
        assert len(self.records) == 1, (self.code, self.err, self.records)
        return self.records[0]


@dataclass(frozen=True)
class Project:
    """A copy to run in, the user's own tree beside it, and a folder for records."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: {"PYTHONPATH": eager_path()})
    is_plain: bool = False  # runs without the worker

    @property
    def copy(self) -> Path:
        return self.folder / "copy"

    @property
    def original(self) -> Path:
        return self.folder / "original"

    @property
    def records(self) -> Path:
        return self.folder / "records"

    def write(self, name: str, text: str) -> Path:
        """Write a file into the user's tree and the copy; return the one in the copy."""
        for root in self.original, self.copy:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def run(
        self,
        script: str,
        phase: Phase = Phase.PILOT,
        bounds: Bounds | None = None,
        *,
        command: Sequence[str] = (),
        **plan: object,
    ) -> Ran:
        """Run a text as `train.py`, to its end: that no process is left is looked at too."""
        self.write("train.py", script)
        self.records.mkdir(exist_ok=True)
        write_plan(
            self.folder / "plan.json",
            phase,
            bounds or Bounds(steps=6, warmup=2, seconds=60),
            records=self.records,
            root=self.copy,
            original=self.original,
            **plan,
        )
        process = subprocess.Popen(
            [*(command or (sys.executable,)), "train.py"],
            cwd=self.copy,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=120)
            assert not _group(process.pid), "processes were left behind"
        finally:
            for each in _group(process.pid):
                each.kill()
        return Ran(process.returncode, out, err, read_records(self.records))

    def variables(self) -> dict[str, str]:
        own = os.environ.copy()
        given = [self.environment.get("PYTHONPATH"), own.pop("PYTHONPATH", None)]
        if not self.is_plain:
            given.insert(0, str(INJECT))
            own[VARIABLE] = str(self.folder / "plan.json")
        path = os.pathsep.join(filter(None, given))
        return {**own, "OMP_NUM_THREADS": "1", **self.environment, "PYTHONPATH": path}


def _group(leader: int) -> list[psutil.Process]:
    """Return the processes of a session that are still alive."""

    def is_of(process: psutil.Process) -> bool:
        try:
            return os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.Error):
            return False

    return [process for process in psutil.process_iter() if is_of(process)]
