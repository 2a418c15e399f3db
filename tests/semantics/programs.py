"""Small programs in a file of text: what they show stands behind ``#:`` in their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEFORE_EACH = "before each"


def programs(path: Path) -> Iterator[pytest.param]:
    """Yield the programs of a file, each as its files by their names.

    ``== name`` begins a program, ``-- path`` a file of it; what stands under `before each` begins
    each file.
    """
    before = ""
    for section in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        if name == BEFORE_EACH:
            before = text
            continue
        parts = re.split(r"^-- (.*)\n", text, flags=re.MULTILINE)
        named = dict(zip(parts[1::2], parts[2::2], strict=True)) or {"main.py": parts[0]}
        files = {name: before + code for name, code in named.items()}
        yield pytest.param(files, id=f"{path.stem}: {name}")
