"""A step on all GPUs: one process that copies the model to them, or a process for each.

With one GPU it shows what the two wrappers cost.
"""

from torchlint.benchmark import Benchmark
from torchlint.rule import Level

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 1024, "BATCH": 256},),
    level=Level.E2,
    needs_cuda="DataParallel calls the model as it is where there is no GPU",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
)
x = torch.randn(BATCH, WIDTH).to(device)
y = torch.randint(10, (BATCH,)).to(device)
model = nn.DataParallel(model).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return list(model.parameters())
""",
    after="""
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

PROCESSES = max(1, torch.cuda.device_count())


class Process:
    def __init__(self, rank, meeting, seed):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, 10),
        )
        x = torch.randn(BATCH, WIDTH).chunk(PROCESSES)[rank]
        y = torch.randint(10, (BATCH,)).chunk(PROCESSES)[rank]
        device, backend = torch.device("cpu"), "gloo"
        if torch.cuda.is_available():
            device, backend = torch.device("cuda", rank), "nccl"
            torch.cuda.set_device(device)
        distributed.init_process_group(
            backend, init_method=f"file://{meeting}", rank=rank, world_size=PROCESSES
        )
        self.model = DistributedDataParallel(model.to(device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.x, self.y = x.to(device), y.to(device)

    def train(self, steps):
        for _ in range(steps):
            loss = nn.functional.cross_entropy(self.model(self.x), self.y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def serve(orders, *how):
    process = Process(*how)
    while True:
        process.train(orders.get())


def run(steps):
    for queue in orders:
        queue.put(steps)
    first.train(steps)
    return list(first.model.parameters())


if multiprocessing.current_process().name == "MainProcess":
    how = tempfile.mktemp(), torch.initial_seed()
    context = multiprocessing.get_context("spawn")
    orders = [context.Queue() for _ in range(1, PROCESSES)]
    for rank, queue in enumerate(orders, 1):
        context.Process(target=serve, args=(queue, rank, *how), daemon=True).start()
    first = Process(0, *how)
""",
)
