"""The report as a comment on a pull request: a table, and the details folded below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchlint.verify.report.columns import columns
from torchlint.verify.report.headline import headline
from torchlint.verify.report.rows import cautions, keep_words, notes, rows, unfit_words
from torchlint.verify.report.words import (
    CPU_LABEL,
    INTERRUPTED,
    load_words,
    machine_facts,
    method_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.verify.model import Report
    from torchlint.verify.report.rows import Row

# What GitHub gives a meaning: emphasis, links, HTML, tables, and names and numbers that it links
SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#!|~&@$]")


def render(report: Report) -> str:
    """Return the comment, in GitHub's Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    told = rows(report)
    yield f"### torchlint verify: {headline(report)}"
    labels = [CPU_LABEL] if report.machine.is_cpu else []
    for label in [*labels, INTERRUPTED] if report.interrupted else labels:
        yield from ("", "> [!WARNING]", f"> {label}")
    yield ""
    yield from _table(told, report)
    for text in unfit_words(report):
        yield from ("", plain(text))
    if report.kept:
        command = fenced(report.apply_command, "console")
        yield from ("", f"Keep {keep_words(told, report)}:", "", *command)
    yield from _folded("Why", _reasons(told, report))
    warned = [f"- **{plain(each.text)}**; {plain(each.remedy)}" for each in cautions(report)]
    yield from _folded("Cautions", warned)
    yield from _folded("Machine and method", _machine(report))


def _table(told: Sequence[Row], report: Report) -> Iterator[str]:
    shown = columns(told, report)
    yield _row([column.header for column in shown])
    yield _row(["--:" if column.is_number else ":--" for column in shown])
    for at, row in enumerate(told):
        cells = {column.key: column.cells[at] for column in shown} | {"name": plain(row.name)}
        bold = {"verdict", "name"} if row.mark.strip() else {"verdict"}
        yield _row([f"**{cell}**" if cell and key in bold else cell for key, cell in cells.items()])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _reasons(told: Sequence[Row], report: Report) -> Iterator[str]:
    """Yield what the table does not say, and how scripts ended that failed."""
    for note in notes(told, report):
        sentences = "; ".join(plain(sentence) for sentence in note.sentences)
        yield f"- {plain(note.name)}, {note.verdict.value}: {sentences}"
        if note.tail:
            block = fenced("\n".join(note.tail), "text")
            yield from ("", *(f"  {line}" for line in block), "")


def _machine(report: Report) -> Iterator[str]:
    machine = report.machine
    facts = "; ".join((machine.device, *machine_facts(machine), load_words(machine)))
    yield f"- ran {code(report.shown_command)}"
    yield f"- on {plain(facts)}"
    yield f"- measured: {plain(method_words(report))}"


def _folded(summary: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Yield lines that are shown when asked for, or nothing where there are none."""
    inside = list(lines)
    if inside:
        opening = ("", "<details>", f"<summary>{summary}</summary>", "")
        yield from (*opening, *inside, "", "</details>")


def plain(text: str) -> str:
    """Return text that Markdown shows as it is; entities hide names and numbers from linking."""
    return SPECIAL.sub(lambda found: f"&#{ord(found[0])};", " ".join(text.split()))


def code(text: str) -> str:
    """Return text as code inside a line, within more backticks than it has."""
    fence = "`" * (1 + _ticks(text))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"


def fenced(text: str, language: str) -> list[str]:
    """Return text as a block of code, within more backticks than it has."""
    fence = "`" * max(3, 1 + _ticks(text))
    return [f"{fence}{language}", *text.splitlines(), fence]


def _ticks(text: str) -> int:
    """Return the length of the longest row of backticks."""
    return max((len(found) for found in re.findall("`+", text)), default=0)
