"""A step of one process of a distributed training, through a row of layers."""

from torchlint.benchmark import Benchmark
from torchlint.rule import Level

BENCHMARK = Benchmark(
    sizes=({"LAYERS": 20, "WIDTH": 64}, {"LAYERS": 100, "WIDTH": 64}),
    level=Level.E1,
    before="""
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if not distributed.is_initialized():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(device)
model = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(32, WIDTH).to(device)


def run(steps):
    for _ in range(steps):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return list(model.parameters())
""",
)
