"""The report as a comment on a pull request: a table, and the details folded below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchlint.verify.report.columns import Measured, measured
from torchlint.verify.report.rows import cautions, nothing_words, proof_words, rows, stderr_tail
from torchlint.verify.report.words import (
    CPU_LABEL,
    INTERRUPTED,
    load_words,
    machine_facts,
    method_words,
    speedup,
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
    yield f"### torchlint verify: {_headline(report)}"
    labels = [CPU_LABEL] if report.machine.is_cpu else []
    for label in [*labels, INTERRUPTED] if report.interrupted else labels:
        yield from ("", "> [!WARNING]", f"> {label}")
    yield ""
    yield from _table(told, report)
    if report.kept:
        yield from ("", "Apply just these:", "", *fenced(report.apply_command, "console"))
    yield from _folded("Why", _reasons(told))
    warned = [f"- **{plain(each.text)}**; {plain(each.remedy)}" for each in cautions(report)]
    yield from _folded("Cautions", warned)
    yield from _folded("Machine and method", _machine(report))


def _headline(report: Report) -> str:
    if not report.kept:
        return nothing_words(report)
    proof = proof_words(report)
    return f"keep {', '.join(report.kept)}" + (f": {proof}" if proof else "")


def _table(told: Sequence[Row], report: Report) -> Iterator[str]:
    """Yield the table; the columns that nobody has are left out."""
    columns = [
        Measured("name", "configuration", tuple(_name(row) for row in told)),
        Measured("ratio", f"speed-up ({report.confidence:.0%})", tuple(map(_ratio, told))),
        *measured(told, report),
        Measured("results", "results", tuple(map(_results, told))),
        Measured("verdict", "verdict", tuple(_verdict(row) for row in told)),
    ]
    shown = [column for column in columns if any(column.cells)]
    words = ("name", "results", "verdict")
    yield _row([column.header for column in shown])
    yield _row([":--" if column.key in words else "--:" for column in shown])
    for cells in zip(*(column.cells for column in shown), strict=True):
        yield _row(cells)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _name(row: Row) -> str:
    name = plain(row.name)
    return f"**{name}**" if row.result.keep and row.role == "single" else name


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    ratio, between = speedup(row.ratio)
    return f"{ratio} ({between})"


def _results(row: Row) -> str:
    agreement = row.result.agreement
    return agreement.same.words if agreement and row.verdict else ""


def _verdict(row: Row) -> str:
    return f"**{row.verdict}**" if row.verdict else ""


def _reasons(told: Sequence[Row]) -> Iterator[str]:
    """Yield what the table does not say, and how scripts ended that failed."""
    tails: list[list[str]] = []
    for row in told:
        if row.words:
            sentences = "; ".join(plain(sentence) for sentence in row.words)
            yield f"- {plain(row.name)}, {row.verdict}: {sentences}"
            tail = stderr_tail(row.result)
            if tail and tail not in tails:
                yield from ("", *(f"  {line}" for line in fenced("\n".join(tail), "text")), "")
                tails.append(tail)


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
