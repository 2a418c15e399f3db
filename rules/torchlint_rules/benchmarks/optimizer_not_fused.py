"""AdamW on many small tensors, and on larger ones: a kernel for each operation, or one for all."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 32, "LAYERS": 24}, {"WIDTH": 384, "LAYERS": 8}),
    gpu_sizes=({"WIDTH": 4096, "LAYERS": 8},),  # 134 million parameters
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Tanh())
          for _ in range(LAYERS)]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
x = torch.randn(64, WIDTH, device=device)
y = torch.randn(64, WIDTH, device=device)


def run(steps):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, [layer[0].weight for layer in layers]
""",
)
