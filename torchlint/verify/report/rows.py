"""The configurations of a report in the order in which every format tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from torchlint.verify.model import Same, Speed, Verdict
from torchlint.verify.report.figures import USEFUL, Figures, figures
from torchlint.verify.report.words import rule_name, speedup

if TYPE_CHECKING:
    from torchlint.verify.model import Caution, Interval, Report, Result

LABELLED = "cpu-only"  # the caution that every format tells as a label of its own
FEW = 3  # codes that a name has room for
Role: TypeAlias = Literal["before", "single", "together", "kept"]


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration: what it is called, what is known of it, and its numbers."""

    role: Role
    title: str
    subtitle: str
    result: Result
    figures: Figures

    @property
    def name(self) -> str:
        """The whole name: ``TL000 a-pattern``."""
        return f"{self.title} {self.subtitle}".strip()

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict to tell; the script as it was has one only if it failed."""
        return self.role != "before" or self.result.verdict is Verdict.FAILED

    @property
    def verdict(self) -> str:
        """The verdict in words, empty where there is none to tell."""
        return self.result.verdict.value if self.is_judged else ""

    @property
    def ratio(self) -> Interval | None:
        """The speed-up, where enough pairs of runs were made to speak of one."""
        judgement = self.result.judgement
        if self.role == "before" or judgement is None or judgement.speed is Speed.OPEN:
            return None
        return judgement.interval

    @property
    def words(self) -> tuple[str, ...]:
        """What the table does not say: why a verdict was given, and how results changed."""
        result = self.result
        if not self.is_judged:
            return ()
        if result.verdict is not Verdict.FASTER:
            return (result.why,)
        if self.role != "single":
            return ()
        if result.agreement is None or result.agreement.same is Same.BITWISE:
            return () if result.keep else (result.why,)  # which says why it is left out
        return (result.why, result.agreement.why)


def rows(report: Report) -> list[Row]:
    """Return what was run: the script before, each fix, all together, the kept ones."""
    told: list[tuple[Role, Result | None]] = [
        ("before", report.before),
        *(("single", single) for single in report.singles),
        ("together", report.together),
        ("kept", report.kept_result),
    ]
    return [
        Row(role, *_titles(role, result), result, figures(result, report.bounds))
        for role, result in told
        if result is not None
    ]


def _titles(role: Role, result: Result) -> tuple[str, str]:
    codes = result.configuration.codes
    if role == "single":
        code = codes[0] if codes else result.configuration.name
        return code, rule_name(code)
    number = "+".join(codes) if len(codes) <= FEW else f"{len(codes)} together"
    return {"before": ("before", ""), "together": ("all", number), "kept": ("kept", number)}[role]


def headline(report: Report) -> Row | None:
    """Return the row of exactly the fixes to keep, where their speed was measured."""
    wanted = frozenset(report.kept)
    return next(
        (
            row
            for row in reversed(rows(report))
            if row.ratio and wanted and frozenset(row.result.configuration.codes) == wanted
        ),
        None,
    )


def proof_words(report: Report) -> str:
    """Return what the fixes to keep do together: how fast it is, and how near the results."""
    row = headline(report)
    if row is None or row.ratio is None:
        return ""
    agreement = row.result.agreement
    return f"{speed_claim(row)} ({speedup(row.ratio)[1]})" + (
        f"; results: {agreement.same.words}" if agreement else ""
    )


def speed_claim(row: Row, times: str = "x") -> str:
    """Return what may be said of a speed: a ratio only where the verdict says that there is one."""
    if row.ratio is None or row.result.verdict in (Verdict.NO_CHANGE, Verdict.NOISY):
        return row.verdict
    return f"{speedup(row.ratio)[0].removesuffix('x')}{times} as fast"


def nothing_words(report: Report) -> str:
    """Return why there is nothing to keep."""
    if report.before.verdict is Verdict.FAILED:
        return "the script failed before any fix was tried"
    return "none of the fixes proved itself" if report.singles else "there was no fix to try"


def cautions(report: Report) -> list[Caution]:
    """Return the cautions, without the one that says what the label of a CPU says everywhere."""
    return [each for each in report.cautions if each.kind != LABELLED]


def stderr_tail(result: Result, most: int = 6) -> list[str]:
    """Return the script's own last lines on stderr, of the last run that did not end well."""
    failed = [run for run in result.runs if run.stderr.strip() and run.ending not in USEFUL]
    return failed[-1].stderr.rstrip().splitlines()[-most:] if failed else []
