"""The installed command: `main` as a process, without looking for garbage at the end."""

from __future__ import annotations

import gc

from torchlint import cli


def test_the_process_ends_with_the_code_of_main_and_leaves_its_objects_alone(monkeypatch):
    done = []
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: done.append(numbers))
    monkeypatch.setattr(cli, "main", lambda: done.append("main") or 2)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    assert cli.command() == 2
    assert done == [(100_000,), "main", "freeze"]
