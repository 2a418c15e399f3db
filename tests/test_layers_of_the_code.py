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


# What leads to text, comments and paths, and who may follow it, for what a fix writes.
READERS = {"re", "os", "pathlib", "tokenize", "linecache"}
TEXTS = {
    "comment", "leading_lines", "lines_after_decorators", "trailing_whitespace", "header", "footer",
    "paths", "ranks", "concrete", "spans",
}  # fmt: skip
SPELL = {
    "training/hoisting.py": {"re"},  # the name of an iterator after that of its loader
    "rules/tensordataset_per_sample_collate.py": {"re"},  # the code of a function that it moves
    "training/script.py": {"ranks"},  # which of the connected files this one is
}


def _reached(path: Path) -> Iterator[str]:
    """Yield what code reaches of texts and paths."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from READERS & {alias.name for alias in names}
            case ast.ImportFrom(module=str(module)):
                yield from READERS & {module}
            case ast.Attribute(value=ast.Name(id="self")):
                pass
            case ast.Attribute(attr=name) if name in TEXTS:
                yield name
            case ast.Attribute(value=ast.Attribute(attr="module") | ast.Name(id="module")):
                if node.attr == "text":
                    yield "module.text"


def test_training_and_rules_reach_no_text_and_no_path() -> None:
    files = {f"training/{one.name}": one for one in (ROOT / "torchlint/training").glob("*.py")}
    rules = (ROOT / "rules/torchlint_rules").glob("*.py")
    files |= {f"rules/{one.name}": one for one in rules}
    del files["training/conventions.py"]  # which names suggest what
    reached = {name: found for name, file in files.items() if (found := set(_reached(file)))}
    assert reached == SPELL


def _is_in(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)
