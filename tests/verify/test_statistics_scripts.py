"""The benchmarks of the stopping rule: reports are simulated by the rule, real pairs collected."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import random
import re
import sys
from pathlib import Path

import pytest
from eager_tools import eager_path
from statistics_tools import record, run

from torchlint.errors import UsageError
from torchlint.verify.model import Ending, Phase, Sample, Speed
from torchlint.verify.statistics import judge, pooled

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    path, sys.modules[name] = sys.path[:], module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    del sys.modules[name]


simulation = pytest.fixture(scope="module")(lambda: (yield from script("verify_statistics")))
collector = pytest.fixture(scope="module")(lambda: (yield from script("aa_pairs")))


def call(module, monkeypatch, *words: str) -> int:
    """Run a script's `main`; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["script", *map(str, words)])
    try:
        return module.main()
    except SystemExit as ended:
        return ended.code


def pairs(*logs: float) -> list[Sample]:
    """Return pairs with these log ratios."""
    return [Sample(math.exp(log), 1.0, "lockstep") for log in logs]


def steady(*logs: float):
    """Return noise that is the same for all: the script with itself has the first, twice."""
    return lambda _, size: [iter([0.01, -0.01]), *(iter(logs) for _ in range(size))]


# -- the simulation ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_a_look_says_what_judge_says(simulation, spread, seed) -> None:
    rng = random.Random(seed)  # noqa: S311 - noise, no secret
    itself = pairs(0.03, -0.01)
    pool, seen, said = simulation.statistics.Pool(itself), ([], []), set()
    logs = [[rng.gauss(change, spread) for _ in range(40)] for change in (0.0, 0.1)]
    both = [simulation.Comparison(iter(each)) for each in logs]
    for number in range(1, 41):
        for k, one in enumerate(both):
            one.look(10, pool)
            seen[k][:] = pairs(*logs[k][:number])
            others = pooled([seen[1 - k]], itself)
            assert one.speed is judge(seen[k], comparisons=10, spread=others).speed
            said.add(one.speed)
    assert len(said) > 1


@pytest.mark.parametrize("size", [1, 10])
def test_a_report_is_judged_after_every_pair_until_something_is_called(simulation, size) -> None:
    logs = (0.0, *[0.2] * 39)
    called = list(simulation.report(steady(*logs), [0.0] * size, None))
    first = next(  # where all see the same, the pool of the others has the same variance
        number
        for number in range(3, 41)
        if judge(
            pairs(*logs[:number]),
            comparisons=size,
            spread=pooled([pairs(*logs[:number])] * (size - 1), pairs(0.01, -0.01)),
        ).speed is Speed.FASTER
    )  # fmt: skip
    assert len(called) == size
    assert called[-1].seen.count == first > 3


def test_without_giving_up_no_change_is_no_end(simulation) -> None:
    logs = (*[0.001, -0.001] * 5, *[0.2] * 30)  # first nothing, then a change
    assert not list(simulation.report(steady(*logs), [0.0], None))
    (late,) = simulation.report(steady(*logs), [0.0], None, gives_up=False)
    assert late.seen.count > 10


@pytest.mark.parametrize("change", [0.2, -0.2])
def test_what_does_something_by_itself_makes_every_report_false(simulation, change) -> None:
    share = simulation.false_reports(
        simulation.real([(math.exp(change), 1.0)]), 3, 5, gives_up=True, seed="x"
    )
    assert share == simulation.Share(5, 5)
    assert not share.is_allowed


def test_one_report_in_a_hundred_may_be_false(simulation) -> None:
    assert simulation.Share(1, 100).is_allowed
    assert not simulation.Share(2, 100).is_allowed
    # the share of 2 in 100 with one more of each: sqrt(3 x 99 / 102 / 102 / 100)
    assert str(simulation.Share(2, 100)) == "2.00 +- 1.69"


def test_noise_is_as_wide_as_it_says(simulation) -> None:
    for name, (itself, first, second) in {
        "6%": (0.06, 0.06, 0.06),
        "2 %, 8 % by turns": (0.02, 0.08, 0.02),
        "before is shared": (0.04, 0.04, 0.04),
    }.items():
        streams = simulation.NOISES[name](random.Random(1), 2)  # noqa: S311
        found = [
            math.sqrt(sum(next(stream) ** 2 for _ in range(4000)) / 4000) for stream in streams
        ]
        assert found == pytest.approx([itself, first, second], rel=0.06)


def test_comparisons_that_share_a_launch_move_together(simulation) -> None:
    _, first, second = simulation.shared(0.04)(random.Random(1), 2)  # noqa: S311
    pairs = [(next(first), next(second)) for _ in range(4000)]
    assert sum(a * b for a, b in pairs) / 4000 == pytest.approx(0.04**2 / 2, rel=0.1)


def test_large_changes_are_seen_early_and_small_ones_later(simulation) -> None:
    large = simulation.power(simulation.normal(0.02), 1 / 1.3, 10, 20, "x")
    small = simulation.power(simulation.normal(0.02), 1.05, 10, 20, "x")
    assert large == [1.0] * 4
    assert small == sorted(small)
    assert small[0] < 0.5 < small[-1]


@pytest.mark.parametrize(("bias", "share"), [(0.2, 1.0), (-0.2, 0.0)])
def test_power_counts_right_verdicts_of_what_changes_the_speed(simulation, bias, share) -> None:
    sizes = []

    def noise(rng, size):
        sizes.append(size)
        return simulation.real([(math.exp(bias), 1.0)])(rng, size)  # so that all are called

    assert simulation.power(noise, 1.05, 10, 3, "x")[-1] == share  # one in ten has the effect
    assert sizes == [10] * 3


def test_the_tables_are_the_same_every_time(simulation, monkeypatch, capsys) -> None:
    monkeypatch.setattr(simulation, "SIZES", (1, 10, 10))
    tables = []
    for _ in range(2):
        assert call(simulation, monkeypatch, "--reports", "2") in (0, 1)
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) == 2 + len(simulation.NOISES) + 2 + 4 * 3


@pytest.mark.parametrize("code", [0, 1])
def test_real_pairs_are_drawn_by_script(simulation, monkeypatch, capsys, tmp_path, code) -> None:
    ratio = 1.3 if code else 1.0
    file = tmp_path / "pairs.json"
    kinds = {"calm": [[1.0, 1.001], [1.001, 1.0]], "other": [[ratio, 1.0], [ratio, 1.01]]}
    file.write_text(json.dumps({"kinds": {**kinds, "none yet": []}}), encoding="utf-8")
    assert call(simulation, monkeypatch, "--pairs", file, "--reports", "8") == code
    rows = capsys.readouterr().out.splitlines()[2:]
    shares = [[float(share) for share in re.findall(r"(\S+) \+-", row)] for row in rows]
    assert shares == [[0.0] * 6, [100.0 * code] * 6, [50.0 * code] * 6]
    assert [row.split()[0] for row in rows] == ["calm", "other", "all"]


def test_a_file_without_pairs_is_an_error(simulation, monkeypatch, capsys, tmp_path) -> None:
    assert call(simulation, monkeypatch, "--pairs", tmp_path / "none.json") == 2
    assert "none.json" in capsys.readouterr().err
    (tmp_path / "other.json").write_text('{"kinds": {"gan": [[1]]}}', encoding="utf-8")
    assert call(simulation, monkeypatch, "--pairs", tmp_path / "other.json") == 2
    assert "aa_pairs.py" in capsys.readouterr().err


# -- collecting ----------------------------------------------------------------------------------


class FakeExecutor:
    """Runs of which each takes ten seconds; "broken" scripts fail, "empty" ones give no times."""

    def __init__(self) -> None:
        self.now, self.ran = 0.0, []

    def clock(self) -> float:
        return self.now

    @contextlib.contextmanager
    def __call__(self, kind):
        self.kind = kind
        yield self

    def run(self, _, phase, bounds):
        self.now += 10
        self.ran.append((self.kind.name, phase))
        if "broken" in self.kind.script:
            return run(phase=phase, ending=Ending.FAILED, code=1, stderr="no such thing")
        return run(record(*[0.1] * bounds.steps), phase=phase)

    def lockstep(self, first, second, bounds):
        assert first == second
        self.now += 10
        self.ran.append((self.kind.name, Phase.TIMING))
        made = bounds.seconds >= 5 and "empty" not in self.kind.script
        return tuple(run(record(turns=(0.8,) * 5 if made else ())) for _ in range(2))


@pytest.fixture
def collecting(collector, tmp_path):
    """Return a function that collects with a fake executor, and gives the code and the file."""
    path = tmp_path / "pairs" / "cpu.json"

    def collect(*kinds, pairs=2, end=math.inf, share=10, fake=None):
        fake = fake or FakeExecutor()
        made = collector.Collection(path, end, fake, fake.clock)
        code = collector.collect(made, kinds, pairs, share)
        return code, json.loads(path.read_text()) if path.is_file() else {}

    collect.path = path
    return collect


def test_pairs_are_added_until_each_script_has_its_number(collector, collecting) -> None:
    kinds = collector.Kind("a.py"), collector.Kind("b.py", "sequential")
    code, found = collecting(*kinds)
    assert code == 0
    assert {name: len(pairs) for name, pairs in found["kinds"].items()} == {
        "a, lockstep": 2, "b, sequential": 2,
    }  # fmt: skip
    assert found["kinds"]["a, lockstep"][0] == [pytest.approx(0.1)] * 2
    assert (found["device"], found["torch"]) == ("CPU", "2.13")
    assert found["command"].startswith("python benchmarks/aa_pairs.py")
    code, more = collecting(*kinds, pairs=3)
    assert code == 0
    assert more["kinds"]["a, lockstep"][:2] == found["kinds"]["a, lockstep"]
    assert len(more["kinds"]["b, sequential"]) == 3


def test_the_script_with_the_fewest_pairs_is_next(collector, collecting) -> None:
    fake = FakeExecutor()
    collecting(collector.Kind("a.py"), pairs=2)
    collecting(collector.Kind("a.py"), collector.Kind("b.py"), pairs=3, share=2, fake=fake)
    assert [name for name, phase in fake.ran if phase is Phase.TIMING] == [
        "b, lockstep", "b, lockstep", "a, lockstep", "b, lockstep",
    ]  # fmt: skip


def test_the_time_budget_is_the_end(collector, collecting) -> None:
    fake = FakeExecutor()
    code, found = collecting(collector.Kind("a.py"), pairs=9, end=45, fake=fake)
    assert (code, len(found["kinds"]["a, lockstep"])) == (3, 3)  # a pilot and three of ten seconds
    assert fake.now == 40
    code, found = collecting(collector.Kind("a.py"), pairs=9, end=0)
    assert (code, len(found["kinds"]["a, lockstep"])) == (3, 3)


@pytest.mark.parametrize(
    ("name", "why"), [("broken", "no such thing"), ("empty", "3 pairs of runs without a time")]
)
def test_a_script_that_fails_costs_only_itself(collector, collecting, capsys, name, why) -> None:
    fake = FakeExecutor()
    code, found = collecting(
        collector.Kind(f"{name}.py"), collector.Kind("a.py"), end=200, fake=fake
    )
    assert code == 1
    assert set(found["kinds"]) == {"a, lockstep"}
    told = capsys.readouterr().err
    assert f"{name}, lockstep: given up" in told
    assert why in told


def test_pairs_of_two_machines_do_not_mix(collector, collecting) -> None:
    collecting(collector.Kind("a.py"))
    found = json.loads(collecting.path.read_text())
    collecting.path.write_text(json.dumps(found | {"torch": "1.0"}))
    with pytest.raises(UsageError, match=r"pairs are of 1\.0, this is 2\.13; name another"):
        collecting(collector.Kind("a.py"), pairs=3)
    assert json.loads(collecting.path.read_text()) == found | {"torch": "1.0"}


def test_another_file_is_not_written_to(collector, monkeypatch, capsys, tmp_path) -> None:
    file = tmp_path / "cpu.json"
    file.write_text('{"device": "CPU"}', encoding="utf-8")
    assert call(collector, monkeypatch, "--out", file) == 2
    assert "cpu.json: holds no pairs" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == '{"device": "CPU"}'


def test_the_scripts_are_there(collector) -> None:
    for kind in collector.KINDS:
        assert kind.command.script.is_file()
    assert len({kind.name for kind in collector.KINDS}) == len(collector.KINDS)


TRAINING = """
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100000):
    model(torch.rand(64, 64)).sum().backward()
    optimizer.step()
"""


def test_real_launches_give_pairs(collector, monkeypatch, tmp_path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINING, encoding="utf-8")
    kind = collector.Kind(str(folder / "train.py"), arguments=())
    monkeypatch.setenv("PYTHONPATH", eager_path())
    monkeypatch.setattr(collector, "KINDS", (kind,))
    monkeypatch.setattr(collector, "VERIFIED", 4.0)  # seconds: a few steps are timed
    file = tmp_path / "cpu.json"
    assert call(collector, monkeypatch, "--pairs", "1", "--out", file) == 0
    ((before, after),) = json.loads(file.read_text())["kinds"][kind.name]
    assert before > 0
    assert after > 0
