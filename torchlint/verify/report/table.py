"""The report for a terminal: what ran and on what, the table, what needs words, what to keep."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchlint.report.paint import visible
from torchlint.verify.model import Verdict
from torchlint.verify.report.columns import measured
from torchlint.verify.report.grid import Column, draw, fit
from torchlint.verify.report.rows import cautions, nothing_words, proof_words, rows, stderr_tail
from torchlint.verify.report.words import (
    BRIEF,
    CPU_LABEL,
    INTERRUPTED,
    SHORT,
    load_words,
    machine_facts,
    method_words,
    speedup,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.paint import Line
    from torchlint.verify.model import Report
    from torchlint.verify.report.rows import Row

RANKS = {"memory": 1, "wait": 2, "busy": 3, "reads": 4, "step": 5, "results": 6}  # first to go: 1
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
    yield from draw(fit(_columns(told, report), width))
    tails: list[list[str]] = []
    for row in told:
        if row.words:
            yield from _words(row, width)
            tail = stderr_tail(row.result)
            if tail not in tails:  # all together often fail as one of them did alone
                yield from ([("  | ", "bright_blue"), (visible(line), "")] for line in tail)
                tails.append(tail)
    for caution in cautions(report):
        yield []
        yield from _paragraph("caution: ", "bold yellow", visible(caution.text), width)
        yield from _paragraph("   help: ", "bold cyan", visible(caution.remedy), width)
    yield []
    yield from _what_to_keep(report, width)


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


def _columns(told: Sequence[Row], report: Report) -> list[Column]:
    """Return all columns, from the one that says what to the one that says how it is."""
    name = Column(
        "configuration",
        tuple((_mark(row) + row.name, "bold" if row.result.keep else "") for row in told),
        align="<",
        brief=tuple(_mark(row) + row.title for row in told),
        brief_header="fix",
    )
    ratio = Column(
        f"speed-up ({report.confidence:.0%})",
        tuple((_ratio(row), "") for row in told),
        align="<",
        brief=tuple(_ratio(row).partition(" ")[0] for row in told),
        brief_header="speed-up",
    )
    figures = [
        Column(
            each.header.replace(" ", "\n", 1),
            tuple((cell, "") for cell in each.cells),
            RANKS[each.key],
        )
        for each in measured(told, report)
    ]
    results = Column("results", tuple(_results(row) for row in told), RANKS["results"], align="<")
    verdict = Column(
        "verdict",
        tuple((row.verdict, COLORS[row.result.verdict]) for row in told),
        align="<",
        brief=tuple(row.verdict and BRIEF.get(row.result.verdict, row.verdict) for row in told),
    )
    has_step = [column for column in figures if column.rank == RANKS["step"]]
    others = [column for column in figures if column.rank != RANKS["step"]]
    return [name, *has_step, ratio, *others, results, verdict]


def _mark(row: Row) -> str:
    """Return the mark of what is worth keeping, or as many blanks."""
    return "* " if row.result.keep and row.role == "single" else "  "


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    ratio, between = speedup(row.ratio)
    return f"{ratio:<6} {between}"


def _results(row: Row) -> tuple[str, str]:
    agreement = row.result.agreement
    if row.role == "before" or agreement is None:
        return "", ""
    return SHORT[agreement.same], "" if agreement.allowed else "bold red"


def _words(row: Row, width: int) -> Iterator[Line]:
    """Yield a verdict with its reasons."""
    yield []
    verdict = row.result.verdict
    yield [(row.name, "bold"), (": ", ""), (verdict.value, COLORS[verdict])]
    for sentence in row.words:
        yield from _paragraph("  ", "", visible(sentence), width)


def _what_to_keep(report: Report, width: int) -> Iterator[Line]:
    """Yield which fixes have proved themselves, and the command that applies just those."""
    if not report.kept:
        yield from _paragraph("keep  ", "bold", nothing_words(report), width)
        return
    said = ", ".join(report.kept) + (f": {proof}" if (proof := proof_words(report)) else "")
    yield from _paragraph("keep  ", "bold green", said, width)
    yield [("      ", ""), (visible(report.apply_command), "bold")]


def _paragraph(
    start: str, start_style: str, text: str, width: int, style: str = ""
) -> Iterator[Line]:
    """Yield text that begins with a word and goes on below its own first line."""
    room = min(width, WIDEST) - len(start)
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    for at, part in enumerate(parts):
        yield [(" " * len(start), "") if at else (start, start_style), (part, style)]
