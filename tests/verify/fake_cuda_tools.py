"""A `torch` of which only the parts for CUDA exist; a test sets the clock of its device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Cuda:
    """Counts its calls; the device's clock is set by the test, in seconds."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.calls: list[str] = []
        self.mode = "default"
        self.started = True

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
    """Stands for `torch.profiler.profile`; its kernels are (start, length, device)."""

    kernels: tuple[tuple[int, int, str], ...] = ()

    def __init__(self, activities: list[str]) -> None:
        assert activities == ["CUDA"]
        events = [
            SimpleNamespace(
                start_ns=lambda start=start: start,
                duration_ns=lambda length=length: length,
                device_type=lambda device=device: f"DeviceType.{device}",
            )
            for start, length, device in self.kernels
        ]
        results = SimpleNamespace(events=lambda: events)
        self.profiler = SimpleNamespace(kineto_results=results)

    def __enter__(self) -> Profile:  # noqa: PYI034  Self is newer than Python 3.10
        return self

    def __exit__(self, *error: object) -> None:
        pass


def fake_torch() -> Any:
    profiler = SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA="CUDA"), profile=Profile)
    return SimpleNamespace(cuda=Cuda(), mps=None, profiler=profiler)
