"""The states of an episode: a list of arrays that becomes a tensor number by number, or at once."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"LENGTH": 128, "FEATURES": 512}, {"LENGTH": 64, "FEATURES": 16}),
    before="""
import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(0)
policy = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-4)


def play():
    states = []
    for _ in range(LENGTH):
        state = rng.normal(size=FEATURES)
        states.append(state)
    actions = torch.arange(LENGTH, device=device) % 4
    return torch.tensor(states, dtype=torch.float32, device=device), actions


def run(steps):
    for _ in range(steps):
        states, actions = play()
        loss = nn.functional.cross_entropy(policy(states), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, list(policy.parameters())
""",
)
