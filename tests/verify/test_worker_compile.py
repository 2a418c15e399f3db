"""Compiled scripts: the hooks see their steps and do not change what they compute."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from worker_tools import Project, Ran

from torchlint.verify.model import Anchor, Bounds, Ending, Phase
from torchlint.verify.verdict import _failure

BOUNDS = Bounds(steps=6, warmup=2, seconds=100, anchor=Anchor("optimizer", 0))
SCRIPT = """
import torch
import torch._inductor.config as config
print(config.fallback_random, flush=True)
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
    return (
        Project(tmp_path_factory.mktemp("plain"), {}, is_plain=True)
        .run(SCRIPT)
        .out.partition("\n")[2]
    )


@pytest.mark.parametrize("phase", list(Phase))
def test_a_compiled_script_computes_the_same_in_as_many_graphs(tmp_path, plain, phase) -> None:
    lines = {"train.py": frozenset({15, 16, 22})} if phase is Phase.PILOT else {}
    bounds = Bounds(6, 2, 100) if phase is Phase.PILOT else BOUNDS
    ran = Project(tmp_path, {}).run(SCRIPT, phase, bounds, lines=lines)
    draws_as_eager_code_does, _, told = ran.out.partition("\n")
    assert draws_as_eager_code_does == str(phase is Phase.TRACE)  # its random numbers
    assert told == plain
    assert [len(times) for times in ran.only.steps] == [6]
    if phase is Phase.TRACE:
        losses = [float(line.split()[0]) for line in told.splitlines()]
        assert list(ran.only.trace.losses) == losses
    if phase is Phase.PILOT:
        assert all(ran.only.reached["train.py"].values())


KERNEL = """
import torch
torch.set_num_threads(1)
weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
@torch.compile
def loss_of(weight):
    return (weight * 2).cos().sum()
while True:
    optimizer.zero_grad()
    loss_of(weight).backward()
    optimizer.step()
"""


def run_kernel(tmp_path, **more: str) -> Ran:
    """Compile for real: nothing is in the folders that inductor and Triton keep theirs in."""
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "2",  # processes of its own: none is to be left
    }
    return Project(tmp_path, {**caches, **more}).run(KERNEL, Phase.TRACE, BOUNDS)


@pytest.mark.skipif(shutil.which("g++") is None, reason="nothing compiles C++ here")
def test_a_script_is_compiled_in_empty_cache_folders(tmp_path) -> None:
    ran = run_kernel(tmp_path)
    assert ran.code == 0, ran.err
    assert [len(times) for times in ran.only.steps] == [6]
    assert list((tmp_path / "inductor").rglob("*.so"))


def test_without_a_compiler_one_line_says_so(tmp_path) -> None:
    """It is the error that is told, not torch's advice below it."""
    ran = run_kernel(tmp_path, PATH=str(tmp_path), CXX="g++")
    run = SimpleNamespace(ending=Ending.FAILED, code=ran.code, stderr=ran.err)
    told = _failure(run)
    assert "No working C++ compiler found" in told
    assert "\n" not in told
