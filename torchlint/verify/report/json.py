"""The report for machines: every raw sample, the machine, and what was made of them.

``verify.schema.json`` beside this file describes it.  The version in ``schema`` grows when a reader
of the former one would be misled; new keys alone do not change it.  Numbers are not rounded;
JSON has no word for those that are none, so they are the strings NaN, Infinity and -Infinity.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint import __version__
from torchlint.edits.fix import Safety
from torchlint.verify.report.figures import step_seconds, typical
from torchlint.verify.report.headline import headline
from torchlint.verify.report.rows import rows
from torchlint.verify.report.words import CPU_LABEL, kebab, rule_name

if TYPE_CHECKING:
    from torchlint.verify.model import Agreement, Bounds, Judgement, Report, Run
    from torchlint.verify.report.rows import Row

SCHEMA = 1


def render(report: Report) -> str:
    """Return the report as one JSON object."""
    content = {
        "schema": SCHEMA,
        "torchlint": __version__,
        "label": CPU_LABEL if report.machine.is_cpu else None,
        "interrupted": report.interrupted,
        "headline": headline(report),
        "seconds": report.seconds,
        "command": {"shown": report.shown_command, **_plain(report.command)},
        "machine": _plain(report.machine),
        "method": {
            "mode": report.mode,
            "confidence": report.confidence,
            "margin": report.margin,
            "bounds": _plain(report.bounds),
        },
        "configurations": [_configuration(row, report.bounds) for row in rows(report)],
        "unfit": [{"code": code, "why": why} for code, why in report.unfit],
        "keep": {"codes": list(report.kept), "apply": report.apply_command},
        "cautions": _plain(report.cautions),
    }
    return json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"


def _configuration(row: Row, bounds: Bounds) -> dict[str, Any]:
    result, own = row.result, row.result.configuration
    return {
        "role": row.role,
        "name": own.name,
        "codes": list(own.codes),
        "rules": [rule_name(code) for code in own.codes],
        "files": sorted(own.files),
        "lines": {file: sorted(lines) for file, lines in sorted(own.lines.items())},
        "safety": own.safety.word if own.safety else None,
        "level": own.level.name,
        "verdict": kebab(result.verdict.name),
        "why": result.why,
        "keep": row.keep,
        "figures": _plain(row.figures),
        "speed": _judgement(result.judgement),
        "results": _agreement(result.agreement),
        "runs": [_run(run, bounds) for run in result.runs],
    }


def _judgement(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None:
        return None
    return {
        "says": kebab(judgement.speed.name),
        "ratio": _plain(judgement.interval),
        "detectable": judgement.seen,
        "typical": _typical(judgement),
        "samples": _plain(judgement.samples),
    }


def _typical(judgement: Judgement) -> dict[str, float] | None:
    if not judgement.samples:
        return None
    before, after = typical(judgement.samples)
    return {"before": before, "after": after}


def _agreement(agreement: Agreement | None) -> dict[str, Any] | None:
    return {**_plain(agreement), "same": kebab(agreement.same.name)} if agreement else None


def _run(run: Run, bounds: Bounds) -> dict[str, Any]:
    return {**_plain(run), "step_seconds": step_seconds(run, bounds)}


def _plain(value: Any) -> Any:
    """Return a value of the model in JSON's types, dataclasses as objects with the same names."""
    match value:
        case Safety():
            return value.word
        case enum.Enum():
            return value.value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case frozenset() | set():
            return sorted(_plain(each) for each in value)
        case bytes():
            raise AssertionError("file contents stay out of the report")
        case _ if dataclasses.is_dataclass(value):
            names = (field.name for field in dataclasses.fields(value))
            return {name: _plain(getattr(value, name)) for name in names}
        case _:
            return value


def _finite(value: Any) -> Any:
    """Return the same with words in place of numbers that are none."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list():
            return [_finite(each) for each in value]
        case _:
            return value
