"""Images that are unpacked by the process that trains, or by workers started in every epoch."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SAMPLES": 256, "SIDE": 192}, {"SAMPLES": 64, "SIDE": 32}),
    step="epoch",
    workers=True,
    before="""
import io

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def packed(seed):
    pixels = np.random.default_rng(seed).integers(0, 32, (3, SIDE, SIDE), dtype=np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, image=pixels)
    return file.getvalue()


class Images(Dataset):
    def __init__(self):
        self.files = [packed(seed) for seed in range(SAMPLES)]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = np.load(io.BytesIO(self.files[index]))["image"] / np.float32(255)
        return torch.from_numpy(image), index % 10


loader = DataLoader(Images(), batch_size=16, shuffle=True)
model = nn.Sequential(
    nn.AvgPool2d(8), nn.Flatten(), nn.Linear(3 * (SIDE // 8) ** 2, 64), nn.ReLU(), nn.Linear(64, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def run(steps):
    losses = []
    for epoch in range(steps):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).mean()
""",
)
