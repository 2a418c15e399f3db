"""What every format is given: the files with their findings, and how to look at them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.rule import Location

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchlint.edits.fix import Safety
    from torchlint.rule import Diagnostic

NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Reported:
    """A file as shown to the user, its findings, and the text that they point into."""

    filename: str
    path: Path | None
    text: str
    findings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class View:
    """How findings are looked at.

    ``safety`` is the highest class of fixes that the command line allows, ``root`` the folder
    that machine formats are relative to, ``fixed`` the number of findings that this run fixed
    (None if it was not asked to), ``problems`` what kept files from being checked.
    """

    safety: Safety
    root: Path
    color: bool = False
    fixed: int | None = None
    problems: tuple[str, ...] = ()

    def is_applicable(self, finding: Diagnostic) -> bool:
        """Whether `--fix`, with the other options as they are, would apply the finding's fix."""
        return finding.fix is not None and finding.fix.safety <= self.safety


def findings_of(files: Iterable[Reported]) -> list[Diagnostic]:
    """Return all findings of all files, in order."""
    return [finding for file in files for finding in file.findings]


def line_starts(text: str) -> list[int]:
    """Return the offsets at which lines start; LF, CRLF and CR end one."""
    return [0, *(match.end() for match in NEWLINE.finditer(text))]


def split_lines(text: str) -> list[str]:
    """Lines without their ends; unlike ``str.splitlines``, form feeds do not end one."""
    return NEWLINE.split(text)


def place(starts: list[int], offset: int) -> Location:
    """Row and column of an offset, from 1."""
    import bisect  # noqa: PLC0415  only for files with fixes

    row = bisect.bisect_right(starts, offset)
    return Location(row, offset - starts[row - 1] + 1)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 finding``, ``2 findings``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
