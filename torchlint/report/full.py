"""The format for people: source frame, why, and the fix as an inline diff with its safety."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.fix import Safety
from torchlint.report.frame import fix_frame, source_frame
from torchlint.report.model import split_lines
from torchlint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.report.paint import Line
    from torchlint.rule import Diagnostic

COLORS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


def lines(files: Sequence[Reported], view: View) -> Iterator[Line]:
    """Yield the findings of each file, its advice last."""
    for file in files:
        source = split_lines(file.text)
        advice = [finding for finding in file.findings if finding.severity is Severity.INFO]
        for finding in file.findings:
            if finding.severity is not Severity.INFO:
                yield from _finding(file, source, finding, view)
        if advice:
            yield from _advice(file, advice, view)


def _finding(file: Reported, source: list[str], finding: Diagnostic, view: View) -> Iterator[Line]:
    color = COLORS[finding.severity]
    mark = " [*]" if view.is_applicable(finding) else ""
    yield [
        (f"{finding.severity.word} {finding.code}", color),
        (mark, "cyan"),
        (f" {finding.message}", "bold"),
    ]
    where = f"{file.filename}:{finding.location.row}:{finding.location.column}"
    yield [(" --> ", "bright_blue"), (where, "")]
    yield from source_frame(source, finding, color)
    if finding.help:
        yield [("help: ", "bold cyan"), (finding.help, "")]
    if finding.fix:
        word = finding.fix.safety.word
        style = "bold green" if finding.fix.safety is Safety.SAFE else "bold yellow"
        changes = f" ({finding.fix.changes})" if finding.fix.changes else ""
        yield [(f"{word} fix: ", style), (finding.fix.title + changes, "")]
        yield from fix_frame(file.text, finding.fix.edits)
    yield []


def _advice(file: Reported, advice: list[Diagnostic], view: View) -> Iterator[Line]:
    yield [
        (f"advice on {file.filename}", COLORS[Severity.INFO]),
        (" (each holds under an assumption: let `torchlint verify` measure it)", ""),
    ]
    for finding in advice:
        mark = " [*]" if view.is_applicable(finding) else ""
        where = f"{finding.location.row}:{finding.location.column}"
        yield [
            (f"  {where:>8} ", ""),
            (finding.code, COLORS[Severity.INFO]),
            (mark, "cyan"),
            (f" {finding.message}", ""),
        ]
        if finding.fix:
            changes = f" ({finding.fix.changes})" if finding.fix.changes else ""
            yield [(f"{'':11}{finding.fix.safety.word} fix: {finding.fix.title}{changes}", "dim")]
        elif finding.help:
            yield [(f"{'':11}{finding.help}", "dim")]
    yield []
