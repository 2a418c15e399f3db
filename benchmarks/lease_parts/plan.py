"""What a run does, part by part, and how its time is shared out."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
# seconds of a long run and of a short one; other lengths in proportion
LONG = {"probe": 20, "tests": 110, "rules": 200, "scripts": 150, "more": 40, "summary": 20}
SHORT = {"probe": 8, "tests": 18, "rules": 62, "scripts": 27, "more": 0, "summary": 5}
SHORT_BELOW = 200
TESTS_OF_A_GPU, TESTS_OF_THE_PRETENCE = "gpu and not slow", "not gpu and not slow"
QUICK, SMALL = ("--quick",), ("--scripts", "curve_fit")  # others take minutes on a CPU
AGAIN = "more"  # the part that goes on with what others left
SLOW_TESTS = "gpu and slow"
TESTS_AT_ONCE = 6  # processes of tests
THREADS = 4  # of the rules; the scripts have as many as they like
LATEST = 3.0  # seconds before its limit that a command is told to end


@dataclass(frozen=True, slots=True)
class Job:
    """A command of a part; ``{budget}`` in its words is the seconds until its end.

    ``{patience}`` is how long one test may take.
    """

    name: str
    words: tuple[str, ...]
    log: str = ""  # the file that it appends lines of JSON to
    threads: int | None = None
    again: bool = False  # it goes on behind what it was at when it crashed
    pretends: bool = True  # in a rehearsal it is started on the pretended GPU


@dataclass(frozen=True, slots=True)
class Part:
    """Commands that share a piece of the time."""

    name: str
    jobs: tuple[Job, ...]
    at_once: int = 1  # commands that run beside each other
    least: float = 4.0  # seconds with which a job is still begun


def shares(names: Sequence[str], seconds: float) -> dict[str, float]:
    """Return the seconds of each part, and of the summary."""
    table: dict[str, float] = dict(SHORT if seconds < SHORT_BELOW else LONG)
    whole: float = sum(table.values())
    if seconds > whole and "more" in names:
        table = {**table, "more": table["more"] + seconds - whole}
        whole = seconds
    summary = min(table["summary"] * seconds / whole, LONG["summary"])
    chosen = sum(table[name] for name in names) or 1
    return {
        **{name: table[name] * (seconds - summary) / chosen for name in names},
        "summary": summary,
    }


def table(out: Path, public: Path | None, *, rehearsal: bool) -> tuple[Part, ...]:
    """Return the parts of a lease, or of a rehearsal, which has to do with a CPU."""
    more: tuple[Job, ...]
    at_once = min(TESTS_AT_ONCE, len(os.sched_getaffinity(0)) // 2)
    if rehearsal:
        rules, scripts = _rules(out, 1, QUICK), _scripts(out, public, 1, SMALL)
        tests, more = _tests(TESTS_OF_THE_PRETENCE, at_once), (rules, scripts)
    else:
        rules, scripts = _rules(out, THREADS, ()), _scripts(out, public, None, ())
        tests, slow = _tests(TESTS_OF_A_GPU, at_once), _test("slow tests", SLOW_TESTS, "tests/gpu")
        more = (rules, scripts, slow)
    return (
        Part("probe", (_probe(out),)),
        Part("tests", tests, at_once=max(1, at_once)),
        Part("rules", (rules,)),
        Part("scripts", (scripts,)),
        Part(AGAIN, more, least=8.0),
    )


def _probe(out: Path) -> Job:
    words = (sys.executable, str(BENCHMARKS / "lease_probe.py"), "--evidence", str(out))
    return Job("probe", (*words, "--time-budget", "{budget}"))


def _tests(which: str, at_once: int) -> tuple[Job, ...]:
    """Return the tests, a process for each file of them where some can run at once."""
    if at_once < 2:
        return (_test("tests", which, "tests/gpu"),)
    files = sorted((ROOT / "tests" / "gpu").glob("test_*.py"))
    return tuple(
        _test(f"tests {file.stem.removeprefix('test_')}", which, str(file.relative_to(ROOT)))
        for file in files
    )


def _test(name: str, which: str, place: str) -> Job:
    words = (sys.executable, "-m", "pytest", "-m", which, place, "-p", "lease_pytest")
    calm = ("--tb=long", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    patience = ("-o", "faulthandler_timeout={patience}")
    line = (*words, *calm, *patience)
    return Job(name, line, "tests.jsonl", threads=1, again=True, pretends=False)


def _rules(out: Path, threads: int, more: tuple[str, ...]) -> Job:
    words = (sys.executable, str(BENCHMARKS / "rules.py"), "--device", "cuda")
    return Job("rules", (*words, *_files(out, "rules.jsonl"), *more), "rules.jsonl", threads)


def _scripts(out: Path, public: Path | None, threads: int | None, more: tuple[str, ...]) -> Job:
    words = (sys.executable, str(BENCHMARKS / "gpu.py"), "--device", "cuda")
    more = (*more, "--public", str(public)) if public else more
    return Job("scripts", (*words, *_files(out, "runs.jsonl"), *more), "runs.jsonl", threads)


def _files(out: Path, log: str) -> tuple[str, ...]:
    known = ("--known", str(BENCHMARKS / "evidence"), "--evidence", str(out))
    return ("--time-budget", "{budget}s", *known, "--log", str(out / log))
