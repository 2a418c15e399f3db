"""Evidence of earlier runs: which of their pairs count for a row, and how a run's are added."""

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
    kind = (row.before, row.after, SCHEMA, machine.torch, device)
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
    if row.unfit or entry is None or entry["results"] is None or not entry["results"]["allowed"]:
        return Measured(row)
    pairs = [Pair(_arm(pair["before"]), _arm(pair["after"])) for pair in entry["pairs"]]
    check = Check(**entry["results"])
    return Measured(row, pairs, check, when=entry["when"], seconds=entry["seconds"])


def _arm(figures: Mapping[str, Any]) -> Arm:
    return Arm(**{one.name: figures.get(one.name) for one in fields(Arm)})


def merged(
    earlier: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return a run's entries, and in their place what was there where that says more."""
    by_place = {(entry["code"], entry["size"]): entry for entry in earlier}
    return [_better(by_place.get((one["code"], one["size"])), one) for one in found]


def _better(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Mapping[str, Any]:
    if old is None:
        return new
    if old.get("key") == new["key"]:  # perhaps of a run beside this one
        others = [pair for pair in old["pairs"] if pair not in new["pairs"]]
        return {**new, "pairs": [*others, *new["pairs"]]} if new["pairs"] else old
    settled = new["verdict"] != "not-measured" and new["pairs"]
    return new if settled or not old["pairs"] else old
