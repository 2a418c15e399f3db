"""Steps that each begin a new pass over the data to take its first batch."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=(
        {"SAMPLES": 50_000, "STEPS": 16, "WORKERS": 0},
        {"SAMPLES": 1024, "STEPS": 16, "WORKERS": 0},
        {"SAMPLES": 1024, "STEPS": 4, "WORKERS": 1},
    ),
    step="epoch",
    before="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Points(Dataset):
    def __init__(self):
        self.x = torch.randn(SAMPLES, 32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.x[index].norm()


loader = DataLoader(Points(), batch_size=32, shuffle=True, num_workers=WORKERS)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    losses = []
    for epoch in range(steps):
        for step in range(STEPS):
            x, y = next(iter(loader))
            loss = nn.functional.mse_loss(model(x.to(device)).squeeze(1), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).mean()
""",
)
