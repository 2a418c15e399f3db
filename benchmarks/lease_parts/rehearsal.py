"""Rehearses a lease on a twin of its machine: nothing is there but what travels."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lease_parts import marked
from lease_parts.plan import ROOT
from lease_parts.run import PRETENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CARRIED = 64 * 2**20  # bytes that may travel
UNLISTED = "from lease_parts import packages; print(*packages.unlisted(), sep=', ')"
PRETEND = "import json, gpu_tools; print(json.dumps(dict(gpu_tools.fake_cuda().environment)))"
TWIN = """\
make one: python3.12 -m venv TWIN && TWIN/bin/pip install torch==2.11.0 pytest pytest-xdist psutil \
jinja2 click packaging pathspec rich pillow; and name it: --python TWIN/bin/python"""


class RehearsalError(Exception):
    """There is no twin, or the checkout cannot be copied."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The copied checkout and the Python that runs it."""

    tree: Path
    python: str
    environment: Mapping[str, str]

    def asked(self, program: str, *folders: str) -> str:
        """Return what a program prints that finds modules in folders of the tree.

        Raises:
            RehearsalError: it fails.

        """
        path = os.pathsep.join(str(self.tree / folder) for folder in folders)
        run = subprocess.run(
            [self.python, "-c", program],
            env={**self.environment, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            said = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
            raise RehearsalError(f"{self.python}: {said[-1]}")
        return run.stdout.strip()


def in_twin(twin: Twin, folder: Path) -> Path:
    """Return where a folder of the checkout is in the copy.

    Raises:
        RehearsalError: it does not travel.

    """
    if not folder.is_relative_to(ROOT) or not (twin.tree / folder.relative_to(ROOT)).is_dir():
        raise RehearsalError(f"{folder} does not travel; put what is in it into carry/public")
    return twin.tree / folder.relative_to(ROOT)


def twin_of(root: Path, python: str | None) -> Twin:
    """Copy what a lease would carry into an empty folder, and return the twin.

    Raises:
        RehearsalError: there is no such Python, it lacks torch, or this is no repository.

    """
    found = shutil.which(python or "python3.12")
    if found is None:
        raise RehearsalError(f"no Python is named {python or 'python3.12'}; {TWIN}")
    for name in ("checkout", "home", "tmp"):
        (root / name).mkdir()
    environment = {
        "PATH": os.pathsep.join((str(Path(found).absolute().parent), "/usr/bin", "/bin")),
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        marked.VARIABLE: os.environ[marked.VARIABLE],
    }
    twin = Twin(root / "checkout", str(Path(found).absolute()), environment)
    try:
        twin.asked(
            "import importlib.util as u, sys; sys.exit(not u.find_spec('torch') and 'no torch')"
        )
    except RehearsalError as error:
        raise RehearsalError(f"{error}; {TWIN}") from None
    _copy(twin.tree)
    return twin


def _copy(tree: Path) -> None:
    """Copy the files that travel: those that git does not ignore, and the carried folder."""
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(line, cwd=ROOT, capture_output=True, check=False)
    if run.returncode:
        raise RehearsalError(f"{ROOT}: git lists no files: {run.stderr.decode().strip()}")
    names = {os.fsdecode(name) for name in run.stdout.split(b"\0") if name}
    carried = (path for path in (ROOT / "carry").rglob("*") if not path.is_dir())
    names |= {str(path.relative_to(ROOT)) for path in carried}
    size = 0
    for name in names:
        if (source := ROOT / name).is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            size += source.stat().st_size
    over = "; more than 64 MiB do not travel" if size > CARRIED else ""
    print(f"rehearsal: {len(names)} files, {size / 2**20:.1f} MiB travel{over}", flush=True)


def rehearse(twin: Twin, words: Sequence[str]) -> int:
    """Run the command of a lease on the twin, and return its exit code.

    Raises:
        RehearsalError: the twin cannot run it.

    """
    if others := twin.asked(UNLISTED, "benchmarks", "carry/packages"):
        print(
            f"rehearsal: this twin has what lease_packages.txt does not list: {others}", flush=True
        )
    pretence = json.loads(twin.asked(PRETEND, "tests/gpu", "tests/verify"))
    environment = {**twin.environment, **pretence, PRETENCE: pretence["PYTHONPATH"]}
    line = [twin.python, str(twin.tree / "benchmarks" / "lease.py"), *words]
    print("rehearsal: " + " ".join(line), flush=True)
    process = subprocess.Popen(line, env=environment, cwd=twin.tree, stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: marked.send(process.pid, signal.Signals(number)))
    return process.wait()
