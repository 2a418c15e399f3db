"""The report as one HTML file that opens without a network.

jinja2 is imported only here, and escapes everything that it is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.errors import TorchlintError
from torchlint.report.model import count
from torchlint.verify.model import Same, Verdict
from torchlint.verify.report.columns import columns
from torchlint.verify.report.curves import curves
from torchlint.verify.report.figures import losses
from torchlint.verify.report.headline import headline
from torchlint.verify.report.plots import forest, strip
from torchlint.verify.report.rows import (
    cautions,
    keep_words,
    notes,
    rows,
    stderr_tail,
    unfit_words,
)
from torchlint.verify.report.words import (
    CPU_LABEL,
    INTERRUPTED,
    kebab,
    load_words,
    machine_facts,
    method_words,
    percent,
    speedup,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jinja2

    from torchlint.verify.model import Caution, Interval, Report
    from torchlint.verify.report.columns import Column
    from torchlint.verify.report.curves import Curves
    from torchlint.verify.report.plots import Forest, Strip
    from torchlint.verify.report.rows import Row

TEMPLATES = Path(__file__).with_name("templates")
FINE = 240  # columns of a plot of losses
FOREST = ("name", "ratio", "verdict")  # columns that stand beside the plot of speed-ups
BUDGET = 3600  # and of all such plots of a file, which many fixes must not make a large one
TIMES, DASH = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Words:
    """What a plot says: its text alternative, and the labels of the two arms."""

    title: str
    before: str = ""
    after: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A configuration as the template tells it."""

    index: int
    role: str
    name: str
    title: str
    subtitle: str
    kind: str  # of verdict, for colour and sign
    verdict: str
    ratio: str
    between: str
    words: tuple[str, ...]
    stderr: str
    strip: Strip | None
    strip_words: Words | None
    curves: Curves | None
    curve_words: Words | None


@dataclass(frozen=True, slots=True)
class Page:
    """All that the template is given."""

    version: str
    headline: str
    keep: str
    apply: str
    labels: list[str]
    device: str
    command: str
    machine: str
    method: str
    level: str
    margin: str
    forest: Forest | None
    rows: list[Told]
    columns: list[Column]
    below: list[str]
    cautions: Sequence[Caution]
    facts: list[tuple[str, str]]

    @property
    def judged(self) -> list[Told]:
        """The configurations that have a verdict; what to keep comes first."""
        return sorted((row for row in self.rows if row.verdict), key=lambda row: row.role != "kept")

    @property
    def shown(self) -> list[Told]:
        """Those of them of which there is more to tell than that."""
        return [row for row in self.judged if row.strip or row.curves or row.words]

    @property
    def has_plots(self) -> bool:
        """Whether there is anything to explain about dots and lines."""
        return any(row.strip or row.curves for row in self.judged)


def render(report: Report) -> str:
    """Return the page.

    Raises:
        TorchlintError: jinja2 is not installed.

    """
    return environment(TEMPLATES).get_template("report.html").render(page=_page(report))


def environment(*folders: Path) -> jinja2.Environment:
    """Return what renders the templates of these folders.

    Raises:
        TorchlintError: jinja2 is not installed.

    """
    try:
        import jinja2  # noqa: PLC0415  linting does not need it
    except ImportError as error:
        raise TorchlintError(
            "an HTML report needs jinja2: `pip install torchlint[verify]`"
        ) from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(report: Report) -> Page:
    told = rows(report)
    plots = sum(row.role != "before" for row in told)
    most = min(FINE, BUDGET // max(1, plots))
    labels = [CPU_LABEL] if report.machine.is_cpu else []
    return Page(
        version=__version__,
        headline=re.sub(r"(?<=\d)x\b", TIMES, headline(report)),
        keep=keep_words(told, report),
        apply=report.apply_command if report.kept else "",
        labels=[*labels, INTERRUPTED] if report.interrupted else labels,
        device=report.machine.device,
        command=report.shown_command,
        machine="; ".join((report.machine.device, *machine_facts(report.machine))),
        method=method_words(report),
        level=f"{report.confidence:.0%}",
        margin=percent(report.margin),
        forest=_forest(told, report),
        rows=[_told(at, row, report, most) for at, row in enumerate(told)],
        columns=[each for each in columns(told, report) if each.key not in FOREST],
        below=[*unfit_words(report), *_unmeasured(told, report)],
        cautions=cautions(report),
        facts=_facts(report),
    )


def _forest(told: Sequence[Row], report: Report) -> Forest | None:
    ratios = {
        row.name: (row.ratio, row.result.verdict is Verdict.NOISY)
        for row in told
        if row.is_judged and row.ratio is not None
    }
    return forest(ratios, report.margin)


def _unmeasured(told: Sequence[Row], report: Report) -> list[str]:
    """Return what was not measured and why, once for all of it."""
    return [
        f"{note.name}: {note.verdict.value}; {'; '.join(note.sentences)}"
        for note in notes(told, report)
        if note.verdict is Verdict.NOT_MEASURED
    ]


def _ratio(interval: Interval) -> tuple[str, str]:
    ratio, between = speedup(interval)
    return ratio.replace("x", TIMES), between.replace("-", DASH)


def _told(index: int, row: Row, report: Report, most: int) -> Told:
    ratio = row.ratio
    judgement = row.result.judgement
    is_plotted = row.role != "before"
    plot = strip(judgement.samples) if is_plotted and judgement and judgement.samples else None
    curve = _curves(row, report, most) if is_plotted else None
    return Told(
        index=index,
        role=row.role,
        name=row.name,
        title=row.title,
        subtitle=row.subtitle,
        kind=kebab(row.result.verdict.name),
        verdict=row.verdict,
        ratio=_ratio(ratio)[0] if ratio else "",
        between=_ratio(ratio)[1] if ratio else "",
        words=() if row.result.verdict is Verdict.NOT_MEASURED else row.words,
        stderr="\n".join(stderr_tail(row.result, 12)),
        strip=plot,
        strip_words=_strip_words(row, plot) if plot else None,
        curves=curve,
        curve_words=_curve_words(row, curve) if curve else None,
    )


def _strip_words(row: Row, plot: Strip) -> Words:
    """Return the labels of the arms; with the interval where it is known."""
    before, after = (
        " ".join(spread(mean, plot.size)).strip() for mean in (plot.first, plot.second)
    )
    arm = {"together": "all fixes", "kept": "the kept fixes"}.get(row.role, row.title)
    return Words(
        title=f"Step times of {count(len(plot.pairs), 'pair')} of runs: before {before} "
        f"{plot.unit}, with {arm} {after} {plot.unit}",
        before=f"before {before}",
        after=f"with {arm} {after}",
    )


def _curves(row: Row, report: Report, most: int) -> Curves | None:
    first, second = losses(report.before), losses(row.result)
    if not first or not second:
        return None
    agreement = row.result.agreement
    return curves(first[0], second[0], agreement.first if agreement else None, most)


def _curve_words(row: Row, plot: Curves) -> Words:
    agreement = row.result.agreement
    same = f": {agreement.same.words}" if agreement else ""
    notes = []
    if agreement is not None:
        is_same = agreement.same is Same.BITWISE
        notes.append("one lies on the other" if is_same else agreement.same.words)
    if plot.first is not None:
        notes.append("they differ from the dotted line on")
    if plot.log:
        notes.append("logarithmic scale")
    if plot.each > 1:
        notes.append(f"drawn as the smallest and the largest of every {plot.each}")
    if plot.missing:
        notes.append(f"{count(plot.missing, 'loss')} without a number left out")
    return Words(
        title=f"Losses before and with {row.name}{same}", note="".join(f"; {n}" for n in notes)
    )


def _facts(report: Report) -> list[tuple[str, str]]:
    machine = report.machine
    libraries = ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
    facts = [
        ("device", machine.device),
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("threads", f"{machine.threads}"),
        ("load", load_words(machine)),
        ("system", machine.system),
        ("Python", machine.python),
        ("torch", machine.torch),
        ("CUDA", machine.cuda or ""),
        ("driver", machine.driver or ""),
        ("libraries", libraries),
    ]
    return [(name, value) for name, value in facts if value]
