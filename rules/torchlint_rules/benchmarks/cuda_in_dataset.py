"""Samples that are copied to the GPU one by one, or together as a batch, by the process itself."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=(
        {"BATCH": 64, "SIDE": 32, "BATCHES": 8},
        {"BATCH": 16, "SIDE": 128, "BATCHES": 8},
    ),
    gpu_sizes=({"BATCH": 128, "SIDE": 224, "BATCHES": 2},),
    step="epoch",
    needs_cuda="on a CPU nothing is copied",
    before="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(BATCHES * BATCH, 3, SIDE, SIDE)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index].to(device), torch.tensor(index % 10).to(device)


loader = DataLoader(Images(), batch_size=BATCH, shuffle=True)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 256), nn.ReLU(), nn.Linear(256, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    for epoch in range(steps):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss, list(model.parameters())
""",
    after="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(BATCHES * BATCH, 3, SIDE, SIDE)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], torch.tensor(index % 10)


loader = DataLoader(Images(), batch_size=BATCH, shuffle=True)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 256), nn.ReLU(), nn.Linear(256, 10)
).to(device)
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
