"""The source around a finding, and its fix as an inline diff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.report.model import line_starts, place, split_lines
from torchlint.report.paint import visible, width
from torchlint.syntax.text import apply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.report.paint import Line
    from torchlint.rule import Diagnostic
    from torchlint.syntax.text import Edit

CONTEXT = 2  # lines shown before and after a finding
LONGEST = 160  # characters of a line that are shown
MOST_ROWS = 8  # a finding on more rows is shown by its first ones
GUTTER = "bright_blue"


def source_frame(lines: list[str], finding: Diagnostic, color: str) -> Iterator[Line]:
    """Yield the numbered lines around a finding, with carets under it."""
    first = finding.location.row
    last = min(finding.end_location.row, first + MOST_ROWS - 1, len(lines))
    shown = range(max(1, first - CONTEXT), min(len(lines), last + CONTEXT) + 1)
    digits = len(str(shown[-1])) if shown else 1
    yield [(f"{'':{digits}} |", GUTTER)]
    for row in shown:
        text = lines[row - 1]
        begin = finding.location.column - 1 if row == first else _indent(text)
        end = finding.end_location.column - 1 if row == finding.end_location.row else len(text)
        marked = first <= row <= last
        skip = max(0, begin - LONGEST // 2) if marked else 0
        yield _row(f"{row:{digits}} |", _window(text, skip))
        if marked:
            before = width(_window(text[:begin], skip))
            inside = width(visible(text[begin : min(end, skip + LONGEST)]))
            carets = " " * before + "^" * max(1, inside)
            yield _row(f"{'':{digits}} |", carets, color)
    yield [(f"{'':{digits}} |", GUTTER)]


def _row(gutter: str, text: str, style: str = "") -> Line:
    """Return a line of a frame, without blanks at its end."""
    return [(gutter, GUTTER), (f" {text}", style)] if text else [(gutter, GUTTER)]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _window(text: str, skip: int) -> str:
    """Return what is shown of a line that may be a megabyte long."""
    cut = visible(text[skip : skip + LONGEST])
    return ("…" if skip else "") + cut + ("…" if len(text) > skip + LONGEST else "")


def fix_frame(text: str, edits: tuple[Edit, ...]) -> Iterator[Line]:
    """Yield a fix as lines taken away and added, with the numbers of the old and the new file."""
    starts = line_starts(text)
    shift = 0
    hunks = list(_hunks(starts, edits))
    digits = len(str(hunks[-1][1] + len(hunks))) if hunks else 1
    yield [(f"{'':{digits}} |", GUTTER)]
    for at, (first, last, within) in enumerate(hunks):
        if at:
            yield [(f"{'':{digits}} ...", GUTTER)]
        begin = starts[first - 1]
        end = starts[last] if last < len(starts) else len(text)
        old = text[begin:end]
        moved = [type(e)(e.start - begin, e.end - begin, e.content) for e in within]
        new = apply(old, moved)
        yield from _changes(split_lines(old), split_lines(new), first, shift, digits)
        shift += len(split_lines(new)) - len(split_lines(old))
    yield [(f"{'':{digits}} |", GUTTER)]


def _hunks(starts: list[int], edits: tuple[Edit, ...]) -> Iterator[tuple[int, int, list[Edit]]]:
    """Group edits by the rows they touch: first row, last row, edits; near ones together."""
    first = last = 0
    group: list[Edit] = []
    for edit in edits:
        top, end = place(starts, edit.start).row, place(starts, edit.end).row
        if group and top > last + 1:
            yield first, last, group
            group = []
        if not group:
            first, last = top, end
        last = max(last, end)
        group.append(edit)
    if group:
        yield first, last, group


def _changes(old: list[str], new: list[str], first: int, shift: int, digits: int) -> Iterator[Line]:
    import difflib  # noqa: PLC0415  only for findings with a fix

    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            rows = [row for row in range(a, a_end) if row < a + 1 or row >= a_end - 1]
            for row in rows:
                if old[row] or row < len(old) - 1:  # nothing follows the last newline
                    number = first + shift + row - a + b
                    text = _window(old[row], 0)
                    yield _row(f"{number:{digits}} |", f"  {text}" if text else "", "dim")
            continue
        for row in range(a, a_end):
            text = f"- {_window(old[row], 0)}".rstrip()
            yield _row(f"{first + row:{digits}} |", text, "red")
        for row in range(b, b_end):
            number = first + shift + row
            yield _row(f"{number:{digits}} |", f"+ {_window(new[row], 0)}".rstrip(), "green")
