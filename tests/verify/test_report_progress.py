"""The line that says what goes on."""

from __future__ import annotations

import io
import os
import shutil

import pytest

from torchlint.report.progress import CLEAR
from torchlint.verify.report.progress import line, watching


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_what_runs_and_how_long() -> None:
    assert line("TL901 detect-anomaly-on", 7, 24, 130.0) == (
        "verifying: run 7 of 24, 2 min 10 s left: TL901 detect-anomaly-on"
    )
    assert line("pilot", 1, 1, None) == "verifying: run 1 of 1: pilot"


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_a_pipe_and_quiet_see_nothing(stream: io.StringIO, quiet: bool) -> None:
    with watching(stream, quiet=quiet) as tell:
        tell("before", 1, 9, 60.0)
    assert stream.getvalue() == ""


def test_the_line_is_wiped_whatever_ends_it() -> None:
    stream = Terminal()

    def interrupt() -> None:
        with watching(stream) as tell:
            tell("before", 1, 9, 60.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert stream.getvalue() == f"{CLEAR}verifying: run 1 of 9, 1 min 0 s left: before{CLEAR}"


def test_a_narrow_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 9)))
    stream = Terminal()
    with watching(stream) as tell:
        tell("before", 1, 9, 60.0)
    shown = stream.getvalue().removeprefix(CLEAR).removesuffix(CLEAR)
    assert shown == "verifying: run 1 o…"
