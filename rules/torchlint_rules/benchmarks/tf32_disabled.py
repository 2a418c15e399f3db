"""A small Transformer whose matrix products a GPU computes in full float32, or in TF32."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 128, "BATCH": 8}, {"WIDTH": 1024, "BATCH": 32}),
    needs_cuda="a CPU has no TensorFloat-32",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, 128, WIDTH, device=device)
y = x.flip(1)


def run(steps):
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


if __name__ == "__main__":
    print(run(1000))
""",
)
