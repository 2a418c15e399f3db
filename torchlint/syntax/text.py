"""Places in a text, and how the text is changed.

Offsets count characters of the decoded text, from 0, newlines as they stand in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open range of characters ``[start, end)``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the characters of ``[start, end)`` by ``content``; an empty range is an insertion."""

    start: int
    end: int
    content: str


def overlap(first: Iterable[Edit], second: Iterable[Edit]) -> bool:
    """Whether two fixes touch the same characters, or one inserts at an end of the other's."""
    return any(a.start <= b.end and b.start <= a.end for a, b in product(first, second))


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made.

    Raises:
        ValueError: two edits overlap, or one lies outside the text.

    """
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits):
        if not done <= edit.start <= edit.end <= len(text):
            raise ValueError(f"edit {edit} overlaps another or lies outside the text")
        pieces += (text[done : edit.start], edit.content)
        done = edit.end
    return "".join(pieces) + text[done:]
