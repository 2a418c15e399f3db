"""Outcomes of tests are written at once, and one that ends its process costs only itself."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from lease_tools import ROOT, Run, begin, entries, finished, wait_for, words_of

if TYPE_CHECKING:
    from pathlib import Path

PYTEST = """
import os, sys
sys.path.insert(0, {plugin!r})
os.environ["PYTHONPATH"] = {plugin!r}
words = [sys.executable, "-m", "pytest", "-c", {settings!r}, {tests!r}, "--rootdir", {folder!r}]
words += ["-p", "lease_pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", *{more!r}]
os.execv(sys.executable, words)
"""


def words(tmp_path: Path, text: str, patience: float = 60, more: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a run with a file of tests."""
    out, tests, settings = tmp_path / "out", tmp_path / "test_these.py", tmp_path / "none.ini"
    out.mkdir()
    tests.write_text(text)
    settings.write_text(
        f"[pytest]\nfaulthandler_timeout = {patience}\nfaulthandler_exit_on_timeout = true\n"
    )
    plugin = str(ROOT / "benchmarks" / "lease_parts" / "plugin")
    script = PYTEST.format(
        plugin=plugin, tests=str(tests), folder=str(tmp_path), settings=str(settings), more=more
    )
    scripts = {"tests": script, "rules": "print('it ran')"}
    return words_of(out, scripts, 60, log="tests.jsonl", again=True)


def run(tmp_path: Path, text: str, patience: float = 60, more: tuple[str, ...] = ()) -> Run:
    return finished(tmp_path / "out", begin(words(tmp_path, text, patience, more)))


def outcomes(found) -> dict[str, str]:
    told = entries(found.out / "tests.jsonl")
    return {
        one["test"].partition("::")[2]: one["what"]
        for one in told
        if one["what"] not in ("begun", "collected")
    }


def test_each_outcome_is_written_with_its_traceback(tmp_path):
    found = run(
        tmp_path,
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad():\n    number = 5\n    assert number == 6\n"
        "@pytest.fixture\ndef broken(): raise ValueError('no fixture')\n"
        "def test_error(broken): pass\n"
        "def test_skipped(): pytest.skip('why not')\n",
    )
    assert outcomes(found) == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_error": "error",
        "test_skipped": "skipped",
    }
    assert "assert number == 6" in found.text("failures.txt")
    assert "no fixture" in found.text("failures.txt")
    assert "tests: 1 passed, 1 failed, 1 error, 1 skipped" in found.text("summary.txt")
    assert "test_bad: failed: assert 5 == 6" in found.text("summary.txt")
    assert "it ran" in found.text("log.txt")


def test_a_test_that_ends_its_process_costs_only_itself(tmp_path):
    found = run(
        tmp_path,
        "import os, signal\n"
        "def test_first(): pass\n"
        "def test_dies(): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def test_exits(): os._exit(7)\n"
        "def test_last(): pass\n",
    )
    assert outcomes(found) == {"test_first": "passed", "test_last": "passed"}
    assert "test_dies: it died of SIGSEGV" in found.text("failures.txt")
    assert "test_exits: it ended with exit code 7" in found.text("failures.txt")
    assert "in test_dies" in found.text("failures.txt")  # its stack
    assert found.code == 3


HANGS = """
import time
def test_good(): pass
def test_hangs():
    time.sleep(600)
def test_last(): pass
"""


def test_a_test_that_hangs_costs_only_itself(tmp_path):
    found = run(tmp_path, HANGS, patience=1)
    assert outcomes(found) == {"test_good": "passed", "test_last": "passed"}
    assert "test_hangs: it hung" in found.text("failures.txt")
    assert found.code == 3
    assert "in test_hangs" in found.text("failures.txt")


def test_a_test_that_runs_when_all_has_to_end_leaves_its_stack(tmp_path):
    process = begin(words(tmp_path, HANGS))
    told = tmp_path / "out" / "tests.jsonl"
    wait_for(lambda: told.is_file() and "test_hangs" in told.read_text())
    process.terminate()
    found = finished(tmp_path / "out", process)
    assert outcomes(found) == {"test_good": "passed"}
    assert "in test_hangs" in found.text("failures.txt")
    assert "test_hangs: the run was ended by SIGTERM" in found.text("failures.txt")


def test_a_file_that_cannot_be_imported_is_told(tmp_path):
    found = run(tmp_path, "import no_such_module\n")
    assert "No module named 'no_such_module'" in found.text("failures.txt")
    assert found.code == 3


def test_where_no_test_is_left_or_none_is_meant_all_is_done(tmp_path):
    found = run(tmp_path, "", more=("-m", "no_such_mark"))
    assert "tests: done" in found.text("summary.txt")
    assert found.code == 0


def test_tests_that_had_no_turn_are_counted(tmp_path):
    process = begin(words(tmp_path, HANGS))
    told = tmp_path / "out" / "tests.jsonl"
    wait_for(lambda: told.is_file() and "test_hangs" in told.read_text())
    process.terminate()
    assert "1 passed, 2 not run" in finished(tmp_path / "out", process).text("summary.txt")


def test_tests_of_another_process_are_not_taken_for_its_own(tmp_path):
    command = words(tmp_path, "def test_it(): pass\n")
    begun = {
        "time": time.time() + 600,
        "job": "other",
        "what": "begun",
        "test": "test_these.py::test_it",
    }
    (tmp_path / "out" / "tests.jsonl").write_text(json.dumps(begun) + "\n")
    summary = finished(tmp_path / "out", begin(command)).text("summary.txt")
    assert "tests: 1 passed\n" in summary
