"""SARIF 2.1.0 (OASIS standard, errata 01): results with fixes and stable fingerprints."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torchlint import __version__
from torchlint.registry import all_rules, page
from torchlint.report.model import line_starts, place, split_lines
from torchlint.report.relative import relative_name
from torchlint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.rule import Diagnostic, Location, Rule

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "SRCROOT"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(files: Sequence[Reported], view: View) -> Iterator[str]:
    """Yield one log with one run."""
    rows = _rows(files)
    index = {code: at for at, (code, _) in enumerate(rows)}
    driver = {
        "name": "torchlint",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_descriptor(code, rule) for code, rule in rows],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": view.root.as_uri().rstrip("/") + "/"}},
        "invocations": [_invocation(view)],
        "results": [result for file in files for result in _results(file, index, view)],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    yield json.dumps(log, indent=2) + "\n"


def _rows(files: Sequence[Reported]) -> list[tuple[str, Rule]]:
    """Every rule, and a row of its own for each sub-case that was reported."""
    seen = {finding.code for file in files for finding in file.findings}
    known = {rule.code: rule for rule in all_rules()}
    cases = {code: known[code[:-1]] for code in seen - known.keys()}
    return sorted({**known, **cases}.items())


def _descriptor(code: str, rule: Rule) -> dict[str, Any]:
    text = page(rule)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _invocation(view: View) -> dict[str, Any]:
    notes = [{"level": "error", "message": {"text": problem}} for problem in view.problems]
    return {"executionSuccessful": not notes, "toolExecutionNotifications": notes}


def _results(file: Reported, index: dict[str, int], view: View) -> Iterator[dict[str, Any]]:
    artifact = _artifact(file, view.root)
    starts, lines = line_starts(file.text), split_lines(file.text)
    seen: dict[str, int] = {}
    for finding in file.findings:
        row = finding.location.row
        line = lines[row - 1].strip() if row <= len(lines) else ""
        mark = hashlib.sha256(f"{finding.code}\0{line}".encode()).hexdigest()[:16]
        seen[mark] = seen.get(mark, 0) + 1
        region = _region(finding.location, finding.end_location)
        result = {
            "ruleId": finding.code,
            "ruleIndex": index[finding.code],
            "level": LEVELS[finding.severity],
            "message": {"text": _message(finding)},
            "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
            # the line's own text, not its number: it stays when code above it changes
            "partialFingerprints": {"primaryLocationLineHash": f"{mark}:{seen[mark]}"},
        }
        if finding.fix:
            result["fixes"] = [_fix(finding, artifact, starts)]
        yield result


def _message(finding: Diagnostic) -> str:
    return f"{finding.message}\n{finding.help}" if finding.help else finding.message


def _artifact(file: Reported, root: Path) -> dict[str, str]:
    name = relative_name(file, root)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": ROOT}


def _region(start: Location, end: Location) -> dict[str, int]:
    return {
        "startLine": start.row,
        "startColumn": start.column,
        "endLine": end.row,
        "endColumn": end.column,
    }


def _fix(finding: Diagnostic, artifact: dict[str, str], starts: list[int]) -> dict[str, Any]:
    assert finding.fix is not None
    replacements = [
        {
            "deletedRegion": _region(place(starts, edit.start), place(starts, edit.end)),
            "insertedContent": {"text": edit.content},
        }
        for edit in finding.fix.edits
    ]
    fix = finding.fix
    text = f"{fix.title} ({fix.safety.word}{': ' + fix.changes if fix.changes else ''})"
    return {
        "description": {"text": text},
        "artifactChanges": [{"artifactLocation": artifact, "replacements": replacements}],
    }
