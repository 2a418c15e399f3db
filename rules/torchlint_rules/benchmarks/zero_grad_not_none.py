"""Plain SGD on a perceptron: zeroing reads and writes every gradient once more."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "LAYERS": 8}, {"WIDTH": 1024, "LAYERS": 4}),
    gpu_sizes=({"WIDTH": 4096, "LAYERS": 8},),  # 134 million parameters
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(16, WIDTH, device=device)
y = torch.randn(16, WIDTH, device=device)


def run(steps):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
    return loss, list(model.parameters())
""",
)
