"""The configurations of a report in the order in which every format tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from torchlint.verify.model import Same, Verdict
from torchlint.verify.report.figures import USEFUL, Figures, figures
from torchlint.verify.report.words import rule_name

if TYPE_CHECKING:
    from torchlint.verify.model import Report, Result

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
    def words(self) -> tuple[str, ...]:
        """What the table does not say: why a verdict was given, and how results changed."""
        result = self.result
        if not self.is_judged:
            return ()
        if result.verdict is not Verdict.FASTER:
            return (result.why,)
        changed = result.agreement is not None and result.agreement.same is not Same.BITWISE
        if not changed or self.role != "single" or result.agreement is None:
            return ()
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
    number = f"{len(codes)} together" if len(codes) != 1 else codes[0]
    return {"before": ("before", ""), "together": ("all", number), "kept": ("kept", number)}[role]


def headline(report: Report) -> Row | None:
    """Return the row of exactly the fixes to keep, where it was measured."""
    wanted = frozenset(report.kept)
    found = (row for row in reversed(rows(report)) if row.role != "before")
    return next((row for row in found if frozenset(row.result.configuration.codes) == wanted), None)


def stderr_tail(result: Result, most: int = 6) -> list[str]:
    """Return the script's own last lines on stderr, of the last run that did not end well."""
    failed = [run for run in result.runs if run.stderr.strip() and run.ending not in USEFUL]
    return failed[-1].stderr.rstrip().splitlines()[-most:] if failed else []
