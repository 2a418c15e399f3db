"""Epochs whose totals keep graphs: of each step in training, with all activations in validation."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64, "BATCHES": 16}, {"WIDTH": 512, "BATCHES": 8}),
    step="epoch",
    before="""
import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCHES, 64, 32, device=device)
y = torch.randint(10, (BATCHES, 64), device=device)


def train_epoch():
    model.train()
    total = 0.0
    for inputs, labels in zip(x, y):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    return total / BATCHES


def validate():
    model.eval()
    total = 0.0
    for inputs, labels in zip(x, y):
        loss = F.cross_entropy(model(inputs), labels)
        total += loss
    return total / BATCHES


def run(steps):
    for epoch in range(steps):
        train_loss = train_epoch()
        val_loss = validate()
    return train_loss.item(), val_loss.item(), list(model.parameters())
""",
)
