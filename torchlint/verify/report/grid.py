"""Columns that fit a terminal: what is least needed goes first where it is narrow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torchlint.report.paint import width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.paint import Line

GAP = "  "
LEAST = 16  # columns that a shortened name still has


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its cells with their styles, and how dear it is.

    The header may have two lines.  ``brief`` are shorter words for the same cells.  Where the table
    is too wide the columns go in the order of ``rank``, the lowest first; those of rank 0 stay.
    """

    header: str
    cells: tuple[tuple[str, str], ...]
    rank: int = 0
    align: Literal["<", ">"] = ">"
    brief: tuple[str, ...] = ()
    brief_header: str = ""

    @property
    def width(self) -> int:
        """Columns of the terminal that the widest cell takes."""
        return max(map(width, (*self.header.split("\n"), *(text for text, _ in self.cells))))

    def shortened(self) -> Column:
        """Return it with the brief words."""
        if not self.brief:
            return self
        styles = (style for _, style in self.cells)
        cells = tuple(zip(self.brief, styles, strict=True))
        return replace(self, header=self.brief_header or self.header, cells=cells, brief=())

    def cut(self, most: int) -> Column:
        """Return it with no cell wider than ``most``."""
        return replace(self, cells=tuple((clip(text, most), style) for text, style in self.cells))


def clip(text: str, most: int) -> str:
    """Return text that takes at most so many columns; an ellipsis stands for what is left out."""
    if width(text) <= most:
        return text
    while text and width(text) > most - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def fit(columns: Sequence[Column], room: int) -> list[Column]:
    """Return what fits: a brief verdict, a cut name, a bare name, fewer columns, all brief.

    The first column is the name and the last one the verdict.
    """
    left = [column for column in columns if any(text for text, _ in column.cells)]
    if total(left) > room:
        left = [*left[:-1], left[-1].shortened()]
    most = left[0].width - (total(left) - room)
    if total(left) > room and most >= LEAST:
        return [left[0].cut(most), *left[1:]]
    if total(left) > room:
        left = [left[0].shortened(), *left[1:]]
    while total(left) > room:
        dropped = min((column.rank for column in left if column.rank), default=0)
        if not dropped:
            return [column.shortened() for column in left]
        left = [column for column in left if column.rank != dropped]
    return left


def total(columns: Sequence[Column]) -> int:
    """Return how wide the columns are, side by side."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def draw(columns: Sequence[Column]) -> Iterator[Line]:
    """Yield the header and the rows."""
    widths = [column.width for column in columns]
    for top in (True, False):
        heads = [_header(column.header, top=top) for column in columns]
        if any(heads):
            yield _line([(head, "dim") for head in heads], columns, widths)
    for cells in zip(*(column.cells for column in columns), strict=True):
        yield _line(list(cells), columns, widths)


def _header(header: str, *, top: bool) -> str:
    """Return the upper or the lower line of a header; the only one is the lower."""
    first, _, second = header.rpartition("\n")
    return first if top else second


def _line(cells: list[tuple[str, str]], columns: Sequence[Column], widths: list[int]) -> Line:
    """Return one row, without blanks at its end."""
    line: Line = []
    for (text, style), column, wide in zip(cells, columns, widths, strict=True):
        blank = " " * (wide - width(text))
        before, after = (blank, "") if column.align == ">" else ("", blank)
        line += [(before, ""), (text, style), (after + GAP, "")]
    while line and not line[-1][0].strip():
        line.pop()
    return [fragment for fragment in line if fragment[0]]
