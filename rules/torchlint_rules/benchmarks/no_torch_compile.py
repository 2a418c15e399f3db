"""A step of many small operations, started one by one or compiled into few kernels."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=(
        {"WIDTH": 64, "BATCH": 256},
        {"WIDTH": 256, "BATCH": 32768},
        {"WIDTH": 1024, "BATCH": 8192},
    ),
    compiles=True,
    needs_cuda="on a CPU it needs a C++ compiler, which many machines lack",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.1))

    def forward(self, x):
        h = self.linear(self.norm(x))
        return x + h * torch.sigmoid(1.702 * h) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.last(self.blocks(x))


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, WIDTH, device=device)
y = torch.randint(10, (BATCH,), device=device)


def run(steps):
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


if __name__ == "__main__":
    print(run(1000))
""",
)
