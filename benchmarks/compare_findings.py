"""Compare what two versions of torchlint find in the same files: what came, went and changed.

    python benchmarks/compare_findings.py OLD NEW CORPUS [--rules TL2,TL101] [--save F] [--changes]

OLD and NEW are checkouts of torchlint, or files that `--save` wrote: it keeps the findings of NEW,
so that those of a version need to be made once only.  CORPUS is a folder of repositories; each is
checked as a project of its own.  A table counts by rule; then follows each difference, with its
line, sorted by rule: read them once, in bulk.  ``--changes`` adds those where only the severity or
the fix is another.  Exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Place: TypeAlias = tuple[str, str, int, int]  # code, file below the corpus, row, column
Facts: TypeAlias = dict[str, Any]  # severity and message, and the fix: its safety and edits
Findings: TypeAlias = dict[Place, Facts]

WIDTH = 100


def main() -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rules", default="TL", metavar="PREFIXES", help="only these [all]")
    parser.add_argument("--save", type=Path, metavar="F", help="keep the findings of NEW")
    parser.add_argument("--changes", action="store_true", help="list changes of severity and fix")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="repositories at once [2]")
    given = parser.parse_args()
    old, new = (
        findings(side, given.corpus, given.jobs, given.rules) for side in (given.old, given.new)
    )
    if given.save:
        given.save.write_text(json.dumps([[*place, facts] for place, facts in new.items()]))
    old, new = (
        {
            place: facts
            for place, facts in side.items()
            if place[0].startswith(tuple(given.rules.split(",")))
        }
        for side in (old, new)
    )
    sys.stdout.writelines(f"{line}\n" for line in table(old, new))
    changes = changed(old, new) if given.changes else {}
    sys.stdout.writelines(f"{line}\n" for line in listing(old, new, changes, given.corpus))
    return 1 if old != new else 0


def findings(side: Path, corpus: Path, jobs: int, rules: str = "TL") -> Findings:
    """Return what a version finds in all repositories of a corpus, by rules of some prefixes."""
    if side.is_file():
        return {(code, name, row, at): f for code, name, row, at, f in json.loads(side.read_text())}
    folders = sorted(path for path in corpus.iterdir() if path.is_dir())
    found: Findings = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(partial(_checked, side.resolve(), corpus.resolve(), rules), folders):
            found.update(part)
    return found


def _checked(checkout: Path, corpus: Path, rules: str, folder: Path) -> Findings:
    words = (
        "check",
        "--select",
        rules,
        "--isolated",
        "--no-cache",
        "--exit-zero",
        "--output-format",
        "json",
        "-q",
    )
    path = os.pathsep.join((str(checkout), str(checkout / "rules")))
    done = subprocess.run(
        [sys.executable, "-m", "torchlint", *words, str(folder.resolve())],
        env={**os.environ, "PYTHONPATH": path},
        cwd=corpus,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise SystemExit(f"{checkout}, {folder.name}: {done.stderr[-2000:]}")
    return dict(_read(json.loads(done.stdout), corpus))


def _read(told: list[dict[str, Any]], corpus: Path) -> Iterator[tuple[Place, Facts]]:
    for one in told:
        name = os.path.relpath(corpus / one["filename"], corpus)
        place = one["code"], name, one["location"]["row"], one["location"]["column"]
        fix = one["fix"]
        yield (
            place,
            {
                "severity": one["severity"],
                "message": one["message"],
                "safety": fix["applicability"] if fix else "no fix",
                "edits": [[each["location"], each["content"]] for each in fix["edits"]]
                if fix
                else [],
            },
        )


def changed(old: Findings, new: Findings) -> dict[Place, str]:
    """Return what is another of findings that both have, in words."""
    found = {}
    for place in old.keys() & new.keys():
        one, other = old[place], new[place]
        words = [
            f"{one[key]} -> {other[key]}"
            for key in ("severity", "safety")
            if one[key] != other[key]
        ]
        if not words and one["edits"] != other["edits"]:
            words = ["other edits"]
        if words:
            found[place] = ", ".join(words)
    return found


def table(old: Findings, new: Findings) -> Iterator[str]:
    """Yield a row for each rule that differs, and one for all."""
    changes = changed(old, new)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for place in old.keys() | new.keys():
        went, came = place not in new, place not in old
        for row in (place[0], "all"):
            counts[row]["old"] += not came
            counts[row]["new"] += not went
            counts[row]["went"] += went
            counts[row]["came"] += came
            counts[row]["changed"] += place in changes
    columns = ("old", "new", "went", "came", "changed")
    yield f"{'rule':8}" + "".join(f"{name:>9}" for name in columns)
    for row in sorted(counts, key=lambda name: (name == "all", name)):
        count = counts[row]
        if row == "all" or count["went"] or count["came"] or count["changed"]:
            yield f"{row:8}" + "".join(f"{count[name]:9}" for name in columns)


def listing(
    old: Findings, new: Findings, changes: Mapping[Place, str], corpus: Path
) -> Iterator[str]:
    """Yield the differences by rule, each with its line of code."""
    places = sorted((old.keys() ^ new.keys()) | changes.keys())
    for place in places:
        sign = "~" if place in changes else "-" if place in old else "+"
        facts = new.get(place) or old[place]
        code, name, row, _ = place
        what = changes.get(place, f"{facts['severity']}, {facts['safety']}")
        yield f"{sign} {code:7} {name}:{row}  ({what})"
        yield f"      {_line(corpus / name, row)[:WIDTH]}"
        yield f"      {facts['message'][:WIDTH]}"


def _line(path: Path, row: int) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[row - 1].strip()
    except (OSError, IndexError):  # a notebook counts the rows of its cells
        return ""


if __name__ == "__main__":
    sys.exit(main())
