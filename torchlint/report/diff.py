"""`--diff`: a unified diff that `git apply -p0` and `patch -p0` take."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.report.paint import Line
    from torchlint.run import Checked

STYLES = {"---": "bold", "+++": "bold", "@": "cyan", "-": "red", "+": "green"}


def unified(file: Checked) -> Iterator[Line]:
    """Yield the changes of one file."""
    name = file.source.filename
    old, new = _lines(file.source.text), _lines(file.text)
    for line in difflib.unified_diff(old, new, name, name):
        style = next((STYLES[start] for start in STYLES if line.startswith(start)), "")
        ended = line.endswith("\n")
        yield [(line.removesuffix("\n"), style)]
        if not ended:
            yield [("\\ No newline at end of file", "")]


def _lines(text: str) -> list[str]:
    """Return lines with their ends; only a line feed ends one, as for git."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
