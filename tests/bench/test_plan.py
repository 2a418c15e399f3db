"""Every rule has a program with its habit, and the other arm is what its fix makes of it."""

from __future__ import annotations

import difflib

import pytest

from torchlint.bench import plan
from torchlint.benchmark import Benchmark
from torchlint.edits.fix import Safety
from torchlint.registry import ENGINE_RULES, all_rules, find
from torchlint.rule import Level, Needs

RULES = [rule for rule in all_rules() if rule not in ENGINE_RULES]
TARGET = plan.version("2.13.0+cpu")
# What has nothing to measure, and why.
WITHOUT = {
    "TL105": "the options that it finds raise when the loader is made",
    "TL605": "a step of a scheduler takes as long wherever it stands",
    "TL802": "the one process of a program has nobody to average its gradients with",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_has_a_program_that_its_fix_changes(rule):
    found = plan.rows([rule.code], TARGET, gpus=2)
    if rule.code in WITHOUT:
        assert not found
        return
    assert found
    for row in found:
        changed = [
            line
            for line in difflib.ndiff(row.before.splitlines(), row.after.splitlines())
            if line[0] in "+-"
        ]
        assert not row.broken
        assert changed
        assert row.safety is None or len(changed) <= 24  # a fix touches little
        compile(row.before, row.key, "exec")
        compile(row.after, row.key, "exec")
        assert (row.safety is None) == (rule.fix is None)
        assert row.safety is not Safety.SAFE or row.level is Level.E0


def benchmark(before, **more):
    return Benchmark(before=before, sizes=({"SIZE": 3},), **more)


def planned(monkeypatch, declared, code="TL901"):
    monkeypatch.setattr(plan, "benchmark_of", lambda _: declared)
    return plan.rows([code], TARGET, gpus=0)


ANOMALY = "import torch\ntorch.autograd.set_detect_anomaly(True)\nx = SIZE\nloss.backward()\n"


def test_a_program_without_the_habit_is_a_broken_row(monkeypatch):
    (row,) = planned(monkeypatch, benchmark("import torch\nx = SIZE\n"))
    assert row.broken.startswith("the benchmark of TL901")
    assert row.broken.endswith("has nothing that the rule finds")


def test_advice_that_keeps_the_habit_is_a_broken_row(monkeypatch):
    (row,) = planned(monkeypatch, benchmark(ANOMALY, after=ANOMALY))
    assert "still has what the rule finds" in row.broken


def test_sizes_stand_above_the_program_and_name_the_row(monkeypatch):
    (row,) = planned(monkeypatch, benchmark(ANOMALY))
    assert row.before.startswith("SIZE = 3\n\nimport torch\n")
    assert row.key == "TL901 size 3"
    assert "set_detect_anomaly(False)" in row.after


def test_advice_followed_by_hand_has_the_level_that_is_declared(monkeypatch):
    declared = benchmark(ANOMALY, after="import torch\nx = SIZE\n", level=Level.E2)
    (row,) = planned(monkeypatch, declared)
    assert (row.safety, row.level) == (None, Level.E2)


def test_a_cpu_does_not_run_what_needs_a_gpu(monkeypatch):
    declared = benchmark(ANOMALY, needs_cuda="because")
    assert planned(monkeypatch, declared)[0].unfit == "because"
    assert plan.rows(["TL901"], TARGET, gpus=2)[0].unfit == ""


def test_every_rule_whose_fix_acts_on_gpus_only_says_why_a_cpu_shows_nothing():
    for rule in RULES:
        declared = plan.benchmark_of(rule)
        if declared is not None:
            assert bool(declared.needs_cuda) is (rule.needs is not Needs.NOTHING), rule.code


@pytest.mark.parametrize(("gpus", "runs"), [(0, False), (1, False), (2, True)])
def test_what_acts_on_several_gpus_is_run_on_several_only(gpus, runs):
    (several,) = {rule.code for rule in RULES if rule.needs is Needs.GPUS}
    found = plan.rows([several], TARGET, gpus=gpus)
    assert all((not row.unfit) is runs for row in found)


def test_sizes_that_fill_a_gpu_are_for_gpus(monkeypatch):
    declared = benchmark(ANOMALY, gpu_sizes=({"SIZE": 99},))
    assert [row.size for row in planned(monkeypatch, declared)] == ["size 3"]
    on_gpu = plan.rows(["TL901"], TARGET, gpus=1)
    assert [(row.size, row.rank) for row in on_gpu] == [("size 3", 3), ("size 99", 2)]


def test_a_quick_run_has_the_smallest_program_of_each_rule_and_keys_of_its_own():
    rows = plan.rows([], TARGET, gpus=1, quick=True)
    assert len(rows) == len({row.code for row in rows})
    assert "TL201 width 256, batch 64" in {row.key for row in rows}
    assert all(row.quick for row in rows)


def test_what_only_a_gpu_shows_comes_first_in_its_largest_size():
    ranks = {row.key: row.rank for row in plan.rows([], TARGET, gpus=1)}
    assert ranks["TL201 width 2048, batch 512"] == 0
    assert ranks["TL201 width 256, batch 64"] == 2
    assert {ranks[key] for key in ranks if key.startswith("TL705")} == {1}
    assert ranks["TL601 width 4096, layers 8"] == 2
    assert ranks["TL901 width 64"] == 3
    assert {ranks[key] for key in ranks if key.startswith("TL501 width 2048")} == {0}


def test_rows_with_processes_of_their_own_are_a_kind_of_their_own():
    workers = {row.key for row in plan.rows([], TARGET, gpus=1) if row.workers}
    assert "TL106 samples 1024, steps 4, workers 1" in workers
    assert "TL106 samples 1024, steps 16, workers 0" not in workers
    assert {key.partition(" ")[0] for key in workers} == {
        "TL101", "TL102", "TL103", "TL106", "TL205",
    }  # fmt: skip


def test_a_rule_without_a_declaration_has_no_rows():
    assert plan.benchmark_of(find("TL001")) is None
