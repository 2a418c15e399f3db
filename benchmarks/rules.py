"""Measure what every rule's fix is worth on this machine, and write it down as evidence.

    python benchmarks/rules.py [--device auto|cpu|cuda] [--time-budget 10m]

This is `torchlint bench` over all rules; ``evidence/<device>.json`` gets what it says under
``rules``, and keeps what else it has.  `python tests/regenerate.py` then writes the pages and the
README.  Exits as `torchlint bench` does, and writes nothing unless it was measured to its end.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

import evidence  # noqa: E402  found from here on

from torchlint.bench.command import WRONG, measured  # noqa: E402
from torchlint.bench.report import table  # noqa: E402
from torchlint.bench.report.json import content  # noqa: E402
from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.report.paint import paint  # noqa: E402
from torchlint.verify.command import seconds  # noqa: E402


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--time-budget", default="10m", metavar="TIME")
    add("--evidence", type=Path, default=evidence.FOLDER, metavar="FOLDER")
    given = parser.parse_args()
    options = {"device": given.device, "python": Path(sys.executable), "quiet": False}
    try:
        report = measured([], options, seconds(given.time_budget))
    except TorchlintError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sys.stdout.writelines(paint(table.lines(report, 140), color=False))
    if report.interrupted or any(one.is_wrong for one in report.rows):
        print("nothing was written", file=sys.stderr)
        return WRONG
    device = "CPU" if report.machine.is_cpu else report.machine.device
    path, known = evidence.of_device(given.evidence, device)
    when = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    found = {**known, "rules when": when, "rules": content(report)}
    evidence.write(path, found)
    print(f"written to {path}; `python tests/regenerate.py` tells of it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
