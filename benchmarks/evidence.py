"""What was measured, a file a device, and how pages and the README tell of it.

``evidence/<device>.json`` holds what `benchmarks/rules.py` and `benchmarks/gpu.py` write: the
programs of `torchlint bench` under ``rules``, whole scripts under ``scripts``.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from torchlint.bench.report.table import verdict_words
from torchlint.verify.model import Verdict
from torchlint.verify.report.words import BRIEF, kebab, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FOLDER = Path(__file__).with_name("evidence")
VERDICTS = {kebab(one.name): one for one in Verdict}
NO_GPU = "On a GPU: not measured yet."


def slug(device: str) -> str:
    """Return the name of a device for a file."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def of_device(folder: Path, device: str) -> tuple[Path, dict[str, Any]]:
    """Return the file of a device's evidence and what it holds so far."""
    path = folder / f"{slug(device)}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return path, {"device": device, "scripts": {}, **known}


def write(path: Path, evidence: Mapping[str, Any]) -> None:
    """Write the evidence; the file is the old one or the new one whenever this is cut short."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def add(folder: Path, device: str, news: Mapping[str, Any]) -> Path:
    """Put news into the evidence of a device, and return its file."""
    path, known = of_device(folder, device)
    write(path, {**known, **news})
    return path


def read(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the evidence of every device, GPUs first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda each: each["device"] == "CPU")


def is_cpu(evidence: Mapping[str, Any]) -> bool:
    """Whether it comes from a CPU."""
    return bool(evidence["device"] == "CPU")


def section(code: str, known: Sequence[Mapping[str, Any]]) -> str:
    """Return what a rule's page says of its evidence; nothing where there is none."""
    told = [part for each in known if (part := _device(code, each))]
    if told and all(is_cpu(each) for each in known):
        told.append(NO_GPU)
    return "\n\n".join(told)


def _device(code: str, evidence: Mapping[str, Any]) -> str:
    """Return one device's part of the section, empty where it has nothing of the rule."""
    rows = _rows(code, evidence)
    if not rows:
        return ""
    if unfit := [row["why"] for row in rows if not row["pairs"]]:
        return _wrapped(f"A CPU has nothing to show: {unfit[0]}.")
    rules = evidence["rules"]
    machine = rules["machine"]
    cpu = f"{machine['cpu']}, {machine['threads']} thread"
    head = (
        f"`torchlint bench {code}` on {cpu if is_cpu(evidence) else machine['device']}, "
        f"torch {machine['torch']}, {evidence['rules when'][:10]}: time of a step before and "
        f"after, and their ratio with its {rules['method']['confidence']:.0%} interval."
    )
    return "\n".join([_wrapped(head), *(_wrapped(_row(row), "- ", "  ") for row in rows)])


def _rows(code: str, evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a device's evidence has of a rule, a row a size."""
    return [row for row in evidence.get("rules", {}).get("rows", ()) if row["code"] == code]


def _row(row: Mapping[str, Any]) -> str:
    before, after = (_middle(row, side) for side in ("before", "after"))
    low, middle, high = row["ratio"]
    equal = all(pair["equal"] for pair in row["pairs"])
    same = "results bitwise equal" if equal else f"results as {row['level']} allows"
    verdict = verdict_words(VERDICTS[row["verdict"]])
    return (
        f"{row['step']}, {row['size']}: {seconds(before)} and {seconds(after)}, "
        f"{middle:.2f} x ({low:.2f} to {high:.2f}): {verdict}; {same}."
    )


def _middle(row: Mapping[str, Any], side: str) -> float:
    return geometric_mean(pair[side]["gpu"] or pair[side]["wall"] for pair in row["pairs"])


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, 100, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def table(rules: Iterable[tuple[str, str]], known: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the README: what each rule's fix is worth, a column a device."""
    names = [each["device"] for each in known] or ["CPU"]
    heads = ["rule", *(names if not all(map(is_cpu, known)) else [*names, "GPU"])]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for code, name in rules:
        cells = [_cell(code, each) for each in known]
        if not any(cells):
            continue
        cells += ["not measured yet"] * (len(heads) - 1 - len(cells))
        lines.append("| " + " | ".join([f"{code} `{name}`", *cells]) + " |")
    return "\n".join(lines) + "\n"


def scripts_table(known: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of whole scripts: a step as it is, with safe and with all proven fixes."""
    heads = ("device", "script", "before", "safe fixes", "all proven fixes", "results")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for device in known:
        for name, entry in device.get("scripts", {}).items():
            if "rows" not in entry:
                continue
            rows = entry["rows"]
            cells = [_where(device, entry), f"{name}{_origin(entry)}", _step(rows["before"])]
            cells += [_fixed(rows.get(each)) for each in heads[3:5]]
            cells.append((rows.get(heads[4]) or {}).get("results") or "")
            lines.append("| " + " | ".join(cells) + " |")
    if all(map(is_cpu, known)):
        lines.append("| a GPU | all | not measured yet | | | |")
    return "\n".join(lines) + "\n"


def _where(device: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Return the device, of a CPU the model: scripts may be measured on one and another."""
    return entry["machine"]["cpu"] if is_cpu(device) else device["device"]


def _origin(entry: Mapping[str, Any]) -> str:
    repository, _, commit = (entry.get("origin") or "").partition("@")
    return f" ({repository}@{commit[:7]})" if repository else ""


def _step(row: Mapping[str, Any]) -> str:
    return seconds(row["step seconds"]) if row["step seconds"] else "not timed"


def _fixed(row: Mapping[str, Any] | None) -> str:
    """Return what some fixes gain, and which they are."""
    if row is None:
        return "none"
    ratio = row["speed-up"]
    if ratio is None:
        return f"{row['verdict']} ({', '.join(row['codes'])})"
    between = f"{ratio['middle']:.2f} x ({ratio['low']:.2f} to {ratio['high']:.2f})"
    allocated = row["allocated"]
    memory = f", {allocated / 1e9:.2f} GB" if allocated else ""
    return f"{between}{memory}: {row['verdict']} ({', '.join(row['codes'])})"


def _cell(code: str, evidence: Mapping[str, Any]) -> str:
    rows = _rows(code, evidence)
    if rows and not rows[0]["pairs"]:
        return "needs a GPU"
    return "; ".join(_brief(row) for row in rows)


def _brief(row: Mapping[str, Any]) -> str:
    verdict = VERDICTS[row["verdict"]]
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        return f"{row['ratio'][1]:.2f} x"
    return BRIEF.get(verdict, verdict.value)
