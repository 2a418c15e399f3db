"""Draw findings at random, for readers who judge each by its file alone.

    python benchmarks/draw_findings.py CORPUS [--seed N] [--number N] [--findings FILE]

CORPUS is a folder of repositories, each of which is checked as a project of its own; FILE holds
findings that `compare_findings.py --save` kept.  As many warnings as infos are drawn, all by one
seed that was written down (`data/blind_reading.json`) before any of the files was checked.  What is
printed names place, severity and message of each, in an order that is drawn as well.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare_findings import Findings, findings

ROOT = Path(__file__).resolve().parent.parent
WRITTEN_DOWN = Path(__file__).resolve().parent / "data" / "blind_reading.json"


def main() -> int:
    """Draw, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    written = json.loads(WRITTEN_DOWN.read_text(encoding="utf-8"))
    parser.add_argument("--seed", type=int, default=written["seed"], help="[%(default)s]")
    parser.add_argument("--number", type=int, default=60, help="of warnings, and of infos [60]")
    parser.add_argument("--findings", type=Path, metavar="FILE", help="instead of checking anew")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="repositories at once [2]")
    given = parser.parse_args()
    found = findings(given.findings or ROOT, given.corpus, given.jobs)
    for number, (place, facts) in enumerate(drawn(found, given.seed, given.number), 1):
        code, name, row, column = place
        print(f"{number:3} {name}:{row}:{column} {facts['severity']} {code} {facts['message']}")
    return 0


def drawn(found: Findings, seed: int, number: int) -> list[tuple[tuple[str, str, int, int], dict]]:
    """Return as many warnings as infos, shuffled; all of a kind that has fewer."""
    chance = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    chosen = []
    for severity in ("warning", "info"):
        places = sorted(place for place, facts in found.items() if facts["severity"] == severity)
        chosen += chance.sample(places, min(number, len(places)))
    chance.shuffle(chosen)
    return [(place, found[place]) for place in chosen]


if __name__ == "__main__":
    sys.exit(main())
