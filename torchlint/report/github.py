"""Annotations of GitHub Actions, written as workflow commands.

GitHub shows ten annotations of each level a step and drops the others without a word
(docs.github.com, "Workflow commands" and the limits of check run annotations), so the last
notice says how many are not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.report.model import count
from torchlint.report.relative import relative_name
from torchlint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.rule import Diagnostic

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
LIMIT = 10


def render(files: Sequence[Reported], view: View) -> Iterator[str]:
    """Yield one command a finding, and a notice if the platform hides some."""
    numbers = {
        severity: sum(f.severity is severity for file in files for f in file.findings)
        for severity in Severity
    }
    hides = any(number > LIMIT for number in numbers.values())
    # the closing notice is an annotation too: it takes the place of one piece of advice
    limits = {**dict.fromkeys(Severity, LIMIT), Severity.INFO: LIMIT - hides}
    hidden = sum(max(0, numbers[severity] - limits[severity]) for severity in Severity)
    written = dict.fromkeys(Severity, 0)
    for file in files:
        name = relative_name(file, view.root)
        for finding in file.findings:
            written[finding.severity] += 1
            crowded_out = hides and finding.severity is Severity.INFO
            if crowded_out and written[Severity.INFO] > limits[Severity.INFO]:
                yield f"{_plain(name, finding)}\n"
            else:
                yield f"{_command(name, finding)}\n"
    if hidden:
        text = f"{count(hidden, 'finding')} not shown: GitHub shows {LIMIT} of each level a step"
        yield f"::notice title=torchlint::{_data(text)}; the log has them all\n"


def _plain(name: str, finding: Diagnostic) -> str:
    at = finding.location
    message = " ".join(finding.message.split())
    return f"{name}:{at.row}:{at.column}: {finding.code} {message}"


def _command(name: str, finding: Diagnostic) -> str:
    at, end = finding.location, finding.end_location
    properties = {
        "title": f"torchlint ({finding.code})",
        "file": name,
        "line": at.row,
        "col": at.column,
        "endLine": end.row,
        "endColumn": end.column,
    }
    written = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    text = f"{name}:{at.row}:{at.column}: {finding.code} {finding.message}"
    if finding.help:
        text += f"\n  help: {finding.help}"
    return f"::{LEVELS[finding.severity]} {written}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
