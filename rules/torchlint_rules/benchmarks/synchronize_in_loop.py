"""A training step that ends with a wait for the GPU."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 512}),
    gpu_sizes=({"WIDTH": 2048, "BATCH": 512},),
    needs_cuda="a CPU has nothing to wait for",
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
    for step in range(steps):
        loss = nn.functional.mse_loss(model(xs[step % 8]), ys[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
    return loss, list(model.parameters())
""",
)
