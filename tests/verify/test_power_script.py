"""The study of false calls and power: it resumes, counts what came out, and keeps its file."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import random
import re
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest
from statistics_tools import record, run

from torchlint.errors import TorchlintError
from torchlint.verify.model import Ending, Phase

ROOT = Path(__file__).resolve().parents[2]
STEP, LOOP = 0.005, 2e-8  # seconds of a step of every script, and of a turn of the busy loop


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "verify_power", ROOT / "benchmarks" / "verify_power.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    path = sys.path[:]
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    del sys.modules[spec.name]


def seconds_of(text: str) -> float:
    loops = sum(map(int, re.findall(r"^ *for _ in range\((\d+)\b.*\): pass$", text, re.MULTILINE)))
    return STEP + LOOP * loops


class FakeExecutor:
    """Steps as long as the busy loops in the files say; ``bias`` favours the first arm."""

    def __init__(self, *, bias: float = 1.0, spread: float = 0.003, broken: bool = False) -> None:
        self.rng = random.Random(1)  # noqa: S311
        self.bias, self.spread, self.broken = bias, spread, broken
        self.pilots = self.timed = 0

    def __call__(self, command, environment):
        self.before = command.script.read_text(encoding="utf-8")
        assert environment["OMP_NUM_THREADS"] == "1"
        return contextlib.nullcontext(self)

    def run(self, configuration, phase, bounds):
        if phase is Phase.PILOT:
            self.pilots += 1
            if self.broken:
                return run(phase=phase, ending=Ending.FAILED, code=1, stderr="no such thing")
        return self._made(configuration, phase, bounds)

    def lockstep(self, first, second, bounds):
        return tuple(self._made(one, Phase.TIMING, bounds) for one in (first, second))

    def _made(self, configuration, phase, bounds):
        self.timed += phase is Phase.TIMING
        files = configuration.files
        text = next(iter(files.values())).decode() if files else self.before
        step = seconds_of(text) * (self.bias if files else 1.0)
        step *= math.exp(self.rng.gauss(0.0, self.spread))
        turns = (8 * step,) * ((bounds.steps - bounds.warmup) // 8)
        return run(record(*[step] * bounds.steps, turns=turns), phase=phase)


def fake_stopwatch(text, arguments, environment):
    """Print one stamp a step, or two around the loop, where the script's lines do."""
    assert environment["OMP_NUM_THREADS"] == "1"
    steps, busy = int(arguments[-1]), seconds_of(text) - STEP
    twice = text.count("process_time()") == 2
    if twice:
        lengths = [STEP, busy] * steps
    else:  # a core that becomes slower, by a tenth
        turn = int(re.search(r"_step'\] // (\d+) % 2", text)[1])
        lengths = [(STEP + busy * (k // turn % 2)) * (1 + k / steps / 10) for k in range(steps)]
    return [(each, each) for each in accumulate(lengths)]


@pytest.fixture
def study(script, tmp_path):
    @contextlib.contextmanager
    def opened(executor):
        with script.opened(tmp_path / "state.jsonl") as state:
            one = {"OMP_NUM_THREADS": "1"}
            yield script.Study(state, tmp_path, one, executor, fake_stopwatch)

    return opened


def kinds(script, **counts):
    """Return the kinds with these counts (`lockstep_aa=3`), and their demands left out."""
    return tuple(
        script.Kind(kind.name, kind.mode, kind.effect, counts[kind.name.replace("-", "_")])
        for kind in script.KINDS
        if kind.name.replace("-", "_") in counts
    )


FEW = {"lockstep_aa": 4, "lockstep_20": 2, "sequential_20": 2, "stopwatch_20": 2}


def test_the_list_is_the_same_each_time_and_evenly_mixed(script):
    tasks = script.tasks()
    assert tasks == script.tasks()
    assert len({task.name for task in tasks}) == len(tasks)
    half = Counter(task.kind for task in tasks[: len(tasks) // 2])
    assert all(abs(half[kind] - kind.count / 2) <= 2 for kind in script.KINDS)
    scripts = Counter(task.script for task in tasks if task.kind.name == "lockstep-aa")
    assert set(scripts.values()) == {20}


def test_the_busy_work_stands_in_every_script(script):
    for name, one in script.SCRIPTS.items():
        slow = one.with_lines(script.STAMP, script.busy(7))
        compile(slow, name, "exec")
        assert len(slow.splitlines()) == len(one.text.splitlines()) + 2
        assert one.with_lines() == one.text
    with pytest.raises(TorchlintError, match="2 times"):
        script.with_line("step()\n    step()\n", "step()", "pass")


def test_what_verify_says_is_counted(script, study):
    some = kinds(script, **FEW)
    with study(FakeExecutor()) as one:
        assert script.work(one, script.tasks(some), tell=lambda _: None)
        lines, is_well = script.summary(one.state, some)
    assert is_well
    assert "lockstep-aa: 0 of 4 called faster or slower; 0 without a verdict" in lines
    assert "lockstep-20: 2 of 2 seen as slower; 0 without a verdict" in lines
    assert "sequential-20: 2 of 2 seen as slower; 0 without a verdict" in lines
    assert any(
        re.match(r"  stopwatch-20, all: 1\.(19|20)\d, 1\.(19|20)\d of 2 .meant: 1.20", each)
        for each in lines
    )
    assert any(line.startswith("  lockstep-20, all: 0.83") for line in lines)


def test_the_loop_takes_its_share_of_a_step(script, study):
    with study(FakeExecutor()) as one:
        for effect in (0.1, 0.2):
            assert seconds_of(one.slower("gan", effect)) == pytest.approx(STEP * (1 + effect))
        assert one.slower("gan", 0.0) == script.SCRIPTS["gan"].text
        assert len(one.state.lines) == 1  # measured once


def test_false_calls_and_missed_effects_are_named(script, study):
    aa = (script.Kind("lockstep-aa", "lockstep", 0.0, 4, ("at most", 1)),)
    with study(FakeExecutor(bias=1.1)) as one:
        script.work(one, script.tasks(aa), tell=lambda _: None)
        lines, is_well = script.summary(one.state, aa)
        assert "lockstep-aa: 4 of 4 called faster or slower (at most 1 of 4: MISSED)" in str(lines)
        assert not is_well
    twenty = (script.Kind("lockstep-20", "lockstep", 0.2, 4, ("at least", 3)),)
    with study(FakeExecutor(bias=1 / 1.5)) as one:
        script.work(one, script.tasks(twenty), tell=lambda _: None)
        lines, is_well = script.summary(one.state, twenty)
        said = "0 of 4 seen as slower, 4 called faster (at least 3 of 4: MISSED)"
        assert said in str(lines)
        assert not is_well


def test_abstentions_are_counted_apart(script, study):
    some = kinds(script, lockstep_aa=3)
    with study(FakeExecutor(spread=0.4)) as one:
        script.work(one, script.tasks(some), tell=lambda _: None)
        lines, is_well = script.summary(one.state, some)
    said = "0 of 3 called faster or slower; 3 without a verdict (at most 20%: MISSED)"
    assert said in str(lines)
    assert not is_well


def test_a_script_that_fails_is_no_verdict(script, study):
    some = kinds(script, lockstep_aa=1, sequential_aa=1)
    with study(FakeExecutor(broken=True)) as one:
        assert script.work(one, script.tasks(some), tell=lambda _: None)
        assert {line["verdict"] for line in one.state.finished().values()} == {"failed"}
        assert "no such thing" in one.state.lines[-1]["why"]
        lines, _ = script.summary(one.state, some)
    assert "0 of 1 called faster or slower; 1 without a verdict" in str(lines)


def test_it_goes_on_where_it_stopped(script, study, tmp_path):
    some = kinds(script, **FEW)
    wanted = script.tasks(some)
    ticks = iter(range(100))
    first = FakeExecutor()
    with study(first) as one:
        more = script.work(one, wanted, 4, tell=lambda _: None, clock=lambda: next(ticks))
        assert not more
        done = list(one.state.finished())
        assert done == [task.name for task in wanted[: len(done)]]
        assert 0 < len(done) < len(wanted)
    told = []
    with study(FakeExecutor()) as one:
        assert script.work(one, wanted, tell=told.append)
        assert len(told) == len(wanted) - len(done)
        assert list(one.state.finished()) == [task.name for task in wanted]
        assert one.state.abandoned() == 0
    idle = FakeExecutor()
    with study(idle) as one:
        assert script.work(one, wanted, tell=told.append)
    assert idle.timed == idle.pilots == 0
    lines = (tmp_path / "state.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum("done" in json.loads(line) for line in lines) == len(wanted)


def test_nothing_is_begun_that_would_be_cut_off(script, study):
    some = kinds(script, lockstep_aa=3)
    wanted = script.tasks(some)
    with study(FakeExecutor()) as one:
        one.state.add({"done": wanted[0].name, "kind": "lockstep-aa", "mode": "lockstep",
                       "seconds": 50.0})  # fmt: skip
        assert not script.work(one, wanted, 49, tell=lambda _: None)
        assert len(one.state.finished()) == 1


def test_a_torn_last_line_is_dropped(script, study, tmp_path):
    some = kinds(script, lockstep_aa=2)
    wanted = script.tasks(some)
    with study(FakeExecutor()) as one:
        script.work(one, wanted, tell=lambda _: None)
    file = tmp_path / "state.jsonl"
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole[:-30], encoding="utf-8")
    with study(FakeExecutor()) as one:
        assert list(one.state.finished()) == [wanted[0].name]
        assert one.state.abandoned() == 1
        script.work(one, wanted, tell=lambda _: None)
        assert len(one.state.finished()) == 2
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["begun"] for line in lines if "begun" in line] == [
        wanted[0].name, wanted[1].name, wanted[1].name,
    ]  # fmt: skip


def test_another_torn_line_is_an_error(script):
    with pytest.raises(TorchlintError, match="line 2 of the state file"):
        script.read_lines('{"begun": "a"}\n{"done\n{"done": "a"}\n')


def test_two_studies_do_not_write_to_one_file(study):
    with study(FakeExecutor()), pytest.raises(TorchlintError, match="is writing"), study(None):
        pass


def test_the_pilot_of_a_script_runs_once(script, study):
    executor = FakeExecutor()
    with study(executor) as one:
        script.work(one, script.tasks(kinds(script, lockstep_aa=6)), tell=lambda _: None)
    assert executor.pilots == len(script.SCRIPTS)


def test_versions_of_verify_are_not_mixed_in_silence(script, study, monkeypatch):
    some = kinds(script, lockstep_aa=2)
    wanted = script.tasks(some)
    with study(FakeExecutor()) as one:
        script.work(one, wanted[:1], tell=lambda _: None)
        monkeypatch.setattr(script, "code", lambda: "other")
        script.work(one, wanted, tell=lambda _: None)
        lines, is_well = script.summary(one.state, some)
    assert any("2 versions of verify are mixed" in line for line in lines)
    assert not is_well


def test_kinds_are_chosen_by_name(script):
    assert [kind.name for kind in script.chosen("lockstep-10,lockstep-aa")] == [
        "lockstep-aa", "lockstep-10",
    ]  # fmt: skip
    with pytest.raises(TorchlintError, match="no such kind; there are lockstep-aa"):
        script.chosen("lockstep")
