"""Four batches a step: dropping the gradients of three of them takes as long as using them all."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64}, {"WIDTH": 512}),
    step="step of four batches",
    before="""
import torch
from torch import nn

EVERY = 4

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
x = torch.randn(EVERY, 32, 32, device=device)
y = torch.randint(10, (EVERY, 32), device=device)


def run(steps):
    for step in range(steps * EVERY):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[step % EVERY]), y[step % EVERY]) / EVERY
        loss.backward()
        if (step + 1) % EVERY == 0:
            optimizer.step()
    return loss, list(model.parameters())
""",
)
