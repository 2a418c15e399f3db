"""The classes that a step found, read before they arrived or when they have.

How many are right is not compared: with the flag that number is wrong on a GPU.  What is measured
is what the wait costs.
"""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 256, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 512}),
    gpu_sizes=({"WIDTH": 2048, "BATCH": 512},),
    needs_cuda="on a CPU nothing is copied",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(6)])
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
xs = torch.randn(8, BATCH, WIDTH, device=device)
labels = torch.randint(0, WIDTH, (8, BATCH))
ys = labels.to(device)


def run(steps):
    correct = 0
    for step in range(steps):
        logits = model(xs[step % 8])
        loss = nn.functional.cross_entropy(logits, ys[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        classes = logits.argmax(1).to("cpu", non_blocking=True)
        correct += int((classes == labels[step % 8]).sum())
    print(f"accuracy {correct / steps / BATCH:.3f}")
    return loss, list(model.parameters())
""",
)
