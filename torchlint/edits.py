"""Spans, edits and fixes: what a rule says should change, and how text is changed.

A rule speaks of nodes (`Rewrite`); the engine looks up where those nodes stand in the text and
turns them into `Edit`s; `apply` is the only function that makes new text.
Offsets count characters of the decoded text, from 0, newlines as they stand in the file.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.analysis.rewrites import Rewrite


class Safety(enum.IntEnum):
    """Whether a fix may be applied without reading it."""

    SAFE = 1  # --fix: same values on every step, same random stream, same state_dict keys
    UNSAFE = 2  # --unsafe-fixes: right under a stated condition, or changes what it says it changes

    @property
    def word(self) -> str:
        """The name used in reports (ruff's ``applicability``)."""
        return self.name.lower()


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


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """A change that a rule proposes: all of its rewrites are made, or none.

    ``title`` is an imperative of a few words; ``changes`` says what an unsafe fix changes.
    """

    title: str
    safety: Safety
    rewrites: tuple[Rewrite, ...]
    changes: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedFix:
    """A fix as edits of the text, in the order of their place, none of them overlapping."""

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    changes: str = ""


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
