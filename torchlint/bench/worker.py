"""Runs in the process that is measured: reads a job from standard input, writes what it gave.

Only the standard library and torch are needed here.  The job and the answers are lines of JSON:

    {"device": "auto", "seed": 7, "seconds": 0.4, "rows": [
        {"key": "TL602 batch 64", "before": "module", "after": "module", "level": 0}]}

The modules lie beside this file.  Each row is announced by ``{"begun": key}`` before its line
comes, so that the parent knows whose fault it was if this process dies.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import random
import statistics
import sys
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CHECKED = 3  # steps whose results are compared
TURN = 0.02  # seconds that a turn lasts at least
LONGEST = 10  # times as many steps as the slower arm needs for that: the faster may have less time
FEWEST, MOST = 2, 60  # turns of each arm
CLOSE = 1e-5  # what other rounding may change, as a share of the largest number (E1)
WITHIN = 0.2  # how far numbers may lie apart that are alike on the whole (E2)


def main() -> None:
    """Measure every row of the job."""
    say = _channel()
    job = json.loads(sys.stdin.readline())
    sys.path.append(job["versions"])
    worker = importlib.import_module("_torchlint_worker.versions")  # that of `torchlint verify`

    cuda = job["device"] != "cpu" and torch.cuda.is_available()
    if job["device"] == "cuda" and not cuda:
        sys.exit("torch finds no CUDA device; say --device cpu")
    if not cuda:
        torch.set_num_threads(1)  # threads that wait for each other make times of a small machine
    name = torch.cuda.get_device_name() if cuda else "CPU"
    say({"machine": {**worker.versions(torch, cuda=cuda), "device": name}})
    for row in job["rows"]:
        say({"begun": row["key"]})
        try:
            found = measure(row, job, cuda)
        except Exception:  # noqa: BLE001  the row's own fault; the others are measured all the same
            found = {"error": traceback.format_exc(limit=-3)}
        say({"row": row["key"], **found})
        gc.collect()


def _channel() -> Callable[[Mapping[str, Any]], None]:
    """Return a function that writes lines for the parent; what programs print goes to stderr."""
    out, sys.stdout = sys.stdout, sys.stderr

    def say(line: Mapping[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    return say


def measure(row: Mapping[str, Any], job: Mapping[str, Any], cuda: bool) -> dict[str, Any]:
    """Compare what both arms compute, then let them take turns."""
    switches = Switches()
    arms = []
    results = []
    for name in ("before", "after"):
        arm = Arm(row[name], switches, cuda)
        seed(job["seed"])
        results.append(arm.load())
        arms.append(arm)
    try:
        difference, equal = compare(*results)
        found = {"difference": difference, "equal": equal}
        found["allowed"] = allowed(row["level"], difference, equal)
        take_turns(arms, job["seconds"], first=job["seed"] % 2)
        return {**found, **{arm.side: arm.figures() for arm in arms}}
    finally:
        switches.reset()
        for arm in arms:
            sys.modules.pop(arm.module, None)


def seed(number: int) -> None:
    """Seed what a program may draw from."""
    random.seed(number)
    torch.manual_seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


class Switches:
    """The switches of torch that hold for the whole process, so that arms do not share them."""

    def __init__(self) -> None:
        self.known: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
            (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
            (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
            (torch.get_default_dtype, torch.set_default_dtype),
            (torch.get_num_threads, torch.set_num_threads),
            *(
                (lambda of=of, name=name: getattr(of, name),
                 lambda value, of=of, name=name: setattr(of, name, value))
                for of, name in (
                    (torch.backends.cudnn, "benchmark"),
                    (torch.backends.cudnn, "deterministic"),
                    (torch.backends.cudnn, "allow_tf32"),
                    (torch.backends.cuda.matmul, "allow_tf32"),
                )
            ),
        )  # fmt: skip
        self.first = self.read()

    def read(self) -> list[Any]:
        """Return how they stand."""
        return [get() for get, _ in self.known]

    def set(self, values: Sequence[Any]) -> None:
        """Put those that stand otherwise as they were read."""
        for (get, put), value in zip(self.known, values, strict=True):
            if get() != value:
                put(value)

    def reset(self) -> None:
        """Put them as they were at first."""
        self.set(self.first)


class Arm:
    """One module and its times."""

    def __init__(self, module: str, switches: Switches, cuda: bool) -> None:
        self.module = module
        self.side = module.rpartition("_")[2]
        self.switches = switches
        self.cuda = cuda
        self.steps = 1
        self.turns: list[
            tuple[float, float, float]
        ] = []  # (by the clock, of the processor, on the GPU): seconds a step
        self.memory: int | None = None
        self.syncs: float | None = None

    def load(self) -> Any:
        """Import the module, and return what its first steps compute."""
        self.switches.reset()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.run = importlib.import_module(self.module).run
        self.stand = self.switches.read()
        result = self.run(CHECKED)
        if self.cuda:
            torch.cuda.synchronize()
            self.memory = torch.cuda.max_memory_allocated()
            self.syncs = self.count_syncs()
        return result

    def count_syncs(self) -> float:
        """Return the waits for the GPU in a step, as torch's own debug mode sees them."""
        self.run(1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self.run(CHECKED)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return sum("synchronizing" in str(each.message) for each in caught) / CHECKED

    def calibrate(self) -> int:
        """Find how many steps make a turn; the steps that it takes are the warm-up."""
        wall = math.inf
        for _ in range(3):
            wall = min(wall, self.turn()[0])
            if wall > TURN:
                break
        return max(1, math.ceil(TURN / max(wall, 1e-9)))

    def turn(self) -> tuple[float, float, float]:
        """Make the steps of a turn, and return what one took."""
        self.switches.set(self.stand)
        if self.cuda:
            torch.cuda.synchronize()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            first.record()
        wall, cpu = time.perf_counter(), time.process_time()
        self.run(self.steps)
        if self.cuda:
            last.record()
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        gpu = first.elapsed_time(last) / 1e3 / self.steps if self.cuda else math.nan
        return wall / self.steps, cpu / self.steps, gpu

    def figures(self) -> dict[str, Any]:
        """Return the middle of the turns."""
        wall, cpu, gpu = zip(*self.turns, strict=True)
        return {
            "wall": statistics.median(wall),
            "cpu": statistics.median(cpu),
            "gpu": statistics.median(gpu) if self.cuda else None,
            "memory": self.memory,
            "syncs": self.syncs,
        }


def take_turns(arms: Sequence[Arm], seconds: float, first: int) -> None:
    """Time both arms in the order ABBA, until the time is over; the first turns are dropped."""
    needed = [arm.calibrate() for arm in arms]
    steps = min(max(needed), LONGEST * min(needed))
    for arm in arms:
        arm.steps = steps
        arm.turn()
    order = (arms[first], arms[1 - first], arms[1 - first], arms[first])
    end = time.perf_counter() + seconds
    while len(order[0].turns) < FEWEST or (
        time.perf_counter() < end and len(order[0].turns) < MOST
    ):
        for arm in order:
            arm.turns.append(arm.turn())


def compare(first: Any, second: Any) -> tuple[float, bool]:
    """Return how far two results lie apart, as a share of the largest number, and whether at all.

    What has another shape, kind or sign of infinity lies infinitely far apart.
    """
    ours, theirs = list(leaves(first)), list(leaves(second))
    if len(ours) != len(theirs):
        return math.inf, False
    pairs = list(zip(ours, theirs, strict=True))
    return max((_apart(*pair) for pair in pairs), default=0.0), all(_equal(*p) for p in pairs)


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result; numbers and arrays become tensors."""
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    elif value is not None:
        yield torch.as_tensor(value).detach().cpu()


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    same = first == second
    if first.is_floating_point():
        same |= first.isnan() & second.isnan()
    return bool(same.all())


def _apart(first: torch.Tensor, second: torch.Tensor) -> float:
    if first.shape != second.shape:
        return math.inf
    first, second = first.double(), second.double()
    if first.numel() == 0 or _equal(first, second):
        return 0.0
    far = (first - second).abs().max().item()
    return far / max(first.abs().max().item(), 1e-30) if math.isfinite(far) else math.inf


def allowed(level: int, difference: float, equal: bool) -> bool:
    """Whether results may lie so far apart, by the level that the fix declares (E0 to E3)."""
    return (equal, difference <= CLOSE, difference <= WITHIN, True)[level]


if __name__ == "__main__":
    main()
