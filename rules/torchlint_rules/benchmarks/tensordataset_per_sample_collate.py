"""Tensors in memory: batches stacked from single samples, or taken as a whole."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SAMPLES": 2048, "FEATURES": 32}, {"SAMPLES": 512, "FEATURES": 3072}),
    step="epoch",
    before="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(SAMPLES, FEATURES), torch.randint(0, 10, (SAMPLES,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    for epoch in range(steps):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss, list(model.parameters())
""",
)
