"""Epochs of one of two processes: telling the sampler the epoch takes no time, and shuffles."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SAMPLES": 256}, {"SAMPLES": 2048}),
    step="epoch",
    before="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Points(Dataset):
    def __init__(self):
        self.x = torch.randn(SAMPLES, 16)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.x[index], self.x[index].norm()


points = Points()
sampler = DistributedSampler(points, num_replicas=2, rank=0)
loader = DataLoader(points, batch_size=32, sampler=sampler)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    losses = []
    for epoch in range(steps):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)).squeeze(1), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).mean()
""",
)
