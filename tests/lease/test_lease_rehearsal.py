"""A rehearsal runs what travels, in an empty place, and nothing of it stays but OUT."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from lease_parts import marked, rehearsal
from lease_tools import ROOT, begin, named, wait_for

LEASE = [sys.executable, str(ROOT / "benchmarks" / "lease.py")]


def rehearse(out, *more: str) -> list[str]:
    return [*LEASE, "--out", str(out), "--rehearse", "--python", sys.executable, *more]


def test_it_runs_the_command_of_a_lease_on_the_pretended_gpu(tmp_path):
    words = rehearse(tmp_path, "--parts", "probe", "--seconds", "30")
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert json.loads((tmp_path / "fake-gpu.json").read_text())["probe"]
    assert "MiB travel" in run.stdout
    assert "this twin has what lease_packages.txt does not list: " in run.stdout
    assert "ruff" in run.stdout.partition("does not list: ")[2].partition("\n")[0].split(", ")


def test_the_twin_has_the_checkout_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv(marked.VARIABLE, "mark/")
    monkeypatch.setenv("OF_THIS_MACHINE", "1")
    twin = rehearsal.twin_of(tmp_path, sys.executable)
    names = twin.asked("import os; print(*os.environ)").split()
    assert "OF_THIS_MACHINE" not in names
    assert not list((tmp_path / "home").iterdir())
    assert (twin.tree / "benchmarks" / "lease.py").is_file()
    assert not list(twin.tree.rglob("__pycache__"))
    assert not (twin.tree / ".git").exists()


def test_public_scripts_are_those_that_travel(tmp_path):
    twin = rehearsal.Twin(tmp_path, sys.executable, {})
    (tmp_path / "carry" / "public").mkdir(parents=True)
    known = rehearsal.ROOT / "carry" / "public"
    assert rehearsal.in_twin(twin, known) == tmp_path / "carry" / "public"
    for other in (tmp_path, rehearsal.ROOT / "elsewhere"):
        with pytest.raises(rehearsal.RehearsalError, match="does not travel; put what is in it"):
            rehearsal.in_twin(twin, other)


def test_sigkill_of_a_rehearsal_leaves_no_process_and_no_copy(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    words = rehearse(tmp_path / "out", "--parts", "probe,tests", "--seconds", "60")
    with begin(words, env={**os.environ, "TMPDIR": str(place)}) as process:
        wait_for((tmp_path / "out" / "log.txt").is_file)
        wait_for(lambda: named(str(place)))
        process.kill()
        process.communicate(timeout=30)
    wait_for(lambda: not named(str(place)))
    wait_for(lambda: not list(place.iterdir()))


@pytest.mark.parametrize("python", ["no-such-python", "/bin/false"])
def test_without_a_twin_it_says_how_to_make_one(tmp_path, python):
    words = [*LEASE, "--out", str(tmp_path), "--rehearse", "--python", python]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "make one: python3.12 -m venv TWIN" in run.stderr
