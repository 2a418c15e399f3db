"""`torchlint verify`: options to a session, its report to files and the terminal, the exit code."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.check import command_line
from torchlint.errors import UsageError
from torchlint.report.paint import is_colored, paint
from torchlint.verify.executor import ProjectExecutor
from torchlint.verify.model import Verdict
from torchlint.verify.plan import Fixer, Request, apply, command_of
from torchlint.verify.report import html, json, markdown, table
from torchlint.verify.report.progress import watching
from torchlint.verify.session import Limits, Session
from torchlint.verify.steptimes import NEEDED
from torchlint.verify.verification import verification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchlint.verify.model import Command, Configuration, Report

DONE, SLOWER, INTERRUPTED = 0, 1, 130
FORMATS: dict[str, Callable[[Report], str]] = {
    "json": json.render,
    "html": html.render,
    "markdown": markdown.render,
}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def verify(words: Sequence[str], options: Mapping[str, Any]) -> int:
    """Verify the fixes of a script's project as the command line says; return the exit code."""
    working, started = Path.cwd(), time.monotonic()
    limits = _limits(options)
    command = command_of(_request(words, options), working)
    layer, pinned = command_line({**options, "exclude": ()}, working)
    fixer = Fixer(command, layer.values, pinned, options["isolated"], _complain)
    singles = fixer.singles()
    if not singles:
        print("Nothing to verify: none of the selected rules has a fix for this project.")
        return DONE
    left = max(limits.seconds - (time.monotonic() - started), 1.0)
    try:
        report = _measured(command, fixer, singles, replace(limits, seconds=left), options)
    except KeyboardInterrupt:
        print("interrupted in the first run: nothing is known yet", file=sys.stderr)
        return INTERRUPTED
    _write(report, options)
    return _finish(report, fixer, options)


def _measured(
    command: Command,
    fixer: Fixer,
    singles: Sequence[Configuration],
    limits: Limits,
    options: Mapping[str, Any],
) -> Report:
    """Run what has to be run; nothing of it is left afterwards, whatever happens."""
    with (
        watching(sys.stderr, quiet=options["quiet"]) as tell,
        ProjectExecutor(
            command,
            environment=_environment(options["device"]),
            exclude=[part for each in options["exclude"] for part in each.split(",") if part],
        ) as executor,
    ):
        session = Session(
            executor,
            fixer,
            limits,
            tell,
            mode=options["mode"],
            keep_going=options["keep_going"],
            tree=command.root if executor.way == "copy" else None,
        )
        return verification(session, singles)


def _write(report: Report, options: Mapping[str, Any]) -> None:
    """Print the report, and write it to the files that are asked for."""
    width = shutil.get_terminal_size((100, 24)).columns
    sys.stdout.writelines(paint(table.lines(report, width), color=is_colored(options["color"])))
    for name, render in FORMATS.items():
        if file := options[name]:
            write_file(file, render(report))


def write_file(file: Path, text: str) -> None:
    """Write a report.

    Raises:
        UsageError: the file cannot be written.

    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; name a file that can be written") from None


def _request(words: Sequence[str], options: Mapping[str, Any]) -> Request:
    return Request(
        words=tuple(words),
        module=options["module"],
        python=options["python"],
        launcher=tuple(shlex.split(options["launcher"] or "")),
        root=options["root"],
    )


def _limits(options: Mapping[str, Any]) -> Limits:
    fewest, most = pairs(options["pairs"])
    if (options["steps"] or NEEDED) < NEEDED:
        raise UsageError(f"--steps takes at least {NEEDED}: the first ones are not timed")
    return Limits(seconds(options["time_budget"]), fewest, most, options["steps"])


def seconds(text: str) -> float:
    """Return a length of time: a number of seconds, or one with its unit (`90s`, `10m`, `1h`).

    Raises:
        UsageError: it is no such thing.

    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    with contextlib.suppress(ValueError):
        if (value := float(number) * UNITS[unit]) > 0:
            return value
    raise UsageError(f"--time-budget takes a length of time such as 90s, 10m or 1h, not `{text}`")


def pairs(text: str) -> tuple[int, int]:
    """Return the fewest and the most pairs of runs: `3..40`, or one number for both.

    Raises:
        UsageError: it is no such thing; an interval needs three pairs.

    """
    low, dots, high = text.partition("..")
    with contextlib.suppress(ValueError):
        fewest, most = int(low), int(high if dots else low)
        if 3 <= fewest <= most:
            return fewest, most
    raise UsageError(
        f"--pairs takes a number or a range of at least 3, such as 3..40, not `{text}`"
    )


def _environment(device: str) -> dict[str, str]:
    """Return the script's environment: on a CPU it sees no GPU; sets have one order in all runs."""
    environment = {"PYTHONHASHSEED": "0", **os.environ}
    return environment | ({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})


def _finish(report: Report, fixer: Fixer, options: Mapping[str, Any]) -> int:
    """Apply what is to be applied, and return the exit code."""
    if options["apply"] and report.kept and not report.interrupted:
        kept = fixer.with_codes(report.kept)
        apply(kept, fixer.command.root, fixer.originals)
        changed = ", ".join(sorted(kept.files))
        print(f"Applied {', '.join(report.kept)} to {changed}.")
    if report.interrupted:
        return INTERRUPTED
    return SLOWER if is_slower(report, options["fail_if_slower"]) else DONE


def is_slower(report: Report, percent: float | None) -> bool:
    """Whether some fix, or the kept ones together, are certainly slower by more than this."""
    if percent is None:
        return False
    results = (*report.singles, report.together, report.kept_result)
    return any(
        result.verdict is Verdict.SLOWER
        and result.judgement is not None
        and result.judgement.interval is not None
        and result.judgement.interval.high < 1 / (1 + percent / 100)
        for result in results
        if result is not None
    )


def _complain(problem: str) -> None:
    print(f"error: {problem}", file=sys.stderr)
