"""Clipped gradients under a scaler: unscaling them first takes no more time, and clips truly."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64}, {"WIDTH": 512}),
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler(device.type)
x = torch.randn(64, WIDTH, device=device)
y = x.sum(1, keepdim=True)


def run(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=device.type == "cuda"):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return loss, list(model.parameters())
""",
)
