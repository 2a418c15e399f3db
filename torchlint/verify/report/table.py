"""The report for a terminal: what ran and on what, the table, what needs words, what to keep."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchlint.report.paint import visible
from torchlint.verify.model import Verdict
from torchlint.verify.report.grid import Column, draw, fit
from torchlint.verify.report.rows import headline, rows, stderr_tail
from torchlint.verify.report.words import (
    BRIEF,
    CPU_LABEL,
    SHORT,
    is_on_cpu,
    load_words,
    machine_facts,
    memory,
    method_words,
    number,
    percent,
    speedup,
    spread,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchlint.report.paint import Line
    from torchlint.verify.model import Report
    from torchlint.verify.report.figures import Figures
    from torchlint.verify.report.rows import Row

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
    for caution in report.cautions:
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
    if is_on_cpu(machine):
        yield from _paragraph("          ", "", CPU_LABEL, width, "bold yellow")
    yield from _paragraph("measured  ", "dim", method_words(report), width)
    if report.interrupted:
        text = "interrupted: what follows is what was known by then"
        yield from _paragraph("          ", "", text, width, "bold yellow")


def _columns(told: Sequence[Row], report: Report) -> list[Column]:
    """Return all columns, from the one that says what to the one that says how it is."""
    unit, size = unit_of([row.figures.seconds for row in told if row.figures.seconds])
    on_device = any(row.figures.on_device for row in told)

    def column(header: str, rank: int, cell: Callable[[Figures], str]) -> Column:
        return Column(header, tuple((cell(row.figures), "") for row in told), rank)

    level = f"{report.confidence:.0%}"
    return [
        Column(
            "configuration",
            tuple((_mark(row) + row.name, "bold" if row.result.keep else "") for row in told),
            align="<",
            brief=tuple(_mark(row) + row.title for row in told),
            brief_header="fix",
        ),
        column(f"{unit} a step", 5, lambda own: _step(own, size)),
        Column(
            f"speed-up ({level})",
            tuple((_ratio(row), "") for row in told),
            align="<",
            brief=tuple(_ratio(row).partition(" ")[0] for row in told),
            brief_header="speed-up",
        ),
        column("data\nwait", 2, lambda own: "" if own.wait is None else percent(own.wait)),
        column("GPU\nbusy", 3, lambda own: "" if own.busy is None else percent(own.busy)),
        column(
            "GPU\nmemory" if on_device else "peak\nmemory",
            1,
            lambda own: "" if own.memory is None else memory(own.memory),
        ),
        column("syncs\na step", 4, lambda own: "" if own.reads is None else number(own.reads, 2)),
        Column("results", tuple(_results(row) for row in told), 7, align="<"),
        Column(
            "verdict",
            tuple((_verdict(row), COLORS[row.result.verdict]) for row in told),
            align="<",
            brief=tuple(
                BRIEF.get(row.result.verdict, _verdict(row)) if row.is_judged else ""
                for row in told
            ),
        ),
    ]


def _mark(row: Row) -> str:
    """Return the mark of what is worth keeping, or as many blanks."""
    return "* " if row.result.keep and row.role == "single" else "  "


def _step(own: Figures, size: float) -> str:
    if own.step is not None:
        return " ".join(spread(own.step, size)).strip()
    return "" if own.seconds is None else number(own.seconds / size)


def _ratio(row: Row) -> str:
    judgement = row.result.judgement
    if row.role == "before" or judgement is None or judgement.interval is None:
        return ""
    ratio, between = speedup(judgement.interval)
    return f"{ratio:<6} {between}"


def _results(row: Row) -> tuple[str, str]:
    agreement = row.result.agreement
    if row.role == "before" or agreement is None:
        return "", ""
    return SHORT[agreement.same], "" if agreement.allowed else "bold red"


def _verdict(row: Row) -> str:
    return row.result.verdict.value if row.is_judged else ""


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
        nothing = "none of the fixes proved itself" if report.singles else "there was no fix to try"
        yield from _paragraph("keep  ", "bold", nothing, width)
        return
    yield from _paragraph("keep  ", "bold green", _kept(report), width)
    yield [("      ", ""), (visible(report.apply_command), "bold")]


def _kept(report: Report) -> str:
    row = headline(report)
    codes = ", ".join(report.kept)
    if row is None or row.result.judgement is None or row.result.judgement.interval is None:
        return codes
    ratio, between = speedup(row.result.judgement.interval)
    agreement = row.result.agreement
    results = f"; results: {agreement.same.words}" if agreement else ""
    return f"{codes}: {ratio} as fast ({between}){results}"


def _paragraph(
    start: str, start_style: str, text: str, width: int, style: str = ""
) -> Iterator[Line]:
    """Yield text that begins with a word and goes on below its own first line."""
    room = min(width, WIDEST) - len(start)
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    for at, part in enumerate(parts):
        yield [(" " * len(start), "") if at else (start, start_style), (part, style)]
