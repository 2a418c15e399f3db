"""What is run of a whole script, in which order, and what is known of it at each moment."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import evidence
import pytest
from one_script import ALL, SAFE, Work, is_alone, key_of, working
from whole_scripts import Script

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.model import Command, Configuration, Ending, Phase, Record, Run, Trace
from torchlint.verify.session import Limits, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from torchlint.verify.model import Bounds

FILE = "train.py"
STEP = 0.01  # seconds, as it is
FAST, SAME, MEANT, GPU_ONLY = "TL901", "TL602", "TL503", "TL201"
SAFE_CODES = {FAST}
MORE = {"allocated": 900, "reserved": 900}  # of a warm-up, or where another run is on the GPU


@dataclass
class Runs:
    """Runs that are made up: ``factors`` multiply the step time, what ``breaks`` says fails."""

    factors: dict[str, float] = field(default_factory=lambda: {FAST: 0.5})
    breaks: Callable[[frozenset[str]], bool] = lambda _: False
    noise: float = 0.001
    stop_after: int | None = None
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def run(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        self.log.append(f"{phase.value} {configuration.name}")
        return self._made(configuration, phase, bounds)

    def lockstep(
        self, first: Configuration, second: Configuration, bounds: Bounds
    ) -> tuple[Run, Run]:
        self.log.append(f"pair {second.name}")
        return self._made(first, Phase.TIMING, bounds), self._made(second, Phase.TIMING, bounds)

    def _made(self, configuration: Configuration, phase: Phase, bounds: Bounds) -> Run:
        if self.stop_after is not None and len(self.log) > self.stop_after:
            raise KeyboardInterrupt
        self.seconds += 1
        if self.breaks(frozenset(configuration.codes)):
            return Run(configuration.name, phase, Ending.FAILED, 1, "no", 1.0, 1, ())
        step = STEP * self.rng.gauss(1, self.noise)
        for code in configuration.codes:
            step *= self.factors.get(code, 1.0)
        times = tuple(1.0 + step * k for k in range(bounds.steps))
        loss = 2.0 if MEANT in configuration.codes else 1.0
        trace = Trace((loss,) * 20, ("b",) * 20, "i", str(loss), (loss,), "r", ())
        timing = phase is Phase.TIMING
        record = Record(
            rank=0, world=1, ended="bound", device="Fake GPU", torch="2.13.0", steps=(times,),
            optimizers=("SGD",), backwards=times, waits=(), start=0.0, workers=0,
            turns=(step * 8,) * 6 if timing else (), reached={FILE: {1: 5}},
            modules=(f"/copy/{FILE}",), trace=None if timing else trace,
            memory={"allocated": 500, "reserved": 600} if phase is Phase.TRACE else MORE,
            busy=0.9 if timing else 0.3,
        )  # fmt: skip
        return Run(configuration.name, phase, Ending.BOUND, 0, "", 1.0, 1, (record,))


@dataclass
class Fixes:
    """Fixes by their codes alone."""

    command: Command

    def keep_to(self, names: Collection[str]) -> None:
        raise AssertionError(names)

    def before(self) -> Configuration:
        return Configuration("before", (), {}, {}, None, Level.E0)

    def with_codes(self, codes: Sequence[str], name: str = "") -> Configuration:
        key = tuple(sorted(codes))
        level = Level.E3 if MEANT in key else Level.E1
        safety = Safety.SAFE if set(key) <= SAFE_CODES else Safety.UNSAFE
        lines = {FILE: frozenset({1})}
        return Configuration(name or "+".join(key), key, {FILE: b""}, lines, safety, level)


@dataclass
class Kept:
    """What is stored, as the command does it."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)


@pytest.fixture
def measure(tmp_path: Path):
    """Measure a script with some fixes; return its runs and what was stored."""
    command = Command(tmp_path / "python", tmp_path / FILE, None, (), (), tmp_path, tmp_path)

    def measured(
        runs: Runs, *codes: str, seconds: float = 1e6, known: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        kept = Kept()
        fixes = Fixes(command)
        session = Session(
            runs,
            fixes,  # type: ignore[arg-type]
            Limits(seconds, 3, 15, None),
            lambda *_: None,
            clock=lambda: runs.seconds,
            rng=random.Random(1),  # noqa: S311
        )
        work = Work(session, {"key": "k", "origin": None}, "1.2", known or {}, kept)
        session.note = work.note
        try:
            work.run([fixes.with_codes((code,)) for code in codes])
        except KeyboardInterrupt:
            work.note("script", {})
        return kept.entries

    return measured


def test_all_together_is_timed_before_any_single_fix_is_traced(measure) -> None:
    runs = Runs()
    measure(runs, FAST, SAME)
    together = f"{SAME}+{FAST}"
    first = runs.log.index(f"pair {together}")
    single = runs.log.index(f"trace {FAST}")
    assert runs.log[:1] == ["pilot before"]
    assert f"trace {together}" in runs.log[:first]
    assert first < single
    # and a fix is timed before the next one is traced
    assert abs(runs.log.index(f"pair {SAME}") - runs.log.index(f"trace {SAME}")) == 1


def test_what_is_settled_is_done_and_says_what_it_gains(measure) -> None:
    last = measure(Runs(), FAST, SAME, MEANT, GPU_ONLY)[-1]
    assert last["status"] == "done"
    assert last["left"] == []
    assert last["rows"][ALL]["codes"] == [SAME, FAST]
    assert last["rows"][ALL]["verdict"] == "faster"
    assert last["rows"][SAFE]["codes"] == [FAST]
    assert last["fixes"][MEANT]["results"] == "diverged"  # as it is meant to be: it is not timed
    assert last["fixes"][MEANT]["samples"] == []
    assert last["unfit"] == {GPU_ONLY: "it acts on a GPU only"}
    assert GPU_ONLY not in last["fixes"]


def test_each_pair_is_stored_when_it_is_made(measure) -> None:
    entries = measure(Runs(), FAST)
    counts = [evidence.pairs_of(entry) for entry in entries]
    assert set(counts) >= {0, 1, 2, 3}
    assert all(entry["status"] == "partial" for entry in entries[:-1])
    samples = [row["samples"] for row in entries[-1]["rows"].values()]
    assert all(pair["when"] for pairs in samples for pair in pairs)


def test_an_end_in_the_middle_leaves_what_was_measured(measure) -> None:
    entries = measure(Runs(stop_after=6), FAST, SAME)
    last = entries[-1]
    assert last["status"] == "partial"
    assert ALL in last["left"]
    assert last["rows"][ALL]["samples"]


def test_a_later_run_adds_pairs_to_those_that_are_known(measure) -> None:
    before = measure(Runs(stop_after=6), FAST, SAME)[-1]
    runs = Runs()
    after = measure(runs, FAST, SAME, known=before)[-1]
    old, new = (entry["rows"][ALL]["samples"] for entry in (before, after))
    assert new[: len(old)] == old
    assert runs.log.count(f"pair {SAME}+{FAST}") == len(new) - len(old)
    again = Runs()
    measure(again, FAST, SAME, known=after)
    assert f"pair {SAME}+{FAST}" not in again.log  # it is settled


def test_pairs_that_were_taken_another_way_do_not_count(measure) -> None:
    before = measure(Runs(), FAST)[-1]
    for pair in before["rows"][ALL]["samples"]:
        pair["mode"] = "sequential"
    runs = Runs()
    measure(runs, FAST, known=before)
    assert runs.log.count(f"pair {FAST}") == 3


def test_a_fix_that_breaks_the_others_is_found_by_halves(measure) -> None:
    bad = "TL602"
    last = measure(Runs(breaks=lambda codes: bad in codes), FAST, bad, "TL601")[-1]
    assert last["rows"][ALL]["codes"] == ["TL601", FAST]
    assert last["rows"][ALL]["verdict"] == "faster"
    assert last["fixes"][bad]["verdict"] == "failed"


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ([], "abcdef"),
        (["c"], "abdef"),
        (["a", "f"], "bcde"),
        (["a", "b", "c", "d", "e", "f"], ""),
    ],
)
def test_what_works_together_is_found_with_few_tries(bad, found) -> None:
    tried = []

    def works(codes: tuple[str, ...]) -> bool:
        tried.append(codes)
        return not set(bad) & set(codes)

    assert "".join(working(tuple("abcdef"), works)) == found
    assert len(tried) == len(set(tried))


def test_two_that_work_only_alone_are_not_kept_together() -> None:
    assert working(("a", "b"), lambda codes: len(codes) == 1) == ("a",)


def test_noise_in_all_together_leaves_time_for_the_single_fixes(measure) -> None:
    runs = Runs(noise=0.05, factors={})
    measure(runs, FAST, SAME, "TL601", seconds=40)
    pairs = [name for name in runs.log if name.startswith("pair") and name != "pair before"]
    assert pairs[:3] == [f"pair TL601+{SAME}+{FAST}"] * 3
    assert {f"pair {code}" for code in (FAST, SAME, "TL601")} <= set(pairs)


def test_memory_and_busy_share_are_of_runs_that_are_alone(measure) -> None:
    rows = measure(Runs(), FAST)[-1]["rows"]
    for name in ("before", ALL):
        row = rows[name]
        assert (row["allocated"], row["reserved"], row["busy"]) == (500, 600, 0.3)
    failed = Run("x", Phase.TRACE, Ending.FAILED, 1, "", 1.0, 1, ())
    assert not is_alone(failed)


def test_the_driver_is_asked_for_where_torch_knows_none(measure) -> None:
    assert measure(Runs(), FAST)[-1]["machine"]["driver"] == "1.2"


def test_the_key_is_of_the_script_its_fixes_torch_and_the_device(tmp_path) -> None:
    file = tmp_path / FILE
    file.write_text("x = 1\n")
    script = Script("train", tmp_path, (FILE,), (FILE, "--steps", "9"))
    fixed = [Configuration("TL1", ("TL1",), {FILE: b"x = 2\n"}, {}, None, Level.E0)]
    other = [Configuration("TL1", ("TL1",), {FILE: b"x = 3\n"}, {}, None, Level.E0)]
    key = key_of(script, fixed, "2.13", "H200")
    assert key == key_of(script, fixed, "2.13", "H200")
    changed = Script("train", tmp_path, (FILE,), (FILE, "--steps", "8"))
    stood_in = Script("train", tmp_path, (FILE,), script.words, stand_ins={"a.py": "b"})
    assert key not in {
        key_of(script, other, "2.13", "H200"),
        key_of(script, fixed, "2.14", "H200"),
        key_of(script, fixed, "2.13", "H100"),
        key_of(changed, fixed, "2.13", "H200"),
        key_of(stood_in, fixed, "2.13", "H200"),
    }
    file.write_text("x = 4\n")
    assert key != key_of(script, fixed, "2.13", "H200")
