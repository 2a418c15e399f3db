"""ruff's JSON: the same keys with the same meaning, so that its readers read this too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchlint.report.model import line_starts, place
from torchlint.report.summary import tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.rule import Diagnostic, Location


def render(files: Sequence[Reported], view: View) -> Iterator[str]:
    """Yield one array of findings."""
    del view  # nothing in this format depends on it
    found = [entry for file in files for entry in _entries(file)]
    yield json.dumps(found, indent=2, sort_keys=True) + "\n"


def _entries(file: Reported) -> Iterator[dict[str, Any]]:
    starts = line_starts(file.text)
    filename = str(file.path or file.filename)
    for finding in file.findings:
        yield {
            "cell": None,  # notebooks are not checked yet
            "code": finding.code,
            "name": finding.name,
            "message": finding.message,
            "filename": filename,
            "location": _location(finding.location),
            "end_location": _location(finding.end_location),
            "severity": finding.severity.word,
            "url": None,  # the page is printed by `torchlint rule CODE`
            "noqa_row": finding.suppression_row,
            "fix": _fix(finding, starts),
        }


def _location(location: Location) -> dict[str, int]:
    return {"row": location.row, "column": location.column}


def _fix(finding: Diagnostic, starts: list[int]) -> dict[str, Any] | None:
    if finding.fix is None:
        return None
    edits = [
        {
            "content": edit.content,
            "location": _location(place(starts, edit.start)),
            "end_location": _location(place(starts, edit.end)),
        }
        for edit in finding.fix.edits
    ]
    return {
        "applicability": finding.fix.safety.word,
        "message": finding.fix.title,
        "edits": edits,
    }


def counts(files: Sequence[Reported], view: View) -> Iterator[str]:
    """Yield the counts by rule (`--statistics`) as one array."""
    found = [
        {
            "code": code,
            "name": name,
            "count": number,
            "fixable": fixable == number,
            "fixable_count": fixable,
        }
        for number, code, name, fixable in tally(files, view)
    ]
    yield json.dumps(found, indent=2) + "\n"
