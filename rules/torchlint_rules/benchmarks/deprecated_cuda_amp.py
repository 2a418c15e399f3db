"""Mixed precision by its old names, which warn in every step; without a GPU it is switched off."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64}, {"WIDTH": 512}),
    before="""
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
model = nn.Sequential(
    nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = GradScaler(enabled=use_amp)
x = torch.randn(64, 32, device=device)
y = torch.randint(10, (64,), device=device)


def run(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        with autocast(enabled=use_amp):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss, list(model.parameters())
""",
)
