"""Measure what every rule's fix is worth on this machine, and add it to the evidence.

    python benchmarks/rules.py [--device auto|cpu|cuda] [--time-budget 10m]
                               [--known FOLDER] [--evidence FOLDER] [--log FILE] [--quick]

This is `torchlint bench` over all rules; ``<device>.json`` gets what it says under ``rules``, and
keeps what else it has.  It goes on from pairs of earlier runs in ``--known`` and ``--evidence``.
It writes after each pair, so that whatever ends it costs no pair.  `python tests/regenerate.py`
then writes the pages and the README.

Exit codes: 0 every row has a verdict, 3 some have none yet, 1 a row failed or changes results, or
the evidence could not be written, 2 the use is at fault.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "rules"), str(Path(__file__).parent)]

import evidence  # noqa: E402  found from here on

from torchlint.bench import kept  # noqa: E402
from torchlint.bench.command import TERMINATED, measured  # noqa: E402
from torchlint.bench.model import BenchReport  # noqa: E402
from torchlint.bench.report import table  # noqa: E402
from torchlint.bench.report.json import SCHEMA, content  # noqa: E402
from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.report.paint import paint  # noqa: E402
from torchlint.verify import statistics  # noqa: E402
from torchlint.verify.command import seconds  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.bench.model import Measured, Row
    from torchlint.verify.model import Machine

DONE, WRONG, USE, LEFT = 0, 1, 2, 3


class Keeper:
    """Goes on from earlier evidence, and writes what happens as it happens."""

    def __init__(self, known: Path, folder: Path, log: Path | None) -> None:
        self.known, self.folder = known, folder
        self.log = log.open("a", encoding="utf-8") if log else None
        self.started = time.monotonic()
        self.rows: list[Measured] = []
        self.trouble = ""

    def recalled(self, rows: Sequence[Row], machine: Machine) -> list[Measured]:
        """Return rows with their pairs of earlier runs."""
        self.machine = machine
        self.device = "CPU" if machine.is_cpu else machine.device
        places = {self.known.resolve(): None, self.folder.resolve(): None}
        entries = [
            entry
            for place in places
            for entry in evidence.of_device(place, self.device)[1].get("rules", {}).get("rows", ())
        ]
        self.rows = kept.recalled(rows, machine, entries)
        return self.rows

    def heard(self, what: str, one: Measured, why: str) -> None:
        """Write the evidence, then a line to the log and the terminal."""
        if what == "pair" or one.is_wrong:
            self.write()
        verdict = one.verdict.value
        ratio = [one.interval.low, one.interval.middle, one.interval.high] if one.interval else None
        self._log(
            what=what, row=one.row.key, why=why, pairs=len(one.pairs), verdict=verdict, ratio=ratio
        )
        if what != "left out" and not sys.stderr.isatty():
            parts = why.splitlines() or [f"{ratio[1]:.2f} x, {verdict}" if ratio else verdict]
            shown = parts[0 if what == "hung" else -1]
            count = f" {len(one.pairs)}" if what == "pair" else ""
            print(f"{one.row.key}: {what}{count}: {shown}", file=sys.stderr, flush=True)

    def write(self, report: BenchReport | None = None) -> None:
        """Add what is known to the evidence; a write that fails is told, and tried again later."""
        try:
            news = {"device": self.device, "schema": SCHEMA}
            news["rules"] = content(report or self._report())
            evidence.add(self.folder, self.device, news)
            self.trouble = ""
        except OSError as error:
            if not self.trouble:
                self._log(what="not written", why=str(error))
                print(f"the evidence is not written: {error}", file=sys.stderr, flush=True)
            self.trouble = str(error)

    def _report(self) -> BenchReport:
        return BenchReport(
            machine=self.machine,
            rows=tuple(self.rows),
            launches=sum(len(one.pairs) for one in self.rows),
            seconds=time.monotonic() - self.started,
            interrupted=True,
            confidence=statistics.CONFIDENCE,
            margin=statistics.MARGIN - 1,
        )

    def _log(self, **words: Any) -> None:
        if self.log is None:
            return
        try:
            self.log.write(json.dumps({"time": time.time(), **words}) + "\n")
            self.log.flush()
        except OSError as error:
            self.log = None
            print(f"the log is not written: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--time-budget", default="10m", metavar="TIME")
    add("--known", type=Path, default=evidence.FOLDER, metavar="FOLDER")
    add("--evidence", type=Path, default=evidence.FOLDER, metavar="FOLDER")
    add("--log", type=Path, metavar="FILE")
    add("--quick", action="store_true", help="the smallest programs, in short turns: to try it")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    options = {
        "device": given.device,
        "python": Path(sys.executable),
        "quiet": not sys.stderr.isatty(),  # each pair has a line of its own there
        "quick": given.quick,
    }
    try:
        keeper = Keeper(given.known, given.evidence, given.log)
        report = measured([], options, seconds(given.time_budget), keeper)
    except (TorchlintError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USE
    sys.stdout.writelines(paint(table.lines(report, 140), color=False))
    keeper.write(report)
    if keeper.trouble or any(one.is_wrong for one in report.rows):
        return WRONG
    return LEFT if any(one.is_open for one in report.rows) else DONE


if __name__ == "__main__":
    sys.exit(main())
