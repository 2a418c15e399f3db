"""Compiled scripts: the hooks see their steps and do not change what they compute."""

from __future__ import annotations

import shutil

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


COMPILED = """
import torch
torch.manual_seed(0)
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
"""


def in_empty_caches(folder, **more: str) -> Project:
    """A project whose compiler has never run, and finds nothing that another run left."""
    caches = {name: str(folder / name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    return Project(folder / "project", {**caches, **more})


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_compiles_into_an_empty_cache_folder_and_leaves_no_process(tmp_path) -> None:
    """Its workers are ended too: `run` looks for processes that are left."""
    ran = in_empty_caches(tmp_path).run(COMPILED, Phase.TRACE, BOUNDS)
    assert (ran.code, ran.only.ended, len(ran.only.steps[0])) == (0, "bound", 6), ran.err
    assert list((tmp_path / "TORCHINDUCTOR_CACHE_DIR").rglob("*.so"))


def test_without_a_compiler_a_script_fails_by_the_error_of_torch(tmp_path) -> None:
    """As it fails without the worker; its stderr is what verify shows."""
    (tmp_path / "nothing").mkdir()
    nowhere = {"PATH": str(tmp_path / "nothing"), "CXX": ""}
    ran = in_empty_caches(tmp_path, **nowhere).run(COMPILED, Phase.TRACE, BOUNDS)
    assert ran.code == 1
    assert ran.records == ()
    assert "compiler" in ran.err.lower()
    assert "_torchlint_worker" not in ran.err
