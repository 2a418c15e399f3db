"""Which pairs of earlier runs count for a row."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torchlint.bench.model import Arm, Check, Measured, Pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchlint.bench.model import Row
    from torchlint.verify.model import Machine

SCHEMA = 2  # that of worker.py: figures of another are not added to


def key(row: Row, machine: Machine) -> str:
    """Return what pairs must share to be of one kind: texts, worker, torch and device."""
    device = machine.cpu if machine.is_cpu else machine.device
    kind = (row.before, row.after, row.quick, SCHEMA, machine.torch, device)
    return hashlib.sha256(json.dumps(kind).encode()).hexdigest()[:16]


def recalled(
    rows: Sequence[Row], machine: Machine, entries: Iterable[Mapping[str, Any]]
) -> list[Measured]:
    """Return rows with what earlier runs found of them, as far as it is of the same kind.

    What failed or changed results is tried anew.
    """
    by_key = {entry["key"]: entry for entry in entries if entry.get("key")}
    return [_recalled(row, by_key.get(key(row, machine))) for row in rows]


def _recalled(row: Row, entry: Mapping[str, Any] | None) -> Measured:
    if row.unfit or entry is None or not (entry["results"] or {}).get("allowed"):
        return Measured(row)
    pairs = [Pair(_arm(pair["before"]), _arm(pair["after"])) for pair in entry["pairs"]]
    check = Check(**entry["results"])
    return Measured(row, pairs, check, when=entry["when"], seconds=entry["seconds"])


def _arm(figures: Mapping[str, Any]) -> Arm:
    known = {one.name for one in fields(Arm)}
    return Arm(**{name: value for name, value in figures.items() if name in known})
