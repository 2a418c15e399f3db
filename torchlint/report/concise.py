"""One line a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.report.paint import Line


def lines(files: Sequence[Reported], view: View) -> Iterator[Line]:
    """Yield `path:row:column: CODE [*] message` for each finding."""
    for file in files:
        for finding in file.findings:
            at = finding.location
            yield [
                (file.filename, "bold"),
                (f":{at.row}:{at.column}: ", "cyan"),
                (finding.code, "bold red"),
                (" [*]" if view.is_applicable(finding) else "", "cyan"),
                (f" {finding.message}", ""),
            ]
