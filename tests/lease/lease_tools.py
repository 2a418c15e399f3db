"""Runs of `benchmarks/lease.py` with commands that stand in for the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lease_parts import marked

ROOT = Path(__file__).parents[2]
RUN = f"""
import sys
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
import lease
from lease_parts.plan import Job, Part
from lease_parts import process, run
lease.SHORTEST = 1
process.FOR_STACKS, process.FOR_ENDING, run.TICK = 0.3, 0.5, 0.5
parts = []
for part, jobs in SCRIPTS:
    parts.append(Part(part, tuple(
        Job(name, (sys.executable, "-c", script), log, again=again)
        for name, script, log, again in jobs
    ), at_once=len(jobs), least=0.1))
sys.exit(lease.main(sys.argv[1:], parts))
"""


@dataclass(frozen=True)
class Run:
    """What a run left."""

    out: Path
    code: int
    said: str

    def text(self, name: str) -> str:
        return (self.out / name).read_text(encoding="utf-8")


def words_of(
    out: Path,
    scripts: dict[str, str | dict[str, str]],
    seconds: float,
    log: str = "",
    again: bool = False,
) -> list[str]:
    """Return the command of a run with a script for each part, or some by name, all at once."""
    names = ",".join(scripts)
    table = []
    for part, jobs in scripts.items():
        some = jobs if isinstance(jobs, dict) else {part: jobs}
        table.append((part, [(name, script, log, again) for name, script in some.items()]))
    program = f"SCRIPTS = {table!r}\n{RUN}"
    return [
        sys.executable,
        "-c",
        program,
        "--out",
        str(out),
        "--parts",
        names,
        "--seconds",
        str(seconds),
    ]


def begin(words: list[str], **more) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )


def lease(out: Path, scripts: dict[str, str | dict[str, str]], seconds: float = 20, **more) -> Run:
    """Run to the end."""
    return finished(out, begin(words_of(out, scripts, seconds, **more)))


def finished(out: Path, process: subprocess.Popen[str]) -> Run:
    """Wait for the end of a run, and return what it left."""
    with process:
        said = process.communicate(timeout=90)[0]
    return Run(out, process.returncode, said)


def wait_for(what, seconds: float = 20):
    """Return what a function returns once that is true."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)
    return found


def named(word: str) -> list[int]:
    """Return the living processes with a word in their command line."""
    found = []
    for folder in marked.PROC.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in words and marked.is_alive(int(folder.name)):
                found.append(int(folder.name))
    return found


def entries(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pretended() -> dict[str, str]:
    """Return the environment in which torch pretends to have a GPU."""
    folders = [ROOT / "tests" / "gpu" / "fake", ROOT / "tests" / "eager"]
    path = os.pathsep.join(str(folder / "site-packages") for folder in folders)
    return {"PYTHONPATH": path, "TORCHDYNAMO_DISABLE": "1"}
