"""What runs in the measured process: how results are compared, and that arms share no switches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torchlint.bench import worker


@pytest.mark.parametrize(
    ("first", "second", "difference", "equal"),
    [
        pytest.param(torch.ones(2), torch.ones(2), 0.0, True, id="equal"),
        pytest.param(torch.tensor(float("nan")), torch.tensor(float("nan")), 0.0, True, id="nan"),
        pytest.param(torch.ones(2), torch.ones(3), math.inf, False, id="shape"),
        pytest.param(torch.ones(2), torch.ones(2).double(), 0.0, False, id="dtype"),
        pytest.param([4.0, {"a": 1}], [4.0, {"a": 2}], 1.0, False, id="nested"),
        pytest.param(np.array([10.0, 1.0]), np.array([10.0, 1.1]), 0.01, False, id="largest"),
        pytest.param([1.0], [1.0, 2.0], math.inf, False, id="more"),
        pytest.param(torch.tensor(math.inf), torch.tensor(1.0), math.inf, False, id="infinite"),
        pytest.param(None, None, 0.0, True, id="nothing"),
    ],
)
def test_results_are_compared_leaf_by_leaf(first, second, difference, equal):
    found = worker.compare(first, second)
    assert found == (pytest.approx(difference), equal)


@pytest.mark.parametrize(
    ("level", "difference", "equal", "is_allowed"),
    [
        (0, 0.0, True, True),
        (0, 0.0, False, False),  # another dtype
        (1, 1e-6, False, True),
        (1, 1e-4, False, False),
        (2, 0.1, False, True),
        (2, 0.3, False, False),
        (3, math.inf, False, True),
    ],
)
def test_each_level_allows_what_it_declares(level, difference, equal, is_allowed):
    assert worker.allowed(level, difference, equal) is is_allowed


def program(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    return name


SWITCHES = """
import torch
torch.autograd.set_detect_anomaly({anomaly})
seen = set()

def run(steps):
    seen.add(torch.is_anomaly_enabled())
    return 0
"""


def test_each_arm_runs_with_the_switches_that_it_set(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    row = {
        "before": program(tmp_path, "own_before", SWITCHES.format(anomaly=True)),
        "after": program(tmp_path, "own_after", SWITCHES.format(anomaly=False)),
        "level": 0,
    }
    seen = {}
    original = worker.Arm.load

    def load(arm):
        result = original(arm)
        seen[arm.side] = arm.run.__globals__["seen"]
        return result

    monkeypatch.setattr(worker.Arm, "load", load)
    found = worker.measure(row, {"seed": 1, "seconds": 0.0}, cuda=False)
    assert found["equal"]
    assert seen == {"before": {True}, "after": {False}}
    assert not torch.is_anomaly_enabled()


COUNTS = """
import torch
calls = []
first = torch.rand(3)

def run(steps):
    calls.append(steps)
    return first
"""


def test_both_arms_start_from_one_seed_and_make_as_many_steps(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    arms = {}
    original = worker.Arm.figures

    def figures(arm):
        arms[arm.side] = (arm.run.__globals__["calls"], len(arm.turns))
        return original(arm)

    monkeypatch.setattr(worker.Arm, "figures", figures)
    row = {name: program(tmp_path, f"count_{name}", COUNTS) for name in ("before", "after")}
    found = worker.measure({**row, "level": 0}, {"seed": 3, "seconds": 0.0}, cuda=False)
    assert found["equal"]
    (before, turns), (after, others) = arms["before"], arms["after"]
    assert turns == others == worker.FEWEST
    assert before[-turns:] == after[-turns:]
    assert before[0] == worker.CHECKED
    assert found["before"]["gpu"] is None
