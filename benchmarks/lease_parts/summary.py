"""What came of a run, on a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lease_parts.follow import Told
    from lease_parts.run import Lease

MOST, OF_EACH, LONGEST = 60, 12, 160
OPEN = "not-measured"  # the verdict of a row that has too few pairs, and says no reason


def lines(lease: Lease, code: int) -> list[str]:
    """Return at most 60 lines: how the parts ended, what was found, what failed, what is next."""
    known = [loaded(path) for path in sorted(lease.out.folder.glob("*.json"))] or [{}]
    found = [*lease.notes[:16], *_tests(lease.told), *_rules(lease.told)]
    for entry in known:
        found += [*_readable(_scripts(lease.told, entry)), *_readable(_machine(entry))]
    failed = [text for told in lease.told.values() for text in told.bad]
    found += failed[:OF_EACH]
    if len(failed) > OF_EACH:
        found.append(f"{len(failed) - OF_EACH} more failures: see failures.txt")
    last = [text for entry in known for text in _readable(_next(lease.told, entry))]
    last.append(_end(code))
    return [*found[: MOST - len(last)], *last]


def _readable(told: Iterator[str]) -> Iterator[str]:
    """Yield what is told of the evidence; what is not as expected costs these lines alone."""
    try:
        yield from told
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        yield f"the evidence is not as expected: {error!r}"


def _end(code: int) -> str:
    words = {0: "all is done", 2: "nothing was measured"}.get(code, "something is left, or failed")
    return f"exit {code}: {words}"


def _tests(told: Mapping[str, Told]) -> Iterator[str]:
    tests = [one for name, one in told.items() if "tests" in name.split()]
    if not tests:
        return
    kinds = ("passed", "failed", "error", "skipped")
    last = [entry["what"] for one in tests for entry in one.last.values()]
    counts = {**{kind: last.count(kind) for kind in kinds}, "not run": _not_run(tests)}
    yield "tests: " + ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)


def _not_run(tests: Iterable[Told]) -> int:
    """Return how many tests had no end, nor a beginning."""
    return sum(max(0, one.tests - len(one.last)) for one in tests)


def _rules(told: Mapping[str, Told]) -> Iterator[str]:
    """Tell of the rows with the largest effects."""
    if (rules := told.get("rules")) is None:
        return
    measured = [one for one in rules.last.values() if one.get("ratio")]
    yield f"rules: {rules.counts['pair']} pairs, {len(measured)} rows with a ratio"
    measured.sort(key=lambda one: -abs(one["ratio"][1] - 1))
    for one in measured[:OF_EACH]:
        low, middle, high = one["ratio"]
        pairs = f"{one.get('pairs', '?')} pairs, {one.get('verdict', '')}"
        yield f"  {one['row']}: {middle:.3g} x ({low:.3g} to {high:.3g}), {pairs}"


def _scripts(told: Mapping[str, Told], known: Mapping[str, Any]) -> Iterator[str]:
    """Tell of the scripts that this run had a look at."""
    if (scripts := told.get("scripts")) is None:
        return
    yield f"scripts: {scripts.counts['pair']} pairs"
    for name, one in list(scripts.last.items())[:OF_EACH]:
        entry = _part(known, "scripts").get(name) or {}
        rows = {**_part(entry, "rows"), **_part(entry, "fixes")}
        speeds = [f"{which} {_ratio(row)}" for which, row in rows.items() if _ratio(row)]
        said = str(one.get("why") or one.get("text") or one["what"]).partition("\n")[0]
        yield f"  {name}: {'; '.join((*speeds, said))}"[:LONGEST]


def _ratio(row: Any) -> str:
    speed = row.get("speed-up") if isinstance(row, dict) else None
    if not speed:
        return ""
    low, middle, high = speed["low"], speed["middle"], speed["high"]
    return f"{middle:.3g} x ({low:.3g} to {high:.3g}), {row.get('verdict')}"


def _machine(known: Mapping[str, Any]) -> Iterator[str]:
    probe, rows = _part(known, "probe"), _part(known, "rules").get("rows", [])
    if speeds := [f"{name} {value}" for name, value in probe.items() if "/s" in name]:
        yield f"{known['device']}: {'; '.join(speeds)}"
    pairs = sum(len(row.get("pairs", ())) for row in rows)
    scripts = len(_part(known, "scripts"))
    yield f"evidence so far: {len(rows)} rows with {pairs} pairs, {scripts} scripts"


def _next(told: Mapping[str, Told], known: Mapping[str, Any]) -> Iterator[str]:
    """Tell what a later run goes on with."""
    rows = [
        f"{row.get('code')} {row.get('size')}"
        for row in _part(known, "rules").get("rows", [])
        if row.get("verdict") == OPEN and not row.get("why")
    ]
    if rows:
        yield f"next: {len(rows)} rows without a verdict: {'; '.join(rows)}"[:LONGEST]
    if (scripts := told.get("scripts")) and scripts.left:
        yield f"next: scripts {scripts.left}"[:LONGEST]


def _part(known: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what stands under a name, nothing where it is no table."""
    part = known.get(name)
    return part if isinstance(part, dict) else {}


def loaded(path: Any) -> dict[str, Any]:
    """Return what a file holds, nothing where it is cut short."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
