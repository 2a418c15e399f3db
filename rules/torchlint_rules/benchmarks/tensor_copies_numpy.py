"""Frames of a film, stacked in NumPy: `torch.tensor` copies what `torch.as_tensor` shares."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"SIDE": 512}, {"SIDE": 84}),
    step="sample",
    before="""
import numpy as np
import torch
from torch.utils.data import Dataset


class Film(Dataset):
    def __init__(self):
        self.frames = np.random.rand(16, SIDE, SIDE).astype(np.float32)

    def __len__(self):
        return len(self.frames) - 3

    def __getitem__(self, index):
        frames = np.stack([self.frames[index + k] for k in range(4)])
        return torch.tensor(frames)


film = Film()


def run(steps):
    for step in range(steps):
        sample = film[step % len(film)]
    return sample
""",
)
