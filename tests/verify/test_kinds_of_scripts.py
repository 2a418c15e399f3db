"""Scripts of all kinds are verified: their steps and losses are seen, and left as they are."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from executor_tools import Place, place
from kinds_tools import HEAD, STEPS, said, tried

from torchlint.verify.model import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOP = """
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    loss = say(model(torch.randn(3, 4)).square().mean())
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # what is looked for is so on a CPU
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with place(monkeypatch) as made:
        yield made


GPU_CAPABLE = """
import torch

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(20):
    total = 0.0
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total)
"""


def test_a_sum_of_losses_is_read_less_often_and_no_loss_changes(here: Place) -> None:
    seen = tried(here, {"train.py": GPU_CAPABLE}, code="TL201")
    assert seen.agreement.same.words == "bitwise equal"
    once, after = (sum(read.count for read in trace.reads) for trace in seen.traces)
    assert once == STEPS - 1  # the worker ends the run in the last step
    assert after < once
    assert seen.traces[0].losses == seen.traces[1].losses
    assert seen.steps(seen.timed) == [STEPS]


LOADER = """
class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.0, 2.0, torch.rand(()).item()])


def main():
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=4, shuffle=True, num_workers=2, multiprocessing_context="{way}"
    )
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(3):
        for batch in loader:
            optimizer.zero_grad()
            loss = say(model(batch).square().mean())
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


# What is slow here takes up to half a minute, and has its parts in the tests of the worker and of
# the executor, which always run: spawned workers, compiled models, ranks, relative imports.


@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_loader(here: Place, way: str) -> None:
    seen = tried(here, {"train.py": HEAD + LOADER.replace("{way}", way)})
    seen.check()
    assert seen.pilot.records[0].workers == 2
    once, after = seen.traces
    assert once.batches == after.batches
    assert len(set(once.batches)) == STEPS
    assert seen.session.how.turns.mode == "sequential"


GAN = """
maker, judge = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
of_judge = torch.optim.Adam(judge.parameters())
of_maker = torch.optim.RMSprop(maker.parameters())
for step in range(200):
    of_judge.zero_grad()
    made = maker(torch.randn(5, 2))
    loss = say(judge(torch.randn(5, 4)).square().mean() + judge(made.detach()).square().mean())
    loss.backward()
    of_judge.step()
    if step % 3 == 2:
        of_maker.zero_grad()
        loss = say(-judge(maker(torch.randn(5, 2))).mean())
        loss.backward()
        of_maker.step()
"""


def test_two_optimizers_are_counted_by_the_rarer_one_and_an_imported_file_is_fixed(
    here: Place,
) -> None:
    files = {"train.py": "from helpers import say, torch\n" + GAN, "helpers.py": HEAD}
    seen = tried(here, {**files, "other.py": HEAD})
    seen.check(losses=4 * STEPS)
    assert (seen.anchor.kind, seen.anchor.index) == ("optimizer", 1)
    assert seen.pilot.records[0].optimizers == ("Adam", "RMSprop")
    assert seen.files == ("helpers.py",)


SCALED_ACCUMULATION = """
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(400):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = say(model(torch.randn(3, 4)).float().square().mean() / 4)
    scaler.scale(loss).backward()
    if step % 4 == 3:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def test_losses_are_those_before_the_scaler_also_where_gradients_are_accumulated(
    here: Place,
) -> None:
    seen = tried(here, {"train.py": HEAD + SCALED_ACCUMULATION})
    seen.check(losses=4 * STEPS)
    assert (seen.anchor.kind, seen.anchor.index) == ("optimizer", 0)


LBFGS = """
model = torch.nn.Linear(4, 2)
inputs = torch.randn(16, 4)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=2, tolerance_change=0)
for step in range(100):
    def closure():
        optimizer.zero_grad()
        loss = say((model(inputs) - 1).square().mean())
        loss.backward()
        return loss

    optimizer.step(closure)
"""


def test_lbfgs_calls_its_closure_more_than_once_a_step(here: Place) -> None:
    tried(here, {"train.py": HEAD + LBFGS}).check(losses=2 * STEPS)


BY_HAND = """
weight = torch.randn(4, 2, requires_grad=True)
for step in range(100):
    loss = say((torch.randn(3, 4) @ weight).square().mean())
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
"""


def test_without_an_optimizer_backwards_are_steps(here: Place) -> None:
    seen = tried(here, {"train.py": HEAD + BY_HAND})
    assert seen.anchor.kind == "backward"
    seen.check()


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/deep/__init__.py": "",
    "pkg/deep/tools.py": HEAD,
    "pkg/train.py": "from .deep.tools import say, torch\n" + LOOP,
}


@pytest.mark.slow
def test_a_module_with_relative_imports(here: Place) -> None:
    seen = tried(here, PACKAGE, module="pkg.train")
    seen.check()
    assert seen.files == ("pkg/deep/tools.py",)


def test_a_file_that_is_imported_from_the_users_tree_is_not_exercised(here: Place) -> None:
    start = f"import sys\nsys.path.insert(0, {str(here.root / 'lib')!r})\n"
    files = {
        "train.py": start + "from helpers import say, torch\n" + LOOP,
        "lib/helpers.py": HEAD,
    }
    seen = tried(here, files, try_overlay=False)
    assert "lib/helpers.py was imported from somewhere else" in seen.unexercised
    assert seen.timed is None


@pytest.mark.slow
def test_a_compiled_model(here: Place) -> None:
    compiled = 'model = torch.compile(model, backend="eager")\noptimizer ='
    seen = tried(here, {"train.py": HEAD + LOOP.replace("optimizer =", compiled)})
    seen.check()


DDP = """
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    loss = say(model(torch.randn(3, 4)).square().mean())
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_of_torchrun(here: Place) -> None:
    launcher = f"torchrun --nproc-per-node 2 --master-port {_free_port()}"
    seen = tried(here, {"train.py": HEAD + DDP}, launcher=launcher)
    seen.check(processes=2)
    assert [(record.rank, record.world) for record in seen.after.records] == [(0, 2), (1, 2)]
    first, second = (record.trace for record in seen.after.records)
    assert first.parameters == second.parameters  # the same weights on both
    assert first.losses != second.losses  # from data of their own
    assert seen.session.how.turns.mode == "sequential"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


ACCELERATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
loader = torch.utils.data.DataLoader(torch.randn(200, 4), batch_size=4, shuffle=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        loss = say(model(batch).square().mean())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


def test_accelerate(here: Place) -> None:
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    seen = tried(here, {"train.py": HEAD + ACCELERATE})
    assert seen.after.ending is Ending.BOUND, seen.after.stderr
    assert seen.steps(seen.after) == [STEPS]
    assert seen.agreement.same.words == "bitwise equal"
    told = seen.traces[1].losses
    assert [2 * loss for loss in told] == said(seen.after)  # it divides before it goes backward
