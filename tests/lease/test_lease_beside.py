"""Commands of one part that run beside each other cost each other nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lease_tools import lease

if TYPE_CHECKING:
    from pathlib import Path


def meets(tmp_path: Path, mine: str, other: str, then: str) -> str:
    """Return a script that goes on once another one runs as well."""
    return (
        f"import pathlib, time\nfolder = pathlib.Path({str(tmp_path)!r})\n"
        f"(folder / {mine!r}).touch()\n"
        f"while not (folder / {other!r}).exists(): time.sleep(0.01)\n{then}"
    )


def test_they_run_at_once_and_one_that_fails_costs_only_itself(tmp_path):
    some = {
        "rules one": meets(tmp_path, "one", "two", "print('first ' + 'ran')"),
        "rules two": meets(tmp_path, "two", "one", "raise ValueError('second')"),
    }
    run = lease(tmp_path / "out", {"rules": some, "scripts": "print('it ran')"})
    assert run.code == 3
    assert "first ran" in run.text("log.txt")
    assert "rules one: done" in run.text("summary.txt")
    assert "rules two: something failed" in run.text("summary.txt")
    assert "it ran" in run.text("log.txt")


def test_each_ends_only_what_it_started_itself(tmp_path):
    longer = meets(tmp_path, "one", "two", "time.sleep(1); print('ended by ' + 'itself')")
    run = lease(
        tmp_path / "out", {"rules": {"one": longer, "two": meets(tmp_path, "two", "one", "1/0")}}
    )
    assert "ended by itself" in run.text("log.txt")
    assert "one: done" in run.text("summary.txt")


def test_stacks_that_are_written_at_once_are_told_apart(tmp_path):
    names = ("one", "two")
    slowly = "for line in {!r}: print(line, flush=True); time.sleep(0.05)"
    lines = {
        name: ["Traceback (most recent call last):", f"  in {name}", f"Error: {name}", "no stack"]
        for name in names
    }
    some = {
        mine: meets(tmp_path, mine, other, slowly.format(lines[mine]))
        for mine, other in (names, names[::-1])
    }
    failures = lease(tmp_path / "out", {"rules": some}).text("failures.txt").splitlines()
    assert sorted(failures) == sorted(line for each in lines.values() for line in each[:3])


def test_each_hears_of_its_own_tests_only(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    log = out / "tests.jsonl"

    def tells(mine, other, *events):
        texts = "".join(json.dumps(event) + "\n" for event in events)
        say = f"open({str(log)!r}, 'a').write({texts!r}); time.sleep(0.3)"
        return meets(tmp_path, mine, other, say)

    begun = {"job": "tests one", "what": "begun", "test": "it dies"}
    passed = {"job": "tests two", "what": "passed", "test": "it passes"}
    some = {
        "tests one": tells("one", "two", begun) + "; import os; os._exit(9)",
        "tests two": tells("two", "one", passed),
    }
    summary = lease(out, {"tests": some}, log="tests.jsonl").text("summary.txt")
    assert summary.count("it dies: it ended with exit code 9") == 1
    assert "tests: 1 passed" in summary
    assert "tests two: done" in summary


def test_what_is_done_is_not_begun_again(tmp_path):
    parts = {
        "rules": {"rules": "print('rules ' + 'ran')"},
        "scripts": {"scripts": "import sys; print('scripts ' + 'ran'); sys.exit(3)"},
        "more": {
            "rules": "print('rules ' + 'again')",
            "scripts": "print('scripts ' + 'again')",
        },
    }
    run = lease(tmp_path, parts)
    assert "rules ran" in run.text("log.txt")
    assert "rules again" not in run.text("log.txt")
    assert "scripts again: done" in run.text("summary.txt")
    assert run.code == 0
