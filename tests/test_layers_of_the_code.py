"""Imports go one way: text, Python, training script, rules; imports for typing count."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
BASE = {"torchlint.errors", "torchlint.preferences"}
ALLOWED = {
    "torchlint/syntax": {"torchlint.syntax"},
    "torchlint/edits": {"torchlint.syntax", "torchlint.edits"},
    "torchlint/semantics": {"torchlint.syntax", "torchlint.semantics"},
    "torchlint/training": {"torchlint.syntax", "torchlint.semantics", "torchlint.training"},
}
LONGEST = 500  # lines


def imported(path: Path) -> Iterator[str]:
    """Yield what a file imports of this project, for typing or not, inside functions or not."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "torchlint":
            yield from (f"torchlint.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_those_below(layer: str) -> None:
    allowed = ALLOWED[layer] | BASE
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / layer).rglob("*.py")
        for name in imported(path)
        if name.startswith(("torchlint", "torch")) and not _is_in(name, allowed)
    }
    assert wrong == set()


@pytest.mark.parametrize("layer", ALLOWED)
def test_no_module_is_too_long(layer: str) -> None:
    lines = {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / layer).rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def _is_in(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)
