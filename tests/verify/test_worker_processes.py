"""Scripts of many processes: each that stepped has a record, and none of them is left."""

from __future__ import annotations

import sys

import pytest
from worker_tools import TOY, Project

from torchlint.verify.model import Anchor, Bounds, Phase

BOUNDS = Bounds(steps=5, warmup=2, seconds=100, anchor=Anchor("optimizer", 0))


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_have_no_record_and_are_gone(project, context) -> None:
    ran = project.run(
        f"""
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    data = TensorDataset(torch.ones(4000, 1))
    while True:
        for (batch,) in DataLoader(data, num_workers=2, multiprocessing_context={context!r}):
            (weight * batch).sum().backward()
            optimizer.step()
""",
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.only.workers == 2
    assert len(ran.only.waits) == 7  # the start of the workers, and the batches
    assert all(0 < length < 60 for _, length in ran.only.waits)


def test_lines_of_a_dataset_are_counted_in_its_workers(project) -> None:
    script = """
import torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, place):
        return torch.ones(1)
    def never(self):
        return 1
if __name__ == "__main__":
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    while True:
        for batch in DataLoader(Data(), num_workers=1, multiprocessing_context="spawn"):
            (weight * batch).sum().backward()
            optimizer.step()
"""
    lines = {"train.py": frozenset({8, 10, 17})}
    reached = project.run(script, lines=lines).only.reached["train.py"]
    assert reached[8] >= 5
    assert reached[10] == 0
    assert reached[17] == 6


def test_a_child_that_trains_has_its_own_record_and_ends_its_parent(project) -> None:
    ran = project.run(
        TOY
        + """
import torch.multiprocessing as mp
def train(rank):
    while True:
        step()
if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
    print("after")
""",
    )
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert [len(record.steps[0]) for record in ran.records] == [6, 6]
    assert {record.ended for record in ran.records} == {"bound"}


def test_what_a_parent_did_before_a_fork_is_not_its_childs(project) -> None:
    ran = project.run(
        TOY
        + """
import os
for _ in range(3):
    step()
if os.fork() == 0:
    step()
    os._exit(0)
os.wait()
""",
    )
    assert ran.code == 0
    assert sorted(len(record.steps[0]) for record in ran.records) == [1, 3]
    assert {record.ended for record in ran.records} == {"exit"}


def test_ranks_under_torchrun(project) -> None:
    ran = project.run(
        """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
""",
        Phase.TIMING,
        BOUNDS,
        command=(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
    )
    assert ran.code == 0, ran.err
    assert [(record.rank, record.world) for record in ran.records] == [(0, 2), (1, 2)]
    assert [len(record.steps[0]) for record in ran.records] == [5, 5]


def test_ranks_that_the_script_spawns(project) -> None:
    ran = project.run(
        """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
def train(rank, store):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    mp.spawn(train, args=(os.path.abspath("store"),), nprocs=2)
    raise SystemExit("the ranks gave nothing")
""",
    )
    assert (ran.code, ran.err) == (0, "")
    assert [(record.rank, record.world) for record in ran.records] == [(0, 2), (1, 2)]


def test_processes_started_as_commands_are_looked_at_too(project) -> None:
    project.write("inner.py", TOY + "while True: step()\n")
    ran = project.run(
        "import subprocess, sys\nraise SystemExit(subprocess.call([sys.executable, 'inner.py']))\n"
    )
    assert (ran.code, len(ran.only.steps[0])) == (0, 6)


def test_a_thread_may_train(project) -> None:
    ran = project.run(
        TOY
        + """
import threading
def train():
    while True:
        step()
thread = threading.Thread(target=train)
thread.start()
thread.join()
""",
    )
    assert (ran.code, len(ran.only.steps[0])) == (0, 6)


def test_semaphores_of_the_script_are_given_back(project) -> None:
    ran = project.run(
        TOY
        + """
import multiprocessing
lock = multiprocessing.get_context("spawn").Lock()
while True:
    step()
"""
    )
    assert (ran.code, ran.err) == (0, "")
