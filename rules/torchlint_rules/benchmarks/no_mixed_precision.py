"""A training step on a GPU in float32 or TF32, and in bfloat16 where autocast allows it."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=(
        {"WIDTH": 256, "BATCH": 64, "TF32": 0},
        {"WIDTH": 2048, "BATCH": 1024, "TF32": 0},
        {"WIDTH": 2048, "BATCH": 1024, "TF32": 1},
    ),
    needs_cuda="autocast for CUDA is switched off on a CPU",
    before="""
import torch
from torch import nn

torch.set_float32_matmul_precision("high" if TF32 else "highest")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
x = torch.randn(BATCH, WIDTH, device=device)
y = torch.randint(10, (BATCH,), device=device)


def run(steps):
    losses = []
    for _ in range(steps):
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()
""",
)
