"""Trace runs: losses, hashes, random streams and reads; equal scripts give equal traces."""

from __future__ import annotations

import math

import pytest
from worker_tools import TOY, Project

from torchlint.verify.model import Anchor, Bounds, Phase, Read

BOUNDS = Bounds(steps=5, warmup=2, seconds=60, anchor=Anchor("optimizer", 0))
FOREVER = TOY + "while True: step()\n"
RANDOM = """
import random
import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset
SEEDS
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
noise = numpy.random.default_rng()
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
while True:
    for (batch,) in loader:
        scale = random.random() + numpy.random.rand() + noise.random()
        loss = (model(batch) * scale).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


def trace_of(project, script, bounds=BOUNDS, **more):
    return project.run(script, Phase.TRACE, bounds, **more).only.trace


def test_losses_and_parameters_are_those_of_the_script(project) -> None:
    ran = project.run(
        TOY
        + """
parameters = list(model.parameters())
for parameter in parameters:
    torch.nn.init.ones_(parameter)
for count in range(5):
    print(step().item())
    norms = [float(parameter.norm()) for parameter in parameters]
    print(*norms, flush=True)
""",
        Phase.TRACE,
        BOUNDS,
    )
    lines = ran.out.splitlines()
    trace = ran.only.trace
    assert trace.losses[:4] == tuple(float(line) for line in lines[0:8:2])
    assert len(trace.losses) == 5
    assert len(trace.norms) == 2
    assert trace.initial != trace.parameters
    assert trace.norms[0] < float(lines[7].split()[0])


def test_a_script_without_seeds_is_repeated_exactly(project, tmp_path) -> None:
    script = RANDOM.replace("SEEDS", "")
    first = trace_of(project, script)
    second = trace_of(Project(tmp_path / "again"), script)
    assert first == second
    assert len(set(first.batches)) == len(first.batches) == 5
    assert len(set(first.losses)) == 5


@pytest.mark.parametrize(
    "seeds", ["", "torch.manual_seed(1); random.seed(2); numpy.random.seed(3)"]
)
def test_another_seed_is_another_run_that_can_be_repeated(project, tmp_path, seeds) -> None:
    script = RANDOM.replace("SEEDS", seeds)
    reseeded = Bounds(steps=5, warmup=2, seconds=60, anchor=Anchor("optimizer", 0), reseed=1)
    before = trace_of(project, script)
    after = trace_of(Project(tmp_path / "other"), script, reseeded)
    again = trace_of(Project(tmp_path / "again"), script, reseeded)
    assert after == again
    assert after.initial != before.initial
    assert after.batches != before.batches
    assert after.random != before.random


def test_generators_that_the_script_seeds_are_reseeded_too(project, tmp_path) -> None:
    script = """
import torch
generator = torch.Generator().manual_seed(7)
assert isinstance(torch.default_generator, torch.Generator)
weight = torch.nn.Parameter(torch.randn(3, generator=generator))
optimizer = torch.optim.SGD([weight], lr=0.1)
while True:
    weight.sum().backward()
    optimizer.step()
"""
    reseeded = Bounds(steps=5, warmup=2, seconds=60, anchor=Anchor("optimizer", 0), reseed=1)
    before = trace_of(project, script)
    after = trace_of(Project(tmp_path / "other"), script, reseeded)
    assert before.initial != after.initial


def test_a_loss_is_kept_as_it_was_when_the_backward_began(project) -> None:
    trace = trace_of(
        project,
        TOY
        + """
while True:
    loss = model(torch.ones(3, 4)).sum() * 0 + 2
    loss.backward()
    loss.data.mul_(100)
    optimizer.step()
""",
    )
    assert trace.losses == (2.0,) * 5


def test_losses_that_are_no_single_number_are_none(project) -> None:
    trace = trace_of(
        project,
        TOY
        + """
while True:
    given = model(torch.ones(3, 4))
    given.backward(torch.ones_like(given))
    (model(torch.ones(3, 4)).sum() * float("nan")).backward()
    optimizer.step()
""",
    )
    assert trace.losses[0] is None
    assert math.isnan(trace.losses[1])


def test_a_scaled_loss_is_kept_unscaled(project) -> None:
    trace = trace_of(
        project,
        TOY
        + """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
while True:
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).sum() * 0 + 3
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    )
    assert trace.losses == (3.0,) * 5


def test_steps_that_a_scaler_skips_are_no_steps(project) -> None:
    record = project.run(
        TOY
        + """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for count in range(10**9):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).sum()
    if count % 3 == 0:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        Phase.TRACE,
        BOUNDS,
    ).only
    assert (len(record.steps[0]), len(record.backwards)) == (5, 8)


def test_without_an_optimizer_the_graph_names_the_parameters(project) -> None:
    script = """
import torch
weight = torch.ones(3, requires_grad=True)
bias = torch.ones(1, requires_grad=True)
while True:
    (weight * 2 + bias).sum().backward()
    with torch.no_grad():
        for each in weight, bias:
            each -= 0.1 * each.grad
            each.grad = None
"""
    bounds = Bounds(steps=5, warmup=2, seconds=60, anchor=Anchor("backward"))
    trace = trace_of(project, script, bounds)
    assert len(trace.norms) == 2
    assert trace.initial != trace.parameters


def test_reads_are_counted_where_the_script_asks_for_them(project) -> None:
    (project.copy).mkdir(parents=True)
    project.write("tools.py", "def mean(values):\n    return sum(v.item() for v in values)\n")
    trace = trace_of(
        project,
        TOY.replace("SGD", "AdamW")
        + """
from tools import mean
while True:
    loss = step()
    if loss > 0:
        mean([loss, loss])
    text = f"{loss:.3f}"
    loss.detach().numpy()
""",
    )
    assert set(trace.reads) == {
        Read("train.py", 16, "bool", 4),
        Read("tools.py", 2, "item", 8),
        Read("train.py", 18, "item", 4),
        Read("train.py", 19, "numpy", 4),
    }


def test_what_a_dataset_reads_while_it_loads_is_not_counted(project) -> None:
    trace = trace_of(
        project,
        TOY
        + """
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, place):
        return torch.ones(1).item()
while True:
    for batch in DataLoader(Data()):
        step()
""",
    )
    assert trace.reads == ()
    assert len(trace.batches) == 5


def test_batches_of_every_shape_are_hashed_by_what_they_hold(project) -> None:
    script = """
import collections, dataclasses, torch, numpy
from torch.utils.data import DataLoader
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
Pair = collections.namedtuple("Pair", "left right")
@dataclasses.dataclass
class Sample:
    data: object
one = torch.arange(24.).reshape(1, 2, 3, 4)
batches = [
    one, one.contiguous(memory_format=torch.channels_last), one + 1, one.double(), one.flatten(),
    one.bfloat16(), [one], {"a": one}, {"b": one}, Pair(one, 1), Pair(one, 2), Sample(one),
    Sample(one + 1), one.numpy(), one.to_sparse(), torch.empty(0), numpy.array(["a", None]), "text",
    {"deep": [{"er": (one, None)}]},
]
for batch in DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch):
    (weight * 2).sum().backward()
    optimizer.step()
"""
    trace = trace_of(project, script, Bounds(100, 1, 60, Anchor("optimizer", 0)))
    hashes = trace.batches
    assert len(hashes) == 19
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 18
