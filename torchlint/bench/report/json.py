"""The report for machines, and what is kept as evidence: every pair, the machine, the verdicts.

The version in ``schema`` grows when a reader of the former one would be misled; new keys alone do
not change it.  Numbers are not rounded.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from torchlint import __version__
from torchlint.bench.kept import key
from torchlint.verify.report.words import CPU_LABEL, kebab

if TYPE_CHECKING:
    from torchlint.bench.model import BenchReport, Measured
    from torchlint.verify.model import Machine

SCHEMA = 2
IDENTITY = ("device", "cpu", "threads", "torch", "cuda", "driver")  # of a machine


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
        "rows": [content_of(one, report.machine) for one in report.rows],
    }


def content_of(one: Measured, machine: Machine) -> dict[str, Any]:
    """Return what is known of a row in JSON's types."""
    row, interval, check, setup = one.row, one.interval, one.check, one.setup
    return {
        "key": key(row, machine),
        "code": row.code,
        "name": row.name,
        "size": row.size,
        "step": row.step,
        "fix": row.safety.word if row.safety else None,
        "level": row.level.name,
        "verdict": kebab(one.verdict.name),
        "why": one.why,
        "ratio": [interval.low, interval.middle, interval.high] if interval else None,
        "results": dataclasses.asdict(check) if check else None,
        "pairs": [
            {
                "before": dataclasses.asdict(pair.before),
                "after": dataclasses.asdict(pair.after),
                "difference": check.difference if check else None,
                "equal": check.equal if check else None,
            }
            for pair in one.pairs
        ],
        "setup": {"before": setup[0], "after": setup[1]} if setup else None,
        "break even": one.break_even,
        "regime": one.regime,
        "machine": {name: getattr(machine, name) for name in IDENTITY},
        "when": one.when,
        "seconds": one.seconds,
    }
