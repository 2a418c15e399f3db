"""Convolutions whose bias the norm behind them subtracts again: with it, and without."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"CHANNELS": 8, "SIDE": 16}, {"CHANNELS": 32, "SIDE": 32}),
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def block(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


model = nn.Sequential(
    block(3, CHANNELS), nn.MaxPool2d(2), block(CHANNELS, CHANNELS), block(CHANNELS, CHANNELS),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(16, 3, SIDE, SIDE, device=device)
y = torch.randint(10, (16,), device=device)


def run(steps):
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()
""",
)
