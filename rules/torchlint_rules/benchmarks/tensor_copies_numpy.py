"""Arrays that become tensors: `torch.tensor` copies what `torch.from_numpy` shares."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SIDE": 64}, {"SIDE": 512}),
    step="image",
    before="""
import numpy as np
import torch
from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self):
        self.images = np.random.rand(4, 3, SIDE, SIDE).astype(np.float32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index] * 2.0
        return torch.tensor(image)


images = Images()


def run(steps):
    for step in range(steps):
        image = images[step % 4]
    return image
""",
)
