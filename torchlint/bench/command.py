"""`torchlint bench`: options to measurements, the report, the exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from torchlint.bench.model import BenchReport, Measured
from torchlint.bench.plan import rows, version
from torchlint.bench.process import Server, connect
from torchlint.bench.report import html, json, table
from torchlint.bench.runner import Bench
from torchlint.errors import UsageError
from torchlint.registry import find
from torchlint.report.paint import is_colored, paint
from torchlint.rule import rule_code
from torchlint.verify import statistics
from torchlint.verify.command import seconds, write_file
from torchlint.verify.plan import default_python
from torchlint.verify.report.progress import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchlint.bench.model import Row
    from torchlint.verify.model import Machine

RESERVE = 2.0  # seconds of the time budget for what comes before and after measuring
DONE, WRONG, INTERRUPTED, TERMINATED = 0, 1, 130, 143
FORMATS: dict[str, Callable[[BenchReport], str]] = {"json": json.render, "html": html.render}


def bench(codes: Sequence[str], options: Mapping[str, Any]) -> int:
    """Measure the rules that are asked for, and return the exit code."""
    limit = seconds(options["time_budget"])
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # leave nothing behind
    try:
        return _bench(codes, options, limit)
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _bench(codes: Sequence[str], options: Mapping[str, Any], limit: float) -> int:
    asked = [rule_code(find(code).code) for code in codes]
    report = measured(asked, options, limit, Keeper())
    width = shutil.get_terminal_size((140, 24)).columns
    sys.stdout.writelines(paint(table.lines(report, width), color=is_colored(options["color"])))
    for name, render in FORMATS.items():
        if file := options[name]:
            write_file(file, render(report))
    if report.interrupted:
        return INTERRUPTED
    return WRONG if any(one.is_wrong for one in report.rows) else DONE


class Keeper:
    """Remembers nothing of earlier runs, and keeps nothing of this one; others may."""

    def recalled(self, rows: Sequence[Row], machine: Machine) -> list[Measured]:
        """Return rows with what is known of them."""
        del machine
        return [Measured(row) for row in rows]

    def heard(self, what: str, one: Measured, why: str) -> None:
        """Take notice of what happened to a row."""


def measured(
    asked: Sequence[str], options: Mapping[str, Any], limit: float, keeper: Keeper
) -> BenchReport:
    """Run what is to be run, and return what it gave; it ends within the limit, in seconds.

    Raises:
        UsageError: none of the rules has something to measure.

    """
    started = time.monotonic()
    environment = {"PYTHONHASHSEED": "0", **os.environ}
    if options["device"] == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    begin = partial(Server, options["python"] or default_python(), environment)
    with (
        watching(sys.stderr, quiet=options["quiet"], doing="measuring: launch") as tell,
        contextlib.ExitStack() as cleaning,
    ):
        server, machine, start = connect(begin, options["device"])
        cleaning.callback(server.close)
        wanted = rows(asked, version(machine.torch), gpus=machine.gpus, quick=options["quick"])
        if not wanted:
            raise UsageError(
                f"nothing to measure: no benchmark for {', '.join(asked) or 'any rule'}"
            )
        known = keeper.recalled(wanted, machine)
        device = "cpu" if machine.is_cpu else "cuda"
        runner = Bench(start, device, started + limit - RESERVE, tell, keeper.heard, server=server)
        runner.measure(known)
    return BenchReport(
        machine=machine,
        rows=tuple(known),
        launches=runner.launches,
        seconds=time.monotonic() - started,
        interrupted=runner.interrupted,
        confidence=statistics.CONFIDENCE,
        margin=statistics.MARGIN - 1,
    )
