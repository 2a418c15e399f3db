"""The running loss, read from the GPU in every step or kept there until the end of the loop."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 512}),
    gpu_sizes=({"WIDTH": 2048, "BATCH": 512},),
    needs_cuda="on a CPU the loss is there already, and reading it is free",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(6)])
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
xs = torch.randn(8, BATCH, WIDTH, device=device)
ys = torch.randn(8, BATCH, WIDTH, device=device)


def run(steps):
    running_loss = 0.0
    for step in range(steps):
        loss = nn.functional.mse_loss(model(xs[step % 8]), ys[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    return running_loss / steps, list(model.parameters())
""",
)
