"""The report for a terminal: what ran and on what, the table, what needs words, what to keep."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchlint.report.paint import visible
from torchlint.verify.model import Verdict
from torchlint.verify.report.columns import columns
from torchlint.verify.report.grid import Column, draw, fit
from torchlint.verify.report.headline import headline
from torchlint.verify.report.rows import cautions, keep_words, notes, rows, unfit_words
from torchlint.verify.report.words import (
    BRIEF,
    CPU_LABEL,
    INTERRUPTED,
    SHORT,
    load_words,
    machine_facts,
    method_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.paint import Line
    from torchlint.verify.model import Report
    from torchlint.verify.report import columns as shared
    from torchlint.verify.report.rows import Note, Row

# first to go where the terminal is narrow: 1
RANKS = {"memory": 1, "wait": 2, "busy": 3, "reads": 4, "before": 5, "after": 5, "results": 6}
BRIEFLY = {"name": "fix", "ratio": "speed-up"}  # headers there
NARROWEST = 40  # columns; a terminal that is narrower breaks the lines itself
WIDEST = 100  # of running text
COLORS = {
    Verdict.FASTER: "bold green",
    Verdict.SLOWER: "bold red",
    Verdict.NO_CHANGE: "",
    Verdict.CHANGES_RESULTS: "bold red",
    Verdict.NOT_EXERCISED: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.NOISY: "yellow",
    Verdict.NOT_MEASURED: "yellow",
}


def lines(report: Report, width: int = WIDEST) -> Iterator[Line]:
    """Yield the report in lines of at most ``width`` columns, where its words allow it."""
    told = rows(report)
    width = max(NARROWEST, width)
    yield from _what_ran(report, width)
    yield []
    yield from draw(fit([_column(each, told) for each in columns(told, report)], width))
    for text in unfit_words(report):
        yield []
        yield from _paragraph("", "", text, width)
    for note in notes(told, report):
        yield []
        yield from _note(note, width)
    for caution in cautions(report):
        yield []
        yield from _paragraph("caution: ", "bold yellow", visible(caution.text), width)
        yield from _paragraph("   help: ", "bold cyan", visible(caution.remedy), width)
    yield []
    yield from _what_to_keep(told, report, width)


def _what_ran(report: Report, width: int) -> Iterator[Line]:
    machine = report.machine
    facts = "; ".join((machine.device, *machine_facts(machine), load_words(machine)))
    yield from _paragraph("     ran  ", "dim", visible(report.shown_command), width, "bold")
    yield from _paragraph("      on  ", "dim", visible(facts), width)
    if machine.is_cpu:
        yield from _paragraph("          ", "", CPU_LABEL, width, "bold yellow")
    yield from _paragraph("measured  ", "dim", method_words(report), width)
    if report.interrupted:
        yield from _paragraph("          ", "", INTERRUPTED, width, "bold yellow")


def _column(own: shared.Column, told: Sequence[Row]) -> Column:
    """Return a column as the grid has it: styled, and with what it says where room is scarce."""
    texts, header = own.cells, own.header
    styles: tuple[str, ...] = ("",) * len(told)
    brief: tuple[str, ...] = ()
    match own.key:
        case "name":
            texts = tuple(row.mark + row.name for row in told)
            styles = tuple("bold" if row.keep else "" for row in told)
            brief = tuple(row.mark + row.title for row in told)
        case "ratio":
            texts = tuple("{:<6} {}".format(*_parts(text)).rstrip() for text in texts)
            brief = tuple(text.partition(" ")[0] for text in texts)
        case "results":
            same = [row.result.agreement for row in told]
            texts = tuple(SHORT[each.same] if each else "" for each in same)
            styles = tuple("" if each is None or each.allowed else "bold red" for each in same)
        case "verdict":
            styles = tuple(COLORS[row.result.verdict] for row in told)
            brief = tuple(
                row.verdict and BRIEF.get(row.result.verdict, row.verdict) for row in told
            )
        case _:
            header = header.replace(" ", "\n", 1)
    return Column(
        header,
        tuple(zip(texts, styles, strict=True)),
        RANKS.get(own.key, 0),
        align=">" if own.is_number else "<",
        brief=brief,
        brief_header=BRIEFLY.get(own.key, ""),
    )


def _parts(ratio: str) -> tuple[str, str]:
    """Return a speed-up and its interval, which a table need not enclose."""
    middle, _, between = ratio.partition(" ")
    return middle, between.strip("()")


def _note(note: Note, width: int) -> Iterator[Line]:
    """Yield a verdict with its reasons."""
    yield [(note.name, "bold"), (": ", ""), (note.verdict.value, COLORS[note.verdict])]
    for sentence in note.sentences:
        yield from _paragraph("  ", "", visible(sentence), width)
    yield from ([("  | ", "bright_blue"), (visible(line), "")] for line in note.tail)


def _what_to_keep(told: Sequence[Row], report: Report, width: int) -> Iterator[Line]:
    """Yield what the report comes to, which fixes to keep, and the command that applies those."""
    yield from _paragraph("", "", headline(report), width, "bold")
    if report.kept:
        marks = " (marked *)" if any(row.mark.strip() for row in told) else ""
        yield from _paragraph("keep  ", "bold green", keep_words(told, report) + marks, width)
        yield [("      ", ""), (visible(report.apply_command), "bold")]


def _paragraph(
    start: str, start_style: str, text: str, width: int, style: str = ""
) -> Iterator[Line]:
    """Yield text that begins with a word and goes on below its own first line."""
    room = min(width, WIDEST) - len(start)
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    for at, part in enumerate(parts):
        yield [(" " * len(start), "") if at else (start, start_style), (part, style)]
