"""A `torch` of which only the parts for CUDA exist; a test sets the clock of its device."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

NOTICE = (
    "Synchronization debug mode is a prototype feature and does not yet detect all "
    "synchronizing operations (Triggered internally at x.cpp:2.)"
)


class Cuda:
    """Counts its calls; the device's clock is set by the test, in seconds."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.calls: list[str] = []
        self.mode = "default"
        self.started = True
        self.noticed = 0  # times that torch told its notice of the mode

    def is_initialized(self) -> bool:
        return self.started

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset")

    def device_count(self) -> int:
        return 2

    def max_memory_allocated(self, device: int) -> int:
        return 100 + device

    def max_memory_reserved(self, device: int) -> int:
        return 200 + device

    def mem_get_info(self) -> tuple[int, int]:
        return 300, 1000

    def get_device_name(self) -> str:
        return "Fake GPU"

    def set_sync_debug_mode(self, mode: str) -> None:
        self.mode = mode
        self.noticed += 1
        warnings.warn(NOTICE, stacklevel=2)

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802  torch's name
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.time = 0.0

    def record(self) -> None:
        self.time = self.cuda.clock

    def elapsed_time(self, other: Event) -> float:
        return (other.time - self.time) * 1000


class Profile:
    """Stands for `torch.autograd.profiler.profile`; its kernels are (start, length, device)."""

    kernels: tuple[tuple[int, int, str], ...] = ()
    on = 0  # of these, and of others that a test says are on

    def __init__(self, **asked: object) -> None:
        assert asked == {"use_cpu": False, "use_device": "cuda", "use_kineto": True}
        events = [
            SimpleNamespace(
                start_ns=lambda start=start: start,
                duration_ns=lambda length=length: length,
                device_type=lambda device=device: f"DeviceType.{device}",
            )
            for start, length, device in self.kernels
        ]
        self.kineto_results = SimpleNamespace(events=lambda: events)

    def __enter__(self) -> Profile:  # noqa: PYI034  Self is newer than Python 3.10
        Profile.on += 1
        return self

    def __exit__(self, *error: object) -> None:
        Profile.on -= 1


def fake_torch() -> Any:
    Profile.on = 0
    autograd = SimpleNamespace(
        profiler=SimpleNamespace(profile=Profile), _profiler_enabled=lambda: Profile.on > 0
    )
    return SimpleNamespace(cuda=Cuda(), mps=None, autograd=autograd)
