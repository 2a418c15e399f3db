"""Runs in the process that is measured: one row, and what it gave at once, in parts.

Only the standard library and torch are needed here.  The job names the modules `before` and
`after`; with ``check``, their results are compared first, as well as `before` with itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import random
import statistics
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SCHEMA = 2  # grows when figures of another version of this file must not be mixed with its own
CHECKED = 3  # steps whose results are compared
TURN, CUDA_TURN = 0.02, 0.08  # seconds that a turn lasts at least: at its ends a GPU's queue drains
LONGEST = 10  # times as many steps as the slower arm needs for that: the faster may have less time
FEWEST, MOST = 2, 60  # turns of each arm
CLOSE = 1e-5  # what other rounding may change, as a share of the largest number (E1)
WITHIN = 0.2  # how far numbers may lie apart that are alike on the whole (E2)
ITSELF = 3.0  # times as far as `before` lies from itself, anything may lie
THREADS = 4  # with a GPU
SYNCHRONIZING = "called a synchronizing"  # torch warns so of each wait, and once of something else


def run(job: Mapping[str, Any], say: Callable[..., None]) -> None:
    """Do a job: tell of the machine, or measure a row.

    Raises:
        RuntimeError: there is no CUDA device, but one is asked for.

    """
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():  # the server asked for CUDA
        return say(poisoned=True)
    cuda = job["device"] != "cpu" and torch.cuda.is_available()
    if job["device"] == "cuda" and not cuda:
        raise RuntimeError("torch finds no CUDA device; say --device cpu")
    # threads that wait for each other make times of a small machine
    torch.set_num_threads(min(THREADS, torch.get_num_threads()) if cuda else 1)
    if "key" in job:
        return measure(job, cuda, say)
    sys.path.append(job["versions"])
    versions = importlib.import_module("_torchlint_worker.versions")  # that of `torchlint verify`
    name = torch.cuda.get_device_name() if cuda else "CPU"
    return say(machine={**versions.versions(torch, cuda=cuda), "device": name})


def measure(job: Mapping[str, Any], cuda: bool, say: Callable[..., None]) -> None:
    """Compare what both arms compute, let them take turns, and count their waits for a GPU."""
    switches = Switches()
    turn = job["turn"] if job["turn"] is not None else CUDA_TURN if cuda else TURN
    arms = [Arm(side, job[side], switches, cuda, turn) for side in ("before", "after")]
    itself: list[Any] = []
    if job["check"]:  # what the process pays once is paid by a third arm
        rehearsal = Arm("before", job["before"], switches, cuda)
        itself = rehearsal.load(job["seed"], CHECKED)
        rehearsal.drop()
        say(at="checked before against itself")
    results = []
    for arm in arms:
        results.append(arm.load(job["seed"], CHECKED if job["check"] else 1))
        say(at=f"loaded {arm.side}")
    if job["check"]:
        say(check=checked(job["level"], itself, *results))
    del itself, results
    if cuda:
        warm(job["warm"])
    take_turns(arms, job["seconds"], first=job["seed"] % 2, say=say)
    say(**{arm.side: arm.figures(cold=job["check"]) for arm in arms})
    if cuda and job["check"]:
        say(syncs={arm.side: arm.count_syncs() for arm in arms})
    for arm in arms:
        vars(arm.loaded).clear()  # so that loaders end their workers without waiting for each


def checked(level: int, itself: Any, before: Any, after: Any) -> dict[str, Any]:
    """Return how far the results lie apart, how far those of one arm do, and what is allowed."""
    difference, equal = compare(before, after)
    own, _ = compare(itself, before)
    return {
        "difference": difference if math.isfinite(difference) else None,
        "equal": equal,
        "allowed": allowed(level, difference, equal) or 0 < difference <= ITSELF * own < math.inf,
        "itself": own if math.isfinite(own) else None,
    }


def warm(seconds: float) -> None:
    """Keep the GPU busy for so long: an idle one has a clock of a fifth."""
    x = torch.rand(2048, 2048, device="cuda")
    until = time.perf_counter() + seconds
    rounds = 1
    while time.perf_counter() < until:
        begun = time.perf_counter()
        for _ in range(rounds):
            x @ x
        torch.cuda.synchronize()
        if time.perf_counter() - begun < seconds / 8:
            rounds *= 2


def seed(number: int) -> None:
    """Seed what a program may draw from."""
    random.seed(number)
    torch.manual_seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


class Switches:
    """The switches of torch that hold for the whole process, so that arms do not share them."""

    def __init__(self) -> None:
        backends = torch.backends
        named = [
            *((of, "allow_tf32") for of in (backends.cudnn, backends.cuda.matmul)),
            *((backends.cudnn, name) for name in ("benchmark", "deterministic")),
            # the newer names of what `allow_tf32` sets: they come last and are the last word
            *(
                (of, "fp32_precision")
                for of in _parts(backends, "cudnn cudnn.conv cudnn.rnn cuda.matmul mkldnn "
                                           "mkldnn.conv mkldnn.rnn mkldnn.matmul")
            ),
        ]  # fmt: skip
        self.known: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
            (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
            (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
            (torch.get_default_dtype, torch.set_default_dtype),
            (torch.get_num_threads, torch.set_num_threads),
            *(
                (lambda of=of, name=name: getattr(of, name),
                 lambda value, of=of, name=name: setattr(of, name, value))
                for of, name in named
            ),
        )  # fmt: skip
        self.first = self.read()

    def read(self) -> list[Any]:
        """Return how they stand."""
        return [_read(get) for get, _ in self.known]

    def set(self, values: Sequence[Any]) -> None:
        """Put those that stand otherwise as they were read."""
        for (get, put), value in zip(self.known, values, strict=True):
            if value is not UNREADABLE and _read(get) != value:
                put(value)

    def reset(self) -> None:
        """Put them as they were at first."""
        self.set(self.first)


UNREADABLE = object()


def _read(get: Callable[[], Any]) -> Any:
    """Return how a switch stands; torch cannot say it of an old one once a newer one was set."""
    try:
        return get()
    except RuntimeError:
        return UNREADABLE


def _parts(backends: Any, names: str) -> Iterator[Any]:
    """Yield the parts of torch that have the newer switch, as far as this torch has them."""
    for name in names.split():
        part = backends
        for step in name.split("."):
            part = getattr(part, step, None)
        if hasattr(part, "fp32_precision"):
            yield part


class Arm:
    """One module and its times."""

    def __init__(
        self, side: str, module: str, switches: Switches, cuda: bool, shortest: float = TURN
    ) -> None:
        self.side = side
        self.module = module
        self.switches = switches
        self.cuda = cuda
        self.shortest = shortest
        self.steps = 1
        self.seconds = 0.0  # that importing it and its first steps took
        # seconds a step by the clock, of the processor, on the GPU; the host's share of the first
        self.turns: list[tuple[float, float, float, float]] = []
        self.memory: int | None = None

    def load(self, number: int, steps: int) -> list[torch.Tensor]:
        """Import the module anew, and return what its first steps compute."""
        self.switches.reset()
        sys.modules.pop(self.module, None)
        held = 0
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
        seed(number)
        begun = time.perf_counter()
        self.loaded = importlib.import_module(self.module)
        self.run = self.loaded.run
        result = self.run(steps)
        if self.cuda:
            torch.cuda.synchronize()
            self.memory = torch.cuda.max_memory_allocated() - held
        self.seconds = time.perf_counter() - begun
        self.stand = self.switches.read()
        return [leaf.clone() for leaf in leaves(result)]  # later steps change parameters in place

    def drop(self) -> None:
        """Free what the module holds."""
        vars(self.loaded).clear()
        del self.run
        sys.modules.pop(self.module, None)
        gc.collect()

    def count_syncs(self) -> float:
        """Return the waits for the GPU in a step: those torch warns of, and those asked for."""
        self.switches.set(self.stand)
        self.run(1)
        # the filters are changed for good, as this process is at its end
        with warnings.catch_warnings(record=True) as caught, _asked() as asked:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self.run(CHECKED)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        told = sum(SYNCHRONIZING in str(each.message) for each in caught)
        return (told + len(asked)) / CHECKED

    def calibrate(self) -> int:
        """Find how many steps make a turn; the steps that it takes are the warm-up."""
        wall = math.inf
        for _ in range(3):
            wall = min(wall, self.turn()[0])
            if wall > self.shortest:
                break
        return max(1, math.ceil(self.shortest / max(wall, 1e-9)))

    def turn(self) -> tuple[float, float, float, float]:
        """Make the steps of a turn, and return what one took."""
        self.switches.set(self.stand)
        if self.cuda:
            torch.cuda.synchronize()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            first.record()
        wall, cpu = time.perf_counter(), time.process_time()
        self.run(self.steps)
        host = time.perf_counter() - wall
        if self.cuda:
            last.record()
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        gpu = first.elapsed_time(last) / 1e3 / self.steps if self.cuda else math.nan
        return wall / self.steps, cpu / self.steps, gpu, host / wall

    def figures(self, *, cold: bool) -> dict[str, Any]:
        """Return the middle of the turns; ``cold``: nothing of the module was there before."""
        wall, cpu, gpu, host = (statistics.median(each) for each in zip(*self.turns, strict=True))
        return {
            "wall": wall,
            "cpu": cpu,
            "gpu": gpu if self.cuda else None,
            "memory": self.memory if cold else None,
            "host": host if self.cuda else None,
            "setup": max(0.0, self.seconds - CHECKED * wall) if cold else None,
        }


@contextlib.contextmanager
def _asked() -> Iterator[list[None]]:
    """Note the waits that a program asks for by name: torch does not warn of them."""
    asked: list[None] = []
    places: list[tuple[Any, Callable[..., Any]]] = [(torch.cuda, torch.cuda.synchronize)]
    places += [(of, of.synchronize) for of in (torch.cuda.Event, torch.cuda.Stream)]

    def noting(wait: Callable[..., Any]) -> Callable[..., Any]:
        def synchronize(*args: Any, **named: Any) -> Any:
            asked.append(None)
            return wait(*args, **named)

        return synchronize

    for of, wait in places:
        of.synchronize = noting(wait)
    try:
        yield asked
    finally:
        for of, wait in places:
            of.synchronize = wait


def take_turns(arms: Sequence[Arm], seconds: float, first: int, say: Callable[..., None]) -> None:
    """Time both arms in the order ABBA, until the time is over; the first turns are dropped."""
    needed = [arm.calibrate() for arm in arms]
    steps = min(max(needed), LONGEST * min(needed))
    for arm in arms:
        arm.steps = steps
        if steps > 1:  # else it has been
            arm.turn()
        say(at="warm")
    order = (arms[first], arms[1 - first], arms[1 - first], arms[first])
    end = time.perf_counter() + seconds
    while len(order[0].turns) < FEWEST or (
        time.perf_counter() < end and len(order[0].turns) < MOST
    ):
        for arm in order:
            arm.turns.append(arm.turn())
        say(at="timed")


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
        yield torch.as_tensor(value).detach()


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    second = second.to(first.device)
    same = first == second
    if first.is_floating_point():
        same |= first.isnan() & second.isnan()
    return bool(same.all())


def _apart(first: torch.Tensor, second: torch.Tensor) -> float:
    if first.shape != second.shape:
        return math.inf
    first, second = first.double(), second.to(first.device).double()
    if first.numel() == 0 or _equal(first, second):
        return 0.0
    far = (first - second).abs().max().item()
    return far / max(first.abs().max().item(), 1e-30) if math.isfinite(far) else math.inf


def allowed(level: int, difference: float, equal: bool) -> bool:
    """Whether results may lie so far apart, by the level that the fix declares (E0 to E3)."""
    return (equal, difference <= CLOSE, difference <= WITHIN, True)[level]
