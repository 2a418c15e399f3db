"""What runs in the measured process: how results are compared, and that arms share no switches."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from multiprocessing.process import BaseProcess
from types import SimpleNamespace

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


def measure(row, **more):
    """Return what the worker says of a row, all its words together."""
    said = {}
    job = {"seed": 1, "seconds": 0.0, "turn": None, "level": 0, "check": True, **row, **more}
    worker.measure(job, cuda=False, say=lambda **words: said.update(words))
    return said


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
    }
    seen = {}
    original = worker.Arm.figures

    def figures(arm, **how):
        seen[arm.side] = arm.run.__globals__["seen"]
        return original(arm, **how)

    monkeypatch.setattr(worker.Arm, "figures", figures)
    assert measure(row)["check"]["equal"]
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


@pytest.mark.parametrize("check", [True, False])
def test_both_arms_start_from_one_seed_and_make_as_many_steps(tmp_path, monkeypatch, check):
    monkeypatch.syspath_prepend(tmp_path)
    arms = {}
    original = worker.Arm.figures

    def figures(arm, **how):
        arms[arm.side] = (list(arm.run.__globals__["calls"]), len(arm.turns))
        return original(arm, **how)

    monkeypatch.setattr(worker.Arm, "figures", figures)
    row = {name: program(tmp_path, f"count_{name}", COUNTS) for name in ("before", "after")}
    said = measure(row, check=check)
    (before, turns), (after, others) = arms["before"], arms["after"]
    assert turns == others == worker.FEWEST
    assert before[-turns:] == after[-turns:]
    assert before[0] == after[0] == (worker.CHECKED if check else 1)
    assert ("check" in said) is check
    assert (said["before"]["setup"] is not None) is check


STRAYS = """
import itertools, sys
count = sys.modules[__name__.partition("_")[0] + "_count"].count

def run(steps):
    return 1000.0 + next(count) {more}
"""


@pytest.mark.parametrize(("more", "allowed"), [("", True), ("* 50", False)])
def test_results_may_stray_three_times_as_far_as_those_of_one_arm_do(
    tmp_path, monkeypatch, more, allowed
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "stray_count", SimpleNamespace(count=itertools.count()))
    row = {
        "before": program(tmp_path, "stray_before", STRAYS.format(more="")),
        "after": program(tmp_path, f"stray_after{allowed}", STRAYS.format(more=more)),
    }
    check = measure(row)["check"]
    assert not check["equal"]
    assert check["itself"] == pytest.approx(1e-3, rel=0.1)
    assert check["allowed"] is allowed


def test_what_does_not_stray_has_no_excuse():
    one, other = [torch.ones(2)], [torch.ones(2).double()]
    assert not worker.checked(0, one, one, other)["allowed"]
    assert not worker.checked(0, one, [torch.ones(3)], one)["allowed"]  # infinitely far apart


NEWER = pytest.mark.skipif(
    not hasattr(torch.backends.cudnn, "conv"), reason="this torch has no fp32_precision"
)


@NEWER
@pytest.mark.filterwarnings("default")
def test_switches_survive_the_newer_way_to_set_tf32():
    switches = worker.Switches()
    parts = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)
    first = [part.fp32_precision for part in parts]
    try:
        torch.backends.cudnn.conv.fp32_precision = "ieee"  # allow_tf32 cannot be read from here on
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        stand = switches.read()
        switches.reset()
        assert [part.fp32_precision for part in parts] == first
        assert torch.backends.cudnn.allow_tf32 is True
        switches.set(stand)
        assert [part.fp32_precision for part in parts] == ["ieee", "tf32"]
    finally:
        switches.reset()


NOTICE = "Synchronization debug mode does not yet detect all synchronizing operations"  # torch's
WAIT = "called a synchronizing CUDA operation"


def pretend_cuda(monkeypatch):
    """Let `torch.cuda` answer, as far as an arm asks it; memory grows by what programs add."""
    memory = SimpleNamespace(held=100, peak=100)
    marks = [type(name, (), {"synchronize": lambda _: None}) for name in ("Event", "Stream")]
    for name, value in {
        "synchronize": lambda: None,
        "set_sync_debug_mode": lambda mode: mode == "warn" and warnings.warn(NOTICE, stacklevel=1),
        "reset_peak_memory_stats": lambda: setattr(memory, "peak", memory.held),
        "memory_allocated": lambda: memory.held,
        "max_memory_allocated": lambda: memory.peak,
        "Event": marks[0],
        "Stream": marks[1],
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return memory


WAITS = """
import torch, warnings

def run(steps):
    for _ in range(steps):
        torch.cuda.synchronize()
        torch.cuda.Event().synchronize()
        warnings.warn({wait!r})
    return 0
"""


@pytest.mark.filterwarnings("ignore:called a")
def test_waits_asked_for_are_counted_and_the_notice_of_torch_is_not(tmp_path, monkeypatch):
    pretend_cuda(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    name = program(tmp_path, "waits_before", WAITS.format(wait=WAIT))
    arm = worker.Arm("before", name, worker.Switches(), cuda=True)
    arm.load(1, 1)
    assert arm.count_syncs() == 3.0
    assert torch.cuda.synchronize.__name__ == "<lambda>"


def test_on_a_gpu_the_clock_is_up_before_turns_of_eighty_milliseconds(tmp_path, monkeypatch):
    pretend_cuda(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    done = []
    monkeypatch.setattr(worker, "warm", done.append)

    def turn(arm):
        done.append(arm.shortest)
        return 1.0, 1.0, 1.0, 0.5

    monkeypatch.setattr(worker.Arm, "turn", turn)
    row = {name: program(tmp_path, f"warm_{name}", COUNTS) for name in ("before", "after")}
    said = {}
    job = {**row, "seed": 1, "seconds": 0.0, "turn": None, "level": 0, "check": True, "warm": 0.3}
    worker.measure(job, cuda=True, say=lambda **words: said.update(words))
    assert done[0] == 0.3
    assert set(done[1:]) == {0.08}
    assert said["before"]["host"] == 0.5
    assert said["syncs"] == {"before": 0.0, "after": 0.0}


HOLDS = """
import sys
memory = sys.modules["held_memory"]
memory.held += {bytes}
memory.peak = memory.held + 7

def run(steps):
    return 0
"""


def test_the_memory_of_an_arm_is_what_it_adds_itself(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "held_memory", pretend_cuda(monkeypatch))
    monkeypatch.syspath_prepend(tmp_path)
    arms = []
    for side, size in (("before", 1000), ("after", 10)):
        name = program(tmp_path, f"holds_{side}", HOLDS.format(bytes=size))
        arms.append(worker.Arm(side, name, worker.Switches(), cuda=True))
        arms[-1].load(1, 1)
    assert [arm.memory for arm in arms] == [1007, 17]


LOADER = """
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(8.0), batch_size=4, num_workers=2, persistent_workers=True)

def run(steps):
    for _ in range(steps):
        found = [batch for batch in loader]
    return 1
"""


def test_workers_of_a_loader_are_told_to_end_and_not_waited_for_in_vain(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = program(tmp_path, "loads_before", LOADER)
    arm = worker.Arm("before", name, worker.Switches(), cuda=False)
    arm.load(1, 2)
    late = []
    original = BaseProcess.join

    def join(self, timeout=None):
        original(self, timeout)
        late.append(self.is_alive())

    monkeypatch.setattr(BaseProcess, "join", join)
    arm.drop()
    assert len(late) == 2
    assert not any(late)
    assert name not in sys.modules
