"""Epochs under a profiler: all of their steps are recorded, or three of them by a schedule."""

from torchlint.benchmark import Benchmark

PROGRAM = """
import torch
from torch import nn
from torch.profiler import profile

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCHES, 64, 32, device=device)
y = torch.randint(10, (BATCHES, 64), device=device)


def train_epoch():
    with PROFILER as prof:
        for inputs, labels in zip(x, y):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()STEPPED
    return loss


def run(steps):
    for epoch in range(steps):
        loss = train_epoch()
    return loss, list(model.parameters())
"""

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64, "BATCHES": 50}, {"WIDTH": 256, "BATCHES": 20}),
    step="epoch",
    before=PROGRAM.replace("PROFILER", "profile()").replace("STEPPED", ""),
    after=PROGRAM.replace(
        "PROFILER",
        "profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1))",
    ).replace("STEPPED", "\n            prof.step()"),
)
