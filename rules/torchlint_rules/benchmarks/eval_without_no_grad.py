"""An evaluation that records for gradients what nobody asks for."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 128, "BATCH": 32}, {"WIDTH": 512, "BATCH": 128}),
    step="evaluation",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).to(device)
xs = torch.randn(4, BATCH, WIDTH, device=device)
ys = torch.randint(0, 10, (4, BATCH), device=device)


def evaluate():
    model.eval()
    correct = 0
    for x, y in zip(xs, ys):
        correct += (model(x).argmax(1) == y).sum().item()
    return correct / (4 * BATCH)


def run(steps):
    for _ in range(steps):
        accuracy = evaluate()
    return accuracy
""",
)
