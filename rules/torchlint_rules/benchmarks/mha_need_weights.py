"""Attention in a training step, with weights that nobody reads and without."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"TOKENS": 256, "WIDTH": 64}, {"TOKENS": 32, "WIDTH": 128}),
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.linear = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        h = self.norm(x)
        attended, _ = self.attention(h, h, h)
        x = x + attended
        return x + self.linear(x)


model = nn.Sequential(Block(), Block()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(2, TOKENS, WIDTH, device=device)
y = x.flip(1)


def run(steps):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, list(model.parameters())
""",
)
