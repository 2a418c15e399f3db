"""The report as one HTML file that opens without a network; jinja2 escapes all that it is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.bench.report.table import columns, left_out, method_words, verdict
from torchlint.report.model import count
from torchlint.verify.model import Verdict
from torchlint.verify.report import html
from torchlint.verify.report.plots import forest
from torchlint.verify.report.words import (
    CPU_LABEL,
    INTERRUPTED,
    kebab,
    load_words,
    machine_facts,
    percent,
    speedup,
)

if TYPE_CHECKING:
    from torchlint.bench.model import BenchReport, Measured
    from torchlint.verify.report.plots import Forest

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Told:
    """A row as the template tells it; ``why`` is what went wrong."""

    index: int
    code: str
    rule: str
    size: str
    name: str
    kind: str  # of verdict, for colour and sign
    verdict: str
    ratio: str
    between: str
    why: str


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of the table of figures."""

    header: str
    cells: list[str]
    is_number: bool


@dataclass(frozen=True, slots=True)
class Page:
    """All that the template is given."""

    version: str
    headline: str
    labels: list[str]
    device: str
    machine: str
    load: str
    method: str
    level: str
    margin: str
    forest: Forest | None
    rows: list[Told]
    columns: list[Cells]
    left_out: list[str]


def render(report: BenchReport) -> str:
    """Return the page.

    Raises:
        TorchlintError: jinja2 is not installed.

    """
    found = html.environment(TEMPLATES, html.TEMPLATES)
    return found.get_template("bench.html").render(page=_page(report))


def _page(report: BenchReport) -> Page:
    run = [one for one in report.rows if not one.row.unfit]
    labels = [CPU_LABEL] if report.machine.is_cpu else []
    ratios = {
        one.row.key: (one.interval, one.verdict is Verdict.NOISY)
        for one in run
        if one.interval is not None and not one.is_wrong
    }
    return Page(
        version=__version__,
        headline=_headline(run),
        labels=[*labels, INTERRUPTED] if report.interrupted else labels,
        device=report.machine.device,
        machine="; ".join((report.machine.device, *machine_facts(report.machine))),
        load=load_words(report.machine),
        method=method_words(report),
        level=f"{report.confidence:.0%}",
        margin=percent(report.margin),
        forest=forest(ratios, report.margin),
        rows=[_told(index, one) for index, one in enumerate(run)],
        columns=_columns(run),
        left_out=left_out(report),
    )


def _headline(run: list[Measured]) -> str:
    faster = sum(one.verdict is Verdict.FASTER for one in run)
    return f"{faster} of {count(len(run), 'program')} faster with the fix"


def _told(index: int, one: Measured) -> Told:
    known = one.interval is not None and not one.is_wrong
    ratio, between = speedup(one.interval) if one.interval and known else ("", "")
    return Told(
        index=index,
        code=one.row.code,
        rule=one.row.name,
        size=one.row.size,
        name=one.row.key,
        kind=kebab(one.verdict.name),
        verdict=verdict(one),
        ratio=ratio.replace("x", html.TIMES),
        between=between.replace("-", html.DASH),
        why=one.why if one.is_wrong else "",
    )


def _columns(run: list[Measured]) -> list[Cells]:
    """Return the columns of the terminal's table that say something."""
    return [
        Cells(
            column.header.replace("\n", " "), [text for text, _ in column.cells],
            is_number=column.align == ">",
        )
        for column in columns(run)
        if any(text for text, _ in column.cells) and column.header not in ("speed-up", "verdict")
    ]  # fmt: skip
