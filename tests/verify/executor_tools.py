"""A project in a folder, a temporary folder of its own, and a look at what a test left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from eager_tools import eager_path

from torchlint.verify.sandbox import Sandbox, tree_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "TORCHLINT_TEST_MARK"
SHARED = Path("/dev/shm")  # noqa: S108  where Linux keeps shared memory


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test runs: ``root`` is the user's project, ``temporary`` the temporary folder."""

    root: Path
    temporary: Path
    mark: str

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())

    @property
    def log(self) -> Path:
        """A file for scripts to write to, outside of the project."""
        return self.root.parent / "log"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, MARK: self.mark, "TORCHLINT_TEST_LOG": str(self.log)}

    def processes(self) -> list[str]:
        """Return the commands of processes that were started with this environment."""
        mark = f"{MARK}={self.mark}".encode()
        folders = [f for f in Path("/proc").glob("[0-9]*") if mark in _read(f / "environ")]
        return [_read(f / "cmdline").replace(b"\0", b" ").decode() for f in folders]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@contextmanager
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Give a place; afterwards nothing may be left of processes, files, shared memory."""
    base = Path(tempfile.mkdtemp(prefix="tv")).resolve()
    root, temporary = base / "project", base / "t"
    root.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("PYTHONPATH", eager_path(os.environ.get("PYTHONPATH", "")))
    shared = set(SHARED.iterdir())
    here = Place(root, temporary, uuid.uuid4().hex)
    try:
        yield here
        assert here.processes() == []
        assert list(temporary.iterdir()) == []
        # others test on this machine too: theirs is open in a process
        assert [f for f in set(SHARED.iterdir()) - shared if not _is_held(f)] == []
    finally:
        for _ in range(3):
            shutil.rmtree(base, ignore_errors=True)


def _is_held(file: Path) -> bool:
    deadline = time.monotonic() + 5
    while file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
        if any(str(file).encode() in _read(m) for m in Path("/proc").glob("[0-9]*/maps")):
            return True
    return not file.exists()


@contextmanager
def unchanged(root: Path) -> Iterator[None]:
    before = tree_hash(root)
    yield
    assert tree_hash(root) == before


@contextmanager
def sandbox(root: Path, way: str, **more: object) -> Iterator[Sandbox]:
    """Make a sandbox that works one way; the test is skipped where the system forbids that."""
    made = Sandbox(root, try_overlay=way == "overlay", **more)  # type: ignore[arg-type]
    try:
        if made.way != way:
            pytest.skip("this system allows no overlay file system in a user namespace")
        yield made
    finally:
        made.close()
