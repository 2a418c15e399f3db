"""The accelerator, as far as times and memory need it; on a CPU nothing has to be waited for."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any


class Device:
    """Looks anew each time whether an accelerator is in use: scripts start it late."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.synchronize = torch.cuda.synchronize  # before a trace run counts its calls
        self.events: list[Any] = []

    def is_cuda(self) -> bool:
        """Whether this process uses CUDA; asking must not start it."""
        return bool(self.torch.cuda.is_initialized())

    def wait(self) -> None:
        """Wait until the device has done all it was asked."""
        torch = self.torch
        if self.is_cuda():
            self.synchronize()
        elif _is_mps(torch):
            torch.mps.synchronize()

    def open(self) -> None:
        """Begin a window: nothing is under way, and peaks count from here."""
        self.wait()
        if self.is_cuda():
            self.torch.cuda.reset_peak_memory_stats()
            self.events = [self._event()]

    def mark(self) -> None:
        """Note a step on the device's own clock, without waiting for it."""
        if self.events:
            self.events.append(self._event())

    def close(self, times: list[int], first: int) -> None:
        """End a window; ``times`` from step ``first`` on become those of the device."""
        self.wait()
        if self.is_cuda() or _is_mps(self.torch):
            times[-1] = max(perf_counter_ns(), times[-1])
        origin = times[first - 1]
        for place, event in enumerate(self.events[1:-1], start=first):
            times[place] = origin + int(self.events[0].elapsed_time(event) * 1e6)

    def memory(self) -> dict[str, int]:
        """Return bytes: peaks since the window began, on all devices, and what is free on one.

        To ask more devices than the current one would take memory on each of them.
        """
        if not self.is_cuda():
            return {}
        cuda = self.torch.cuda
        count = range(cuda.device_count())
        return {
            "allocated": sum(cuda.max_memory_allocated(place) for place in count),
            "reserved": sum(cuda.max_memory_reserved(place) for place in count),
            "free": cuda.mem_get_info()[0],
        }

    def name(self, optimizers: list[Any]) -> str:
        """Return "CPU", or the name of the GPU that the parameters are on."""
        kinds = {
            parameter.device.type
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        if "cuda" in kinds or (not kinds and self.is_cuda()):
            return str(self.torch.cuda.get_device_name())
        return "Apple GPU (MPS)" if "mps" in kinds else "CPU"

    def _event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _is_mps(torch: Any) -> bool:
    """Whether tensors were put on Apple's device; where it is not built in, it never is."""
    mps = getattr(torch, "mps", None)
    if mps is None or not torch.backends.mps.is_available():
        return False
    return bool(mps.current_allocated_memory())
