"""The labels of a small GAN, made on the host and copied to the GPU, or made there."""

from torchlint.benchmark import Benchmark

BENCHMARK = Benchmark(
    sizes=({"WIDTH": 64, "BATCH": 64}, {"WIDTH": 1024, "BATCH": 256}),
    needs_cuda="on a CPU nothing is copied",
    before="""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
maker = nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(device)
judge = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)).to(device)
makes = torch.optim.SGD(maker.parameters(), lr=1e-3)
judges = torch.optim.SGD(judge.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
reals = torch.randn(8, BATCH, WIDTH, device=device)
noises = torch.randn(8, BATCH, 32, device=device)


def run(steps):
    for step in range(steps):
        ones = torch.ones(BATCH, 1).to(device)
        zeros = torch.zeros(BATCH, 1).to(device)
        fake = maker(noises[step % 8])
        loss = criterion(judge(reals[step % 8]), ones) + criterion(judge(fake.detach()), zeros)
        judges.zero_grad()
        loss.backward()
        judges.step()
        loss = criterion(judge(fake), ones)
        makes.zero_grad()
        loss.backward()
        makes.step()
    return loss, list(maker.parameters()), list(judge.parameters())
""",
)
