"""A running mean of the outputs that goes to the host and back in every step."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 512}),
    gpu_sizes=({"WIDTH": 2048, "BATCH": 512},),
    needs_cuda="on a CPU nothing is copied",
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
    mean = torch.zeros(WIDTH, device=device)
    for step in range(steps):
        out = model(xs[step % 8])
        loss = nn.functional.mse_loss(out, ys[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean += out.detach().mean(0).cpu().to(device) / steps
    return mean, list(model.parameters())
""",
)
