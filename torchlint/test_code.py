"""Which files are tests: what they cost, no training pays for.

Read off the path and the text, before anything is parsed.  A script named for its test set, which
evaluates a model, is none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = frozenset({"tests", "unittests", "unit_tests"})
_NAMED = re.compile(r"(test_\w*|\w*_tests?|tests?)$")
# Scripts that evaluate a model ask for it, or load it.
_EVALUATES = re.compile(r"argparse|argv|\bclick\b|torch\.load|load_state_dict|from_pretrained")
_LIBRARIES = re.compile(r"^\s*(from|import)\s+(unittest|pytest|absl\.testing)\b", re.MULTILINE)
_FUNCTIONS = re.compile(r"^\s*def (test_\w+)\(", re.MULTILINE)


def is_test(path: Path | None, text: str, root: Path | None) -> bool:
    """Whether a file is a test: by the folders below its project's root, or by name and content."""
    if path is None:
        return False
    folders: tuple[str, ...] = (path.parent.name,)
    if root is not None and root in path.parents:
        folders = path.parent.relative_to(root).parts
    if path.stem == "conftest" or not FOLDERS.isdisjoint(folders):
        return True
    if _NAMED.match(path.stem) is None:
        return False
    return _tests(text) or (path.parent.name == "test" and _EVALUATES.search(text) is None)


@lru_cache(maxsize=8)
def _tests(text: str) -> bool:
    """Whether a text uses a library for tests, or defines tests that it leaves to one to call."""
    return _LIBRARIES.search(text) is not None or any(
        is_left_to_runner(name, text) for name in _FUNCTIONS.findall(text)
    )


def is_left_to_runner(name: str, text: str) -> bool:
    """Whether a function is named as a test, and the file that defines it never names it again."""
    return name.startswith("test_") and len(re.findall(rf"\b{name}\b", text)) == 1
