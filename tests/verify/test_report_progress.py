"""The line that says what goes on."""

from __future__ import annotations

import io
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from torchlint.report.progress import CLEAR
from torchlint.verify.report.progress import line, watching

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_what_runs_and_how_long() -> None:
    assert line("TL901 detect-anomaly-on", 7, 24, 130.0) == (
        "verifying: run 7 of about 24, 2 min 10 s left: TL901 detect-anomaly-on"
    )
    assert line("pilot", 1, 1, None) == "verifying: run 1 of about 1: pilot"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_is_quiet(stream: io.StringIO) -> None:
    with watching(stream, quiet=True) as tell:
        tell("before", 1, 9, 60.0)
    assert stream.getvalue() == ""


def test_a_log_has_a_line_for_each_phase_and_one_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    with watching(stream) as tell:
        for at, phase in enumerate(["pilot"] * 2 + ["trace"] * 2 + ["timing"] * 9):
            tell(f"{phase}, TL901", at, 30, 400 - 20.0 * at)
            now += 20
    assert stream.getvalue().splitlines() == [
        "verifying: run 0 of about 30, 6 min 40 s left: pilot, TL901",
        "verifying: run 2 of about 30, 6 min 0 s left: trace, TL901",
        "verifying: run 4 of about 30, 5 min 20 s left: timing, TL901",
        "verifying: run 7 of about 30, 4 min 20 s left: timing, TL901",
        "verifying: run 10 of about 30, 3 min 20 s left: timing, TL901",
    ]


def test_a_line_of_a_log_is_there_at_once(tmp_path: Path) -> None:
    with (
        (tmp_path / "log").open("w") as stream,
        watching(stream, doing="measuring: launch") as tell,
    ):
        tell("TL901/small", 1, 9, None)
        said = (tmp_path / "log").read_text()
    assert said == "measuring: launch 1 of about 9: TL901/small\n"


def test_the_line_is_wiped_whatever_ends_it() -> None:
    stream = Terminal()

    def interrupt() -> None:
        with watching(stream) as tell:
            tell("before", 1, 9, 60.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert stream.getvalue() == f"{CLEAR}verifying: run 1 of about 9, 1 min 0 s left: before{CLEAR}"


def test_a_narrow_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 9)))
    stream = Terminal()
    with watching(stream) as tell:
        tell("before", 1, 9, 60.0)
    shown = stream.getvalue().removeprefix(CLEAR).removesuffix(CLEAR)
    assert shown == "verifying: run 1 o…"
