"""A project in a temporary folder, and the command line run inside this process."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from torchlint import registry
from torchlint.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """Run the command line with these arguments, and perhaps something on standard input."""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Result: ...


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that is the working folder and the root of a repository."""

    root: Path

    def write(self, name: str, content: str | bytes = "") -> Path:
        """Write a file, with its folders."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Project(root)


@pytest.fixture
def few_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table of rules that stays as it is when rules are added: the flags are tested with it."""
    few = {"TL102", "TL201", "TL202", "TL204", "TL208", "TL302", "TL303", "TL602", "TL703"}
    monkeypatch.setattr(registry, "RULES", tuple(r for r in registry.RULES if r.code in few))
    registry.all_rules.cache_clear()
    yield
    registry.all_rules.cache_clear()


class Standard(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", Standard(stdin))
        capfdbinary.readouterr()
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        return Result(code, out.decode(), err.decode())

    return call
