"""The share of a window in which the GPU had work, from the kernels that the profiler saw."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEPS = 20  # that are profiled at most: each has thousands of kernels
_SETTLING = 5  # steps that are not: autotuning, compiling and first allocations


def profiler(torch: Any) -> Any:
    """Return a profiler of the GPU alone; raises where torch cannot make one.

    `torch.profiler.profile` would warn, and so end a script that makes errors of warnings.
    """
    return torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True)


class Busy:
    """Profiles settled steps of a trace run on CUDA; where that cannot be, the share stays None.

    The first third of a window's ``steps`` is left out, and at least five where there are enough.
    """

    def __init__(self, torch: Any, steps: int) -> None:
        self.torch = torch
        self.share: float | None = None
        self.profile: Any = None
        self.began = 0
        self.first = max(steps // 3, min(_SETTLING, steps // 2))
        self.made = -1  # steps of the window; its opening is one more call

    def turn(self) -> str:
        """Count a step of the window; say whether the profile begins or ends with it."""
        self.made += 1
        return {self.first: "begins", self.first + _STEPS: "ends"}.get(self.made, "")

    def open(self, wait: Any) -> None:
        """Begin, with nothing under way on the device; ``wait`` waits for it."""
        wait()
        try:
            if self._is_on():
                return  # the script has its own profiler, which this one would end
            profile = profiler(self.torch)
            profile.__enter__()
        except Exception:  # noqa: BLE001  # the script has to go on, whatever a profiler lacks
            return
        self.profile = profile
        self.began = perf_counter_ns()

    def close(self, wait: Any, spent: int) -> None:
        """End; ``wait`` waits for the device, ``spent`` are the nanoseconds of our own hooks."""
        profile, self.profile = self.profile, None
        if profile is None:
            return
        wait()
        length = perf_counter_ns() - self.began - spent
        try:
            if not self._is_on():
                return  # a profiler of the script came in between
            profile.__exit__(None, None, None)
        except Exception:  # noqa: BLE001  # see open
            return
        spans = [_span(each) for each in profile.kineto_results.events() if _is_work(each)]
        if spans and length > 0:
            self.share = min(1.0, covered(spans) / length)

    def _is_on(self) -> bool:
        return bool(self.torch.autograd._profiler_enabled())  # noqa: SLF001


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
