"""Short epochs: without persistent workers each of them begins with starting processes."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SAMPLES": 32}, {"SAMPLES": 256}),
    step="epoch",
    workers=True,
    before="""
import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.full((32,), float(index))


loader = DataLoader(Samples(), batch_size=16, num_workers=2)


def run(steps):
    total = torch.zeros(32)
    for epoch in range(steps):
        for batch in loader:
            total += batch.sum(0)
    return total
""",
)
