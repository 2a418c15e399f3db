"""Training steps after which a teacher follows: of many small layers, and of a few large ones."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 32, "LAYERS": 24}, {"WIDTH": 384, "LAYERS": 8}),
    gpu_sizes=({"WIDTH": 4096, "LAYERS": 8},),  # 134 million parameters
    before="""
import copy

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Tanh())
          for _ in range(LAYERS)]
model = nn.Sequential(*layers).to(device)
teacher = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, WIDTH, device=device)
y = torch.randn(64, WIDTH, device=device)


def run(steps):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for average, parameter in zip(teacher.parameters(), model.parameters()):
            average.data.mul_(0.99).add_(0.01 * parameter.data)
    return loss, [parameter for parameter in teacher.parameters()]
""",
)
