"""What came of a run, on a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lease_parts.follow import Told
    from lease_parts.out import Out
    from lease_parts.run import Lease

MOST, OF_EACH = 60, 12


def lines(lease: Lease, code: int) -> list[str]:
    """Return at most 60 lines."""
    found = [*lease.notes[:16], *_tests(lease.told), *_rules(lease.told), *_scripts(lease.told)]
    found += [text for told in lease.told.values() for text in told.bad][:OF_EACH]
    found += _evidence(lease.out)
    end = {0: "all is done", 2: "nothing was measured"}.get(code, "something is left, or failed")
    return [*found[: MOST - 1], f"exit {code}: {end}"]


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


def _scripts(told: Mapping[str, Told]) -> Iterator[str]:
    if (scripts := told.get("scripts")) is None:
        return
    yield f"scripts: {scripts.counts['pair']} pairs"
    for name, one in list(scripts.last.items())[:OF_EACH]:
        yield f"  {name}: {str(one.get('text') or one.get('why') or one['what']).splitlines()[0]}"


def _evidence(out: Out) -> Iterator[str]:
    for path in sorted(out.folder.glob("*.json")):
        entry = loaded(path)
        speeds = [
            f"{name} {value}" for name, value in entry.get("probe", {}).items() if "/s" in name
        ]
        if speeds:
            yield f"{entry['device']}: {'; '.join(speeds)}"
        rules = entry.get("rules") or {}
        rows = rules.get("rows", []) if isinstance(rules, dict) else []
        pairs = sum(len(row.get("pairs", ())) for row in rows)
        scripts = len(entry.get("scripts", ()))
        yield f"{path.name}: {len(rows)} rows with {pairs} pairs, {scripts} scripts"


def loaded(path: Any) -> dict[str, Any]:
    """Return what a file holds, nothing where it is cut short."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
