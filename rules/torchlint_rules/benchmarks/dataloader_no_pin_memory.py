"""Batches that four workers make, copied to the GPU from ordinary memory and from pinned memory."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=(
        {"BATCH": 32, "SIDE": 96, "BATCHES": 16},
        {"BATCH": 64, "SIDE": 32, "BATCHES": 16},
    ),
    gpu_sizes=({"BATCH": 128, "SIDE": 224, "BATCHES": 4},),
    step="epoch",
    workers=True,
    needs_cuda="memory is pinned for copies to a GPU",
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
        return self.images[index], index % 10


loader = DataLoader(
    Images(), batch_size=BATCH, shuffle=True, num_workers=4, persistent_workers=True
)
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
