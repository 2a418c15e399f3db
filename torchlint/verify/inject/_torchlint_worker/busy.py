"""The share of a window in which the GPU had work, from the kernels that the profiler saw."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEPS = 20  # that are profiled at most: each has thousands of kernels


class Busy:
    """Profiles a few steps of a trace run on CUDA; where that cannot be, the share stays None."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.share: float | None = None
        self.profile: Any = None
        self.began = 0
        self.left = _STEPS

    def open(self) -> None:
        """Begin, with nothing under way on the device."""
        try:
            kinds = self.torch.profiler.ProfilerActivity
            profile = self.torch.profiler.profile(activities=[kinds.CUDA])
            profile.__enter__()
        except (AttributeError, RuntimeError, AssertionError):  # the script has its own profiler
            return
        self.profile = profile
        self.began = perf_counter_ns()

    def step(self, wait: Any, spent: int) -> None:
        """Count a step; the last one ends the profile."""
        self.left -= 1
        if self.left == 0:
            self.close(wait, spent)

    def close(self, wait: Any, spent: int) -> None:
        """End; ``wait`` waits for the device, ``spent`` are the nanoseconds of our own hooks."""
        profile, self.profile = self.profile, None
        if profile is None:
            return
        wait()
        length = perf_counter_ns() - self.began - spent
        profile.__exit__(None, None, None)
        spans = [_span(each) for each in profile.profiler.kineto_results.events() if _is_work(each)]
        if spans and length > 0:
            self.share = min(1.0, covered(spans) / length)


def _is_work(event: Any) -> bool:
    """Whether an event is a kernel or a copy: ranges that a script names hold idle time as well."""
    is_named = getattr(event, "is_user_annotation", bool)()
    return "CUDA" in str(event.device_type()) and not is_named


def _span(event: Any) -> tuple[int, int]:
    if hasattr(event, "start_ns"):
        return event.start_ns(), event.start_ns() + event.duration_ns()
    return event.start_us() * 1000, (event.start_us() + event.duration_us()) * 1000  # torch < 2.4


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the length that is covered by spans which may overlap."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
