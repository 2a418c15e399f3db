"""Who may import whom, and what the engine may know of rules: read from the source."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

import torchlint
import torchlint_rules
from torchlint.registry import ENGINE_RULES, all_rules

ENGINE = Path(torchlint.__file__).parent
RULES = Path(torchlint_rules.__file__).parent
ENGINE_FILES = sorted(ENGINE.rglob("*.py"))
RULE_FILES = sorted(RULES.rglob("*.py"))


def name_of(file: Path) -> str:
    return file.relative_to(ENGINE if file.is_relative_to(ENGINE) else RULES).as_posix()


engine_files = pytest.mark.parametrize("file", ENGINE_FILES, ids=name_of)
rule_files = pytest.mark.parametrize("file", RULE_FILES, ids=name_of)


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported(nodes: list[ast.stmt], *, in_functions: bool) -> set[str]:
    """Return modules that are imported when a file is, or also when its functions run."""
    names: set[str] = set()
    for node in nodes:
        if is_for_types(node):
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not in_functions:
            continue
        inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        names |= imported(inner, in_functions=in_functions)
    return names


@functools.cache
def imports(file: Path, *, in_functions: bool = True) -> set[str]:
    return imported(ast.parse(file.read_bytes()).body, in_functions=in_functions)


def tops(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


# What is about trees, and the modules of these packages that are asked before any file is parsed.
ABOUT_TREES = ("syntax", "edits", "semantics", "training", "project.py")
BEFORE_PARSING = (
    "syntax/depth.py", "syntax/lexer.py", "syntax/lean.py", "syntax/text.py", "syntax/validity.py",
    "edits/fix.py", "semantics/paths.py", "semantics/names.py",
)  # fmt: skip


def modules(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("torchlint." + file.removesuffix(".py").replace("/", ".") for file in files)


@engine_files
def test_only_what_is_about_trees_imports_libcst_at_once(file) -> None:
    name = name_of(file)
    if name.split("/")[0] in ABOUT_TREES and name not in BEFORE_PARSING:
        return
    names = imports(file, in_functions=False)
    assert "libcst" not in tops(names)
    parts = {
        one for one in names if one.startswith(tuple(f"torchlint.{x}." for x in ABOUT_TREES[:-1]))
    }
    allowed = modules(BEFORE_PARSING)
    assert all(one.startswith(allowed) for one in parts)


@engine_files
def test_rich_is_never_imported_at_once(file) -> None:
    assert "rich" not in tops(imports(file, in_functions=False))


@engine_files
def test_only_the_registry_knows_the_rules(file) -> None:
    assert ("torchlint_rules" in tops(imports(file))) is (file == ENGINE / "registry.py")


@pytest.mark.parametrize("file", ENGINE_FILES + RULE_FILES, ids=name_of)
def test_nobody_imports_torch(file) -> None:
    is_worker = file == ENGINE / "bench" / "worker.py"  # runs in a process of its own
    assert ("torch" in tops(imports(file))) is is_worker
    assert "torchlint.bench.worker" not in imports(file)


@rule_files
def test_rules_see_the_public_surface_only(file) -> None:
    own = {name for name in imports(file) if name.startswith("torchlint.")}
    layers = ("syntax", "edits", "semantics", "training")
    allowed = tuple(f"torchlint.{name}" for name in ("rule", "benchmark", *layers))
    assert all(name.startswith(allowed) for name in own)


@functools.cache
def names_of_rules() -> set[str]:
    rules = [rule for rule in all_rules() if rule not in ENGINE_RULES]
    return {name for rule in rules for name in (rule.code, rule.name)}


@engine_files
def test_the_engine_names_no_rule(file) -> None:
    tree = ast.parse(file.read_bytes())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, documented)
    }
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    said = {
        word for text in strings if text not in docstrings for word in re.findall(r"[\w-]+", text)
    }
    assert not said & names_of_rules()
