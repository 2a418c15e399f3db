"""What was measured, a file a device: how it is read, merged and written.

``evidence/<device>.json`` holds what `benchmarks/rules.py` and `benchmarks/gpu.py` write: the
programs of `torchlint bench` under ``rules``, whole scripts under ``scripts``.  A file of schema 1
is read as one of schema 2.  What is written is merged into what the file holds by then: pairs are
added to pairs of the same key, and a worse entry never replaces a better one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FOLDER = Path(__file__).with_name("evidence")
SCHEMA = 2
STATES = ("failed", "partial", "done")  # of a script's entry, from the worst
ENOUGH = 3  # pairs of a row, with which it may replace one of another key


class EvidenceError(ValueError):
    """A file that does not hold evidence."""


def slug(device: str) -> str:
    """Return the name of a device for a file."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def is_cpu(evidence: Mapping[str, Any]) -> bool:
    """Whether it comes from a CPU."""
    return bool(evidence["device"] == "CPU")


def of_device(folder: Path, device: str) -> tuple[Path, dict[str, Any]]:
    """Return the file of a device's evidence and what it holds so far.

    Raises:
        EvidenceError: the file holds something else.

    """
    path = folder / f"{slug(device)}.json"
    known = loaded(path) if path.is_file() else {}
    return path, {"device": device, "scripts": {}, **known}


def read(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the evidence of every device, GPUs first.

    Raises:
        EvidenceError: a file holds something else.

    """
    return sorted(map(loaded, sorted(folder.glob("*.json"))), key=is_cpu)


def loaded(path: Path) -> dict[str, Any]:
    """Return what a file of evidence holds, as schema 2 has it.

    Raises:
        EvidenceError: it holds something else.

    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: cannot be read ({error}); restore it or remove it") from None
    if not isinstance(content, dict) or not isinstance(content.get("device"), str):
        raise EvidenceError(f"{path}: names no device; restore it or remove it")
    if content.get("schema", 1) > SCHEMA:
        raise EvidenceError(f"{path}: schema {content['schema']} is newer than this checkout")
    return upgraded(content)


def upgraded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence as schema 2 has it: rows say where and when, scripts how far they came."""
    if content.get("schema", 1) >= SCHEMA:
        return dict(content)
    found = {**content, "schema": SCHEMA}
    scripts = content.get("scripts", {})
    found["scripts"] = {name: {"status": _state(one), **one} for name, one in scripts.items()}
    if rules := content.get("rules"):
        told = {"key": None, "machine": rules["machine"], "when": found.pop("rules when", "")}
        rows = [{**told, **row} for row in rules["rows"]]
        found["rules"] = {**rules, "schema": SCHEMA, "rows": rows}
    return found


def _state(entry: Mapping[str, Any]) -> str:
    """Return how an entry ended that was written before entries said so."""
    if "error" in entry:
        return "failed"
    rows = entry.get("rows", {}).values()
    return "partial" if any(row["verdict"] == "not measured" for row in rows) else "done"


def write(path: Path, evidence: Mapping[str, Any]) -> None:
    """Write the evidence; the file is the old one or the new one whenever this is cut short."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps(evidence, indent=1) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def add(folder: Path, device: str, news: Mapping[str, Any]) -> Path:
    """Merge news into the evidence of a device, and return its file.

    Runs beside each other keep what the others write.  A file that cannot be read is put aside
    under another name.

    Raises:
        OSError: it cannot be written; the file is as it was.

    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug(device)}.json"
    with _alone(folder):
        try:
            known = of_device(folder, device)[1]
        except EvidenceError:
            path.replace(path.with_suffix(".json.unreadable"))
            known = {"device": device, "scripts": {}}
        write(path, merged(known, news))
    return path


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process writes to a folder."""
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def merged(known: Mapping[str, Any], news: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a device, with news in it; both may hold the same pairs."""
    found = {**upgraded(known), **upgraded(news), "schema": SCHEMA}
    scripts, unfinished = ({**known.get(part, {})} for part in ("scripts", "unfinished"))
    for part in ("unfinished", "scripts"):
        for name, entry in news.get(part, {}).items():
            _put(name, entry, scripts, unfinished)
    found["scripts"] = scripts
    if unfinished or "unfinished" in found:
        found["unfinished"] = unfinished
    if "rules" in known and "rules" in news:
        rows = _rows(found["rules"]["rows"], upgraded(known)["rules"]["rows"])
        found["rules"] = {**found["rules"], "rows": rows}
    return found


def _put(
    name: str, entry: Mapping[str, Any], scripts: dict[str, Any], unfinished: dict[str, Any]
) -> None:
    """Put a script's entry where it belongs.

    One of another key (the script, its fixes or torch have changed) replaces the old one once it
    says as much; until then it is kept apart, and a later run goes on from there.
    """
    old, going_on = scripts.get(name), unfinished.get(name)
    if going_on and going_on["key"] == entry["key"]:
        entry = merged_entries(going_on, entry)
    if old and old["key"] == entry["key"]:
        scripts[name] = merged_entries(old, entry)
    elif old is None or _says(entry) >= _says(old):
        scripts[name] = entry
    elif pairs_of(entry):
        unfinished[name] = entry
        return
    if going_on and going_on["key"] == entry["key"]:
        del unfinished[name]


def _says(entry: Mapping[str, Any]) -> int:
    """Return 2 where it is known what all fixes together gain, 1 where pairs were taken, else 0."""
    together = entry.get("rows", {}).get("all proven fixes") or {}
    if entry["status"] == "done" or together.get("speed-up"):
        return 2
    return 1 if pairs_of(entry) else 0


def worth(entry: Mapping[str, Any]) -> tuple[int, int]:
    """Return a number that is larger for an entry that says more: how far it is, and its pairs."""
    return STATES.index(entry["status"]), pairs_of(entry)


def pairs_of(entry: Mapping[str, Any]) -> int:
    """Return the pairs of runs that an entry of a script holds."""
    return sum(len(row["samples"]) for row in _all_rows(entry))


def _all_rows(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of an entry, each configuration once."""
    rows = [*entry.get("rows", {}).values(), *entry.get("fixes", {}).values()]
    yield from {tuple(row["codes"]): row for row in rows}.values()


def merged_entries(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return two entries of one key as one: the better one's words, and the pairs of both."""
    better, worse = (new, old) if worth(new) >= worth(old) else (old, new)
    found = {**worse, **better}
    for part in ("rows", "fixes"):
        ours, theirs = better.get(part, {}), worse.get(part, {})
        found[part] = {**theirs, **{name: _both(ours[name], theirs.get(name)) for name in ours}}
    if better["status"] != "failed":
        found.pop("error", None)
    return found


def _both(row: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a row of a script with the pairs of another run; figures are of the one with more."""
    if other is None or other["codes"] != row["codes"]:
        return dict(row)
    first, second = (row, other) if len(row["samples"]) >= len(other["samples"]) else (other, row)
    known = {name: value for name, value in first.items() if value is not None}
    return {**second, **known, "samples": union(other["samples"], row["samples"])}


def union(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Return the pairs of both, each once, in order; what was said of one later counts."""
    return list({_times(pair): pair for pair in (*first, *second)}.values())


def _times(pair: Mapping[str, Any]) -> str:
    """Return what no two pairs share: their times."""
    return json.dumps([pair["before"], pair["after"], pair.get("when")], sort_keys=True)


def _rows(news: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the rows of the rules with news in them: pairs of one key are added up.

    A row of another key stands beside the old one until it has pairs enough.
    """
    found: dict[tuple[str, ...], list[Any]] = {}
    for row in known:
        found.setdefault(place(row), []).append(row)
    for row in news:
        found[place(row)] = _with_row(found.get(place(row), []), row)
    return [row for key in sorted(found) for row in found[key]]


def _with_row(rows: Sequence[Any], row: Mapping[str, Any]) -> list[Any]:
    """Return the rows of one place with another one."""
    others = [one for one in rows if one["key"] is None or one["key"] != row.get("key")]
    for same in rows:
        if same not in others:
            row = _more(same, row)
    others = [one for one in others if one["pairs"]]
    if not row["pairs"] and others:
        return others
    return [row] if len(row["pairs"]) >= ENOUGH else [*others, row]


def _more(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the pairs of both, and the words of the one that knew more of them."""
    best = new if len(new["pairs"]) >= len(old["pairs"]) else old
    return {**best, "pairs": union(old["pairs"], new["pairs"])}


def place(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what a row is about, whatever its programs are just now."""
    return row["code"], row["step"], row["size"]
