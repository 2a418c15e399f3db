"""What verify says of trainings whose change is known: other rounding, other seeds, other steps.

    python benchmarks/verify_agreement.py [--seeds N]

Small nets are trained for 50 steps on the CPU, as they are and with one change, and compared as
`torchlint verify` compares trace runs.  Each line counts the classes that a change was given, over
nets, optimizers, seeds and the seeds that they are held against.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from torchlint.rule import Level
from torchlint.verify.agree import agreement
from torchlint.verify.model import Ending, Phase, Record, Run, Same, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

STEPS, BATCH, SAMPLES = 50, 32, 640
ROUNDING = ("one bit", "float64", "fused", "channels_last")
STREAMS = ("another seed", "another order", "one number drawn")
PRECISION = ("bfloat16",)
OTHER = (
    "learning rate x1.01", "learning rate x1.1", "learning rate x2", "gradients kept",
    "shuffled labels", "loss / 2", "loss x0.99", "gradients clipped",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A net with its data and optimizer."""

    data: str
    optimizer: str
    rate: float


TASKS = (
    Task("images", "SGD", 0.01), Task("images", "AdamW", 1e-3), Task("images", "SGD", 0.1),
    Task("numbers", "SGD", 0.01), Task("numbers", "AdamW", 1e-3), Task("numbers", "AdamW", 1e-2),
)  # fmt: skip


def samples(task: Task) -> tuple[Tensor, Tensor]:
    """Return the data, which is the same for all seeds."""
    given = torch.Generator().manual_seed(1234)
    if task.data == "images":
        classes = torch.randn(10, 3, 16, 16, generator=given)
        labels = torch.randint(0, 10, (SAMPLES,), generator=given)
        return classes[labels] / 2 + torch.randn(SAMPLES, 3, 16, 16, generator=given), labels
    inputs = torch.randn(SAMPLES, 20, generator=given)
    weights = torch.randn(20, 1, generator=given)
    noise = 0.1 * torch.randn(SAMPLES, 1, generator=given)
    return inputs, torch.tanh(inputs @ weights) + noise


def net(task: Task) -> nn.Module:
    """Return a fresh net."""
    if task.data == "images":
        # the gradients of biases before a BatchNorm are nothing but rounding: the hard case
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),  # torchlint: ignore[TL703]
            nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),  # torchlint: ignore[TL703]
            nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(128, 10),
        )  # fmt: skip
    return nn.Sequential(
        nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(64, 1),
    )  # fmt: skip


def optimizer_of(task: Task, model: nn.Module, change: str) -> torch.optim.Optimizer:
    """Return the optimizer, changed or not."""
    rate = task.rate
    if change.startswith("learning rate"):
        rate *= float(change.rpartition("x")[2])
    fused = True if change == "fused" else None
    if task.optimizer == "SGD":
        return torch.optim.SGD(model.parameters(), rate, 0.9, weight_decay=0.01, fused=fused)
    return torch.optim.AdamW(model.parameters(), rate, fused=fused)


def disturb(model: nn.Module) -> None:
    """Change the last bit of half of the weights."""
    given = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 6e-8 * torch.randint(0, 2, parameter.shape, generator=given))


def batches(seed: int, change: str) -> Iterator[Tensor]:
    """Yield which samples each step sees."""
    given = torch.Generator().manual_seed(seed + 777 * (change == "another order"))
    while True:
        yield from torch.randperm(SAMPLES, generator=given).split(BATCH)


def loss_of(task: Task, change: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of a batch, changed or not."""
    if change == "shuffled labels":
        targets = targets[torch.randperm(BATCH, generator=torch.Generator().manual_seed(99))]
    given = functional.cross_entropy if task.data == "images" else functional.mse_loss
    scale = {"loss / 2": 0.5, "loss x0.99": 0.99}.get(change, 1.0)
    return given(outputs.to(torch.promote_types(outputs.dtype, torch.float32)), targets) * scale


def train(task: Task, seed: int, change: str) -> Trace:
    """Train a net with one change and return what a trace run would hold."""
    torch.manual_seed(seed)
    (inputs, targets), model, seen = samples(task), net(task), []
    if change == "one bit":
        disturb(model)
    if change == "float64":
        model, inputs = model.double(), inputs.double()
        targets = targets.double() if targets.is_floating_point() else targets
    layout = torch.contiguous_format
    if change == "channels_last" and task.data == "images":
        layout = torch.channels_last
        model = model.to(memory_format=layout)
    if change == "one number drawn":
        torch.rand(1)
    optimizer, losses = optimizer_of(task, model, change), []
    for chosen in itertools.islice(batches(seed, change), STEPS):
        seen.append(str(chosen.tolist()))
        if change != "gradients kept":
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=change == "bfloat16"):
            outputs = model(inputs[chosen].contiguous(memory_format=layout))
        loss = loss_of(task, change, outputs, targets[chosen])
        losses.append(loss.item())
        loss.backward()
        if change == "gradients clipped":
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
    weights = [parameter.detach() for parameter in model.parameters()]
    values = str([weight.tolist() for weight in weights])
    norms = tuple(float(weight.norm()) for weight in weights)
    random = str(hash(torch.get_rng_state().numpy().tobytes()))
    return Trace(tuple(losses), tuple(seen), str(seed), values, norms, random, ())


def run(trace: Trace) -> Run:
    """Return a trace run of one process."""
    record = Record(
        rank=0, world=1, ended="bound", device="cpu", torch=torch.__version__, steps=(),
        optimizers=(), backwards=(), waits=(), start=0.0, workers=0, trace=trace,
    )  # fmt: skip
    return Run("", Phase.TRACE, Ending.BOUND, 0, "", 0.0, 0, (record,))


def classes(change: str, seeds: int, originals: dict[tuple[Task, int], Run]) -> Counter[Same]:
    """Count what a change is called, over all tasks and pairs of seeds."""
    found: Counter[Same] = Counter()
    for task, seed in itertools.product(TASKS, range(seeds)):
        before = originals[task, seed]
        if change == "another seed":
            after = originals[task, seed + seeds]
        else:
            after = run(train(task, seed, change))
        for other in range(2 * seeds):
            if other in {seed, seed + seeds}:
                continue
            against = originals[task, other]
            said = agreement(before, before, against, after, level=Level.E3, safety=None)
            found[said.same] += 1
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, CPU, {STEPS} steps")
    originals = {
        (task, seed): run(train(task, seed, "")) for task in TASKS for seed in range(2 * seeds)
    }
    print(f"{'':22}" + "".join(f"{same.words:>23}" for same in Same))
    for change in (*ROUNDING, *STREAMS, *PRECISION, *OTHER):
        found = classes(change, seeds, originals)
        print(f"{change:22}" + "".join(f"{found[same]:23}" for same in Same), flush=True)


if __name__ == "__main__":
    main()
