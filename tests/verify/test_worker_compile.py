"""Compiled scripts: the hooks see their steps and do not change what they compute."""

from __future__ import annotations

import pytest
from worker_tools import Project

from torchlint.verify.model import Anchor, Bounds, Phase

BOUNDS = Bounds(steps=6, warmup=2, seconds=100, anchor=Anchor("optimizer", 0))
SCRIPT = """
import torch
torch.manual_seed(0)
graphs = 0
def backend(module, inputs):
    global graphs
    graphs += 1
    return module.forward
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.compile(backend=backend)
def loss_of(batch):
    loss = model(batch).square().mean()
    if loss.item() > 100:
        return loss * 2
    return loss + float(loss.detach()) * 0
@torch.compile(backend=backend)
def step():
    optimizer.step()
for _ in range(6):
    optimizer.zero_grad()
    loss = loss_of(torch.randn(3, 4))
    loss.backward()
    print(loss.item(), graphs, flush=True)
    step()
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> str:
    """What the script prints where nothing looks at it."""
    return Project(tmp_path_factory.mktemp("plain"), {}, is_plain=True).run(SCRIPT).out


@pytest.mark.parametrize("phase", list(Phase))
def test_a_compiled_script_computes_the_same_in_as_many_graphs(tmp_path, plain, phase) -> None:
    lines = {"train.py": frozenset({13, 14, 20})} if phase is Phase.PILOT else {}
    bounds = Bounds(6, 2, 100) if phase is Phase.PILOT else BOUNDS
    ran = Project(tmp_path, {}).run(SCRIPT, phase, bounds, lines=lines)
    assert ran.out == plain
    assert [len(times) for times in ran.only.steps] == [6]
    if phase is Phase.TRACE:
        losses = [float(line.split()[0]) for line in ran.out.splitlines()]
        assert list(ran.only.trace.losses) == losses
    if phase is Phase.PILOT:
        assert all(ran.only.reached["train.py"].values())


@pytest.mark.parametrize(("phase", "value"), [(Phase.TRACE, True), (Phase.TIMING, False)])
def test_only_traces_draw_random_numbers_as_eager_code_does(tmp_path, phase, value) -> None:
    script = (
        "import torch\nimport torch._inductor.config as config\nprint(config.fallback_random)\n"
    )
    assert Project(tmp_path, {}).run(script, phase, BOUNDS).out == f"{value}\n"
