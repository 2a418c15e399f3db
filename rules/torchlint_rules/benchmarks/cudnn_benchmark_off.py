"""Convolutions on images of one size, by the algorithm that cuDNN guesses or by the fastest."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"CHANNELS": 32, "SIDE": 32}, {"CHANNELS": 64, "SIDE": 112}),
    needs_cuda="cuDNN runs on a GPU only",
    before="""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, CHANNELS, 7, padding=3), nn.ReLU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(),
            nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.last = nn.Linear(2 * CHANNELS, 10)

    def forward(self, x):
        return self.last(self.features(x).mean((2, 3)))


images = TensorDataset(
    torch.randn(64, 3, SIDE, SIDE, device=device), torch.randint(10, (64,), device=device)
)
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
# torch remembers for each thread which algorithm was chosen, with or without the switch: in a
# thread of its own, backward pass included, a run does not meet the choices of another
thread = ThreadPoolExecutor(1)


def train(steps):
    x, y = images[:32]
    losses = []
    with torch.autograd.set_multithreading_enabled(False):
        for _ in range(steps):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).mean()


def run(steps):
    return thread.submit(train, steps).result()


if __name__ == "__main__":
    print(run(1000))
""",
)
