"""The report for machines, and what is kept as evidence: every pair, the machine, the verdicts.

The version in ``schema`` grows when a reader of the former one would be misled; new keys alone do
not change it.  Numbers are not rounded.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from torchlint import __version__
from torchlint.verify.report.words import CPU_LABEL, kebab

if TYPE_CHECKING:
    from torchlint.bench.model import BenchReport, Measured

SCHEMA = 1


def render(report: BenchReport) -> str:
    """Return the report as one JSON object."""
    return json.dumps(content(report), indent=1, allow_nan=False) + "\n"


def content(report: BenchReport) -> dict[str, Any]:
    """Return the report in JSON's types."""
    return {
        "schema": SCHEMA,
        "torchlint": __version__,
        "label": CPU_LABEL if report.machine.is_cpu else None,
        "interrupted": report.interrupted,
        "seconds": report.seconds,
        "launches": report.launches,
        "method": {"confidence": report.confidence, "margin": report.margin},
        "machine": dataclasses.asdict(report.machine),
        "rows": [_row(one) for one in report.rows],
    }


def _row(one: Measured) -> dict[str, Any]:
    row, interval = one.row, one.interval
    return {
        "code": row.code,
        "name": row.name,
        "size": row.size,
        "step": row.step,
        "fix": row.safety.word if row.safety else None,
        "level": row.level.name,
        "verdict": kebab(one.verdict.name),
        "why": one.why,
        "ratio": [interval.low, interval.middle, interval.high] if interval else None,
        "pairs": [
            {
                "before": dataclasses.asdict(pair.before),
                "after": dataclasses.asdict(pair.after),
                "difference": pair.difference if math.isfinite(pair.difference) else None,
                "equal": pair.equal,
            }
            for pair in one.pairs
        ],
    }
