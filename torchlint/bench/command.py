"""`torchlint bench`: options to measurements, the report, the exit code."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from torchlint.bench.model import BenchReport
from torchlint.bench.plan import rows, version
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
    report = measured(asked, options, limit)
    width = shutil.get_terminal_size((140, 24)).columns
    sys.stdout.writelines(paint(table.lines(report, width), color=is_colored(options["color"])))
    for name, render in FORMATS.items():
        if file := options[name]:
            write_file(file, render(report))
    if report.interrupted:
        return INTERRUPTED
    return WRONG if any(one.is_wrong for one in report.rows) else DONE


def measured(asked: Sequence[str], options: Mapping[str, Any], limit: float) -> BenchReport:
    """Run what is to be run, and return what it gave.

    Raises:
        UsageError: none of the rules has something to measure.

    """
    started = time.monotonic()
    device = options["device"]
    with watching(sys.stderr, quiet=options["quiet"], doing="measuring: launch") as tell:
        environment = {"PYTHONHASHSEED": "0", **os.environ}
        if device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        python = options["python"] or default_python()
        runner = Bench(python, device, environment, limit, tell)
        machine = runner.probe()
        if device == "auto":
            runner.device = "cpu" if machine.is_cpu else "cuda"
        wanted = rows(asked, version(machine.torch), cuda=runner.device == "cuda")
        if not wanted:
            raise UsageError(
                f"nothing to measure: no benchmark for {', '.join(asked) or 'any rule'}"
            )
        found = runner.measure(wanted)
    assert runner.machine is not None
    return BenchReport(
        machine=runner.machine,
        rows=tuple(found),
        launches=runner.launches,
        seconds=time.monotonic() - started,
        interrupted=runner.interrupted,
        confidence=statistics.CONFIDENCE,
        margin=statistics.MARGIN - 1,
    )
