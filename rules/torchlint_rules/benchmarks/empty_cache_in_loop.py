"""A training step that ends with Python's collector and, on a GPU, an emptied cache."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 512, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 64}),
    before="""
import gc

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)])
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
xs = torch.randn(8, BATCH, WIDTH, device=device)
ys = torch.randn(8, BATCH, WIDTH, device=device)


def run(steps):
    for step in range(steps):
        loss = nn.functional.mse_loss(model(xs[step % 8]), ys[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gc.collect()
        torch.cuda.empty_cache()
    return loss, list(model.parameters())
""",
)
