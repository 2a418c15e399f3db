"""The worker counts the steps of whole scripts, ends them, and leaves nothing behind."""

from __future__ import annotations

import math

import pytest
from worker_tools import TOY, Project

from torchlint.verify.model import Anchor, Bounds, Phase

FOREVER = TOY + "while True: step()\n"


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


def test_a_script_is_ended_after_its_steps_past_everything_that_catches(project) -> None:
    ran = project.run(
        TOY
        + """
print("begins", flush=False)
try:
    while True:
        step()
except:
    print("caught")
finally:
    torch.save(model.state_dict(), "model.pt")
"""
    )
    assert (ran.code, ran.out, ran.err) == (0, "begins\n", "")
    assert ran.only.ended == "bound"
    assert [len(times) for times in ran.only.steps] == [6]
    assert ran.only.optimizers == ("SGD",)
    assert len(ran.only.backwards) == 6
    assert list(ran.only.steps[0]) == sorted(ran.only.steps[0])
    assert ran.only.start < ran.only.backwards[0] < ran.only.steps[0][0]
    assert not (project.copy / "model.pt").exists()


def test_timed_runs_count_the_anchor_only(project) -> None:
    bounds = Bounds(steps=8, warmup=2, seconds=math.inf, anchor=Anchor("optimizer", 0))
    record = project.run(FOREVER, Phase.TIMING, bounds).only
    assert [len(times) for times in record.steps] == [8]
    assert record.backwards == ()
    assert (record.device, record.memory, record.busy) == ("CPU", {}, None)
    assert record.libraries.keys() >= {"numpy"}


def test_the_run_waits_for_the_optimizer_that_steps_least_often(project) -> None:
    record = project.run(
        TOY
        + """
other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
for count in range(10**9):
    step()
    if count % 5 == 0:
        other.step()
"""
    ).only
    assert record.optimizers == ("SGD", "Adam")
    assert [len(times) for times in record.steps] == [26, 6]


def test_an_optimizer_that_stepped_once_is_not_waited_for(project) -> None:
    record = project.run(
        TOY
        + """
warm = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
warm.step()
while True:
    step()
"""
    ).only
    assert record.optimizers == ("Adam", "SGD")
    assert [len(times) for times in record.steps] == [1, 14]
    assert record.ended == "bound"


def test_accumulated_gradients_are_one_step(project) -> None:
    record = project.run(
        TOY
        + """
while True:
    for _ in range(4):
        model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
"""
    ).only
    assert (len(record.steps[0]), len(record.backwards)) == (6, 24)


def test_many_backwards_in_one_step_of_lbfgs(project) -> None:
    record = project.run(
        TOY
        + """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).square().sum()
    loss.backward()
    return loss
while True:
    optimizer.step(closure)
"""
    ).only
    assert (record.optimizers, len(record.steps[0])) == (("LBFGS",), 6)
    assert len(record.backwards) > 6


def test_without_an_optimizer_backwards_are_the_steps(project) -> None:
    script = """
import torch
weight = torch.ones(3, requires_grad=True)
while True:
    (weight * 2).sum().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
"""
    pilot = project.run(script).only
    assert (pilot.steps, len(pilot.backwards)) == ((), 6)


def test_timed_runs_may_have_backwards_as_their_steps(project) -> None:
    bounds = Bounds(steps=9, warmup=2, seconds=60, anchor=Anchor("backward"))
    record = project.run(FOREVER, Phase.TIMING, bounds).only
    assert len(record.backwards) == 9


def test_a_backward_in_a_backward_is_not_counted(project) -> None:
    record = project.run(
        TOY
        + """
from torch.utils.checkpoint import checkpoint
while True:
    hidden = torch.ones(3, 4, requires_grad=True)
    checkpoint(model, hidden, use_reentrant=True).sum().backward()
    optimizer.step()
"""
    ).only
    assert (len(record.steps[0]), len(record.backwards)) == (6, 6)


def test_optimizers_inside_the_backward_are_counted_each(project) -> None:
    record = project.run(
        TOY
        + """
for parameter in model.parameters():
    own = torch.optim.SGD([parameter], lr=0.1)
    def hook(parameter, own=own):
        own.step()
        own.zero_grad()
    parameter.register_post_accumulate_grad_hook(hook)
while True:
    model(torch.ones(3, 4)).sum().backward()
"""
    ).only
    assert [len(times) for times in record.steps] == [6, 6]


def test_a_script_that_ends_by_itself_keeps_its_output_and_its_exit_code(project) -> None:
    ran = project.run(TOY + "for _ in range(3): print(step().item() > 0)\nraise SystemExit(5)\n")
    assert (ran.code, ran.out, ran.err) == (5, "True\n" * 3, "")
    assert (ran.only.ended, len(ran.only.steps[0])) == ("exit", 3)


def test_a_script_that_fails_in_a_step_leaves_the_steps_before(project) -> None:
    ran = project.run(TOY + "for _ in range(3): step()\nraise ValueError('bad batch')\n")
    assert ran.code == 1
    assert ran.err.startswith("Traceback")
    assert ran.err.endswith("ValueError: bad batch\n")
    assert "torchlint" not in ran.err
    assert (ran.only.ended, len(ran.only.steps[0])) == ("exit", 3)


def test_a_script_that_leaves_at_once_leaves_a_record_too(project) -> None:
    ran = project.run(TOY + "import os\nfor _ in range(3): step()\nos._exit(3)\n")
    assert (ran.code, ran.only.ended, len(ran.only.steps[0])) == (3, "exit", 3)


def test_a_script_that_never_steps_leaves_no_record(project) -> None:
    ran = project.run("import torch\nprint(torch.ones(1).item())\n")
    assert (ran.code, ran.out, ran.err, ran.records) == (0, "1.0\n", "", ())


def test_a_script_without_torch_is_not_touched(project) -> None:
    ran = project.run("import sys\nprint('torch' in sys.modules, 'multiprocessing' in sys.modules)")
    assert (ran.code, ran.out, ran.err, ran.records) == (0, "False False\n", "", ())


def test_time_ends_a_run_that_still_makes_steps(project) -> None:
    bounds = Bounds(steps=10**6, warmup=2, seconds=0.5)
    record = project.run(FOREVER, bounds=bounds).only
    assert record.ended == "bound"
    assert 1 <= len(record.backwards) < 10**6
