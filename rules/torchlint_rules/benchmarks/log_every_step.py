"""The loss, printed in each of the fifty steps of an epoch or in the first of them."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 512}),
    gpu_sizes=({"WIDTH": 2048, "BATCH": 512},),
    step="epoch",
    needs_cuda="on a CPU the loss is there already, and reading it is free",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(6)])
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
xs = torch.randn(50, BATCH, WIDTH, device=device)
ys = torch.randn(50, BATCH, WIDTH, device=device)


def run(steps):
    for epoch in range(steps):
        for step, (x, y) in enumerate(zip(xs, ys)):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}, step {step}: loss {loss.item():.4f}")
    return loss, list(model.parameters())
""",
)
