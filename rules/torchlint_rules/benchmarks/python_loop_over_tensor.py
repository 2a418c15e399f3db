"""A loss that is computed for one sample after the other, and for the whole batch."""

from torchlint.benchmark import Benchmark
from torchlint.rule import Level

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64, "BATCH": 16}, {"WIDTH": 256, "BATCH": 128}),
    level=Level.E1,
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, WIDTH, device=device)
y = torch.randn(BATCH, WIDTH, device=device)


def run(steps):
    for _ in range(steps):
        out = model(x)
        loss = 0
        for i in range(out.size(0)):
            loss = loss + torch.linalg.vector_norm(out[i] - y[i]) / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, list(model.parameters())
""",
    after="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, WIDTH, device=device)
y = torch.randn(BATCH, WIDTH, device=device)


def run(steps):
    for _ in range(steps):
        loss = torch.linalg.vector_norm(model(x) - y, dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, list(model.parameters())
""",
)
